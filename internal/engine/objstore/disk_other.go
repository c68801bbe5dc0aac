//go:build unix && !linux

package objstore

import (
	"os"

	"golang.org/x/sys/unix"
)

// dataSync uses os.File, which calls F_FULLFSYNC on Darwin: a plain fsync leaves data in the
// drive's cache there.
func dataSync(fd int) error {
	copied, err := dup(fd)
	if err != nil {
		return err
	}
	err = copied.Sync()
	_ = copied.Close()
	return err
}

// allocate, writeBack and settle are optimizations that only Linux supports.
func allocate(int, int64) {}

func reserve(int, int64) error { return nil }

// journalsWork: journals were tested on Linux only.
func journalsWork(int) bool { return false }

func pwritev(int, [][]byte, int64) (int, error) { return 0, unix.ENOSYS }

func readDirect(*os.Root, string, []byte, int64) (bool, error) { return false, nil }

func writeBack(int, int64, int64) error { return nil }

func settle(int, int64, int64) error { return nil }

// openBeneath is supported only on Linux.
func openBeneath(*os.File, string) (*os.File, error) { return nil, unix.ENOSYS }

func moveNoReplace(from *os.File, fromName string, to *os.File, toName string) error {
	return linkNoReplace(from, fromName, to, toName)
}

func dup(fd int) (*os.File, error) {
	copied, err := unix.Dup(fd)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(copied), "temporary file"), nil
}
