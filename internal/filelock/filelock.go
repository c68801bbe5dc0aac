// Package filelock gives a file or folder to one process.
package filelock

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// ErrInUse: another process has the lock, or another open file of this one.
var ErrInUse = errors.New("in use by another process")

// Lock locks an open file or folder, without waiting. The lock ends with Close, or with the process,
// even if it is killed. Errors: ErrInUse, and those of file systems without locks.
func Lock(f *os.File) error {
	for {
		switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
		case errors.Is(err, unix.EWOULDBLOCK):
			return ErrInUse
		case !errors.Is(err, unix.EINTR):
			return err
		}
	}
}

// Close ends the lock and closes the file. The file's own Close keeps the lock while a child process
// that was just forked still has the file, which it closes with its exec.
func Close(f *os.File) error {
	_ = unix.Flock(int(f.Fd()), unix.LOCK_UN) // file systems without locks have none to end
	return f.Close()
}
