//go:build !linux

package compact

import "os"

// copyFile copies n bytes between positions of two files.
func copyFile(to *os.File, at int64, from *os.File, pos, n int64) error {
	return copyBytes(to, at, from, pos, n)
}
