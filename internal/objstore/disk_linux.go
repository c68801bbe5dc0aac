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
