//go:build unix

package node

import (
	"errors"
	"os"
	"syscall"
)

// lockFile locks a file. The lock ends with the process, even if it is killed.
func lockFile(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, ErrFolderInUse
		}
		return nil, err
	}
	return f, nil
}

// unlock ends the lock and closes the file. Close alone keeps the lock while a child process that was
// just forked still has the file, which it closes with its exec.
func unlock(f *os.File) error {
	return errors.Join(syscall.Flock(int(f.Fd()), syscall.LOCK_UN), f.Close())
}
