//go:build unix

package cache

import (
	"errors"
	"os"
	"syscall"
)

// flock locks the folder until the process ends or the file is closed. File systems without locks
// are used without.
func flock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errInUse
	}
	return nil
}

// unlock ends the lock and closes the file. Close alone keeps the lock while a child process that was
// just forked still has the file, which it closes with its exec.
func unlock(f *os.File) error {
	_ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN) // file systems without locks have none to end
	return f.Close()
}
