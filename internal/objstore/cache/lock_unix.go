//go:build unix

package cache

import (
	"errors"
	"os"
	"syscall"
)

// flock takes the folder's lock, which ends with the process or the file. File systems without locks go unlocked.
func flock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errInUse
	}
	return nil
}
