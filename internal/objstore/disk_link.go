package objstore

import (
	"os"

	"golang.org/x/sys/unix"
)

// linkNoReplace gives a file its second name unless that is taken (EEXIST), then takes the first one away. If the
// second step fails the file has two names, and the temporary one is swept at the next open.
func linkNoReplace(from *os.File, fromName string, to *os.File, toName string) error {
	if err := unix.Linkat(int(from.Fd()), fromName, int(to.Fd()), toName, 0); err != nil {
		return err
	}
	_ = unix.Unlinkat(int(from.Fd()), fromName, 0)
	return nil
}
