package objstore

import (
	"os"

	"golang.org/x/sys/unix"
)

// linkNoReplace links a file to its second name unless that is taken (EEXIST), then unlinks the
// first. If the second step fails, the next open removes the temporary name.
func linkNoReplace(from *os.File, fromName string, to *os.File, toName string) error {
	if err := unix.Linkat(int(from.Fd()), fromName, int(to.Fd()), toName, 0); err != nil {
		return err
	}
	_ = unix.Unlinkat(int(from.Fd()), fromName, 0)
	return nil
}
