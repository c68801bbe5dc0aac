//go:build !unix

package cache

import "os"

// flock does nothing on systems without such locks.
func flock(*os.File) error { return nil }

// unlock closes the file.
func unlock(f *os.File) error { return f.Close() }
