package compact

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// copyFile copies n bytes between positions of two files. Where possible the kernel copies them, or
// lets both files share them.
func copyFile(to *os.File, at int64, from *os.File, pos, n int64) error {
	for n > 0 {
		done, err := unix.CopyFileRange(int(from.Fd()), &pos, int(to.Fd()), &at, int(min(n, 1<<30)), 0)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil: // two file systems, or an unsupported one; copyBytes reports file errors
			return copyBytes(to, at, from, pos, n)
		case done == 0:
			return io.ErrUnexpectedEOF
		}
		n -= int64(done)
	}
	return nil
}
