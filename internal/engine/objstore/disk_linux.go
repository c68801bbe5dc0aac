package objstore

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func dataSync(fd int) error { return unix.Fdatasync(fd) }

// allocate reserves the disk space of a file at once, which takes fewer changes of the file
// system's journal than growing it step by step. Errors are ignored: the file then grows as it is
// written, and a full disk fails the write.
func allocate(fd int, size int64) { _ = unix.Fallocate(fd, 0, 0, size) }

// reserve is allocate for a file that must not fail for lack of space later.
func reserve(fd int, size int64) error {
	err := unix.Fallocate(fd, 0, 0, size)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return nil // the zeros that are written next take the space
	}
	return err
}

func pwritev(fd int, iovs [][]byte, offset int64) (int, error) {
	return unix.Pwritev(fd, iovs, offset)
}

// journalsWork reports whether the file system is one on which journals were tested: overwriting
// prepared blocks takes no space, a made folder is seen by every process at once, and fdatasync
// reaches the disk.
func journalsWork(fd int) bool {
	var s unix.Statfs_t
	if unix.Fstatfs(fd, &s) != nil {
		return false
	}
	switch uint32(s.Type) {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.TMPFS_MAGIC:
		return true
	}
	return false
}

// readDirect reads past the page cache. ok is false if the file system cannot, or the file has no
// name any more.
func readDirect(root *os.Root, name string, p []byte, off int64) (ok bool, err error) {
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_DIRECT, 0)
	if errors.Is(err, unix.EINVAL) || missing(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	_, err = f.ReadAt(p, off)
	if errors.Is(err, unix.EINVAL) {
		return false, nil
	}
	return true, err
}

// writeBack makes the kernel start to write a part of a file to the disk. It guarantees nothing,
// and does not consume an error that the following fdatasync must return.
func writeBack(fd int, offset, size int64) error {
	err := unix.SyncFileRange(fd, offset, size, unix.SYNC_FILE_RANGE_WRITE)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EINTR) {
		return nil // not supported by the file system or sandbox
	}
	return err
}

// settle makes the kernel write a part of a file to the disk and waits for it. It may return, and
// thereby consume, an error that fdatasync would return otherwise.
func settle(fd int, offset, size int64) error {
	for {
		err := unix.SyncFileRange(fd, offset, size, unix.SYNC_FILE_RANGE_WRITE|unix.SYNC_FILE_RANGE_WAIT_AFTER)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL):
			return nil // not supported by the file system or sandbox
		}
		return err
	}
}

// openBeneath opens a file below the folder for reading with one system call. It fails if the path
// leaves the folder.
func openBeneath(folder *os.File, name string) (*os.File, error) {
	how := unix.OpenHow{Flags: unix.O_RDONLY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH}
	fd, err := unix.Openat2(int(folder.Fd()), name, &how)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// moveNoReplace renames unless the new name is taken (EEXIST). On file systems without
// RENAME_NOREPLACE (NFS, some FUSE) it links and unlinks.
func moveNoReplace(from *os.File, fromName string, to *os.File, toName string) error {
	err := unix.Renameat2(int(from.Fd()), fromName, int(to.Fd()), toName, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return linkNoReplace(from, fromName, to, toName)
	}
	return err
}
