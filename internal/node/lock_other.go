//go:build !unix

package node

import "os"

// lockFile takes no lock: no portable lock ends when a process is killed.
func lockFile(name string) (*os.File, error) {
	return os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
}

// unlock closes the file.
func unlock(f *os.File) error { return f.Close() }
