package compactor

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// copyFile copies n bytes from a position of one file to a position of another. Where the kernel can, it does so without
// this process seeing them, or has both share them.
func copyFile(to *os.File, at int64, from *os.File, pos, n int64) error {
	for n > 0 {
		done, err := unix.CopyFileRange(int(from.Fd()), &pos, int(to.Fd()), &at, int(min(n, 1<<30)), 0)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil: // two file systems, or one that can not; what is wrong with the files shows again
			return copyBytes(to, at, from, pos, n)
		case done == 0:
			return io.ErrUnexpectedEOF
		}
		n -= int64(done)
	}
	return nil
}
