package objstore

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func dataSync(fd int) error { return unix.Fdatasync(fd) }

// allocate gives a file its size and, at once, its place on the disk: fewer changes to the file system's journal than
// with a stretch found for each step of the writing. Where it can not be had the file grows as it is written; a disk that
// is full says so then.
func allocate(fd int, size int64) { _ = unix.Fallocate(fd, 0, 0, size) }

// writeBack has the kernel begin to write a part of a file to the disk. It promises nothing, nor takes it an error away
// from the fdatasync that follows.
func writeBack(fd int, offset, size int64) error {
	err := unix.SyncFileRange(fd, offset, size, unix.SYNC_FILE_RANGE_WRITE)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EINTR) {
		return nil // a file system or a sandbox without it
	}
	return err
}

// settle has the kernel write a part of a file to the disk and waits until it has. An error that it returns is one that the
// fdatasync would have returned, and now does not.
func settle(fd int, offset, size int64) error {
	for {
		err := unix.SyncFileRange(fd, offset, size, unix.SYNC_FILE_RANGE_WRITE|unix.SYNC_FILE_RANGE_WAIT_AFTER)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL):
			return nil // a file system or a sandbox without it
		}
		return err
	}
}

// openBeneath opens a file for reading with one system call, and nothing that is not below the folder.
func openBeneath(folder *os.File, name string) (*os.File, error) {
	how := unix.OpenHow{Flags: unix.O_RDONLY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH}
	fd, err := unix.Openat2(int(folder.Fd()), name, &how)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// moveNoReplace renames unless the new name is taken (EEXIST). File systems without that (NFS, some FUSE) get a link
// and an unlink.
func moveNoReplace(from *os.File, fromName string, to *os.File, toName string) error {
	err := unix.Renameat2(int(from.Fd()), fromName, int(to.Fd()), toName, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return linkNoReplace(from, fromName, to, toName)
	}
	return err
}
