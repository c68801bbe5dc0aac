package objstore

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// ErrFileInUse: another process has the lock, or another open file of this one.
var ErrFileInUse = errors.New("in use by another process")

// LockFile locks an open file or folder, without waiting. The lock ends with CloseFile, or with the process,
// even if it is killed. Errors: ErrFileInUse, and those of file systems without locks.
func LockFile(f *os.File) error {
	for {
		switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
		case errors.Is(err, unix.EWOULDBLOCK):
			return ErrFileInUse
		case !errors.Is(err, unix.EINTR):
			return err
		}
	}
}

// CloseFile ends the lock and closes the file. The file's own Close keeps the lock while a child process
// that was just forked still has the file, which it closes with its exec.
func CloseFile(f *os.File) error {
	_ = unix.Flock(int(f.Fd()), unix.LOCK_UN) // file systems without locks have none to end
	return f.Close()
}
