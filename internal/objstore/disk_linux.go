package objstore

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func dataSync(fd int) error { return unix.Fdatasync(fd) }

// moveNoReplace renames unless the new name is taken (EEXIST). File systems without that (NFS, some FUSE) get a link
// and an unlink.
func moveNoReplace(from *os.File, fromName string, to *os.File, toName string) error {
	err := unix.Renameat2(int(from.Fd()), fromName, int(to.Fd()), toName, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return linkNoReplace(from, fromName, to, toName)
	}
	return err
}
