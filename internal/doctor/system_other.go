//go:build !linux

package doctor

import "errors"

// The values below are for Linux only.

func openFiles() int64 { return 0 }

func memory() int64 { return 0 }

func diskSpace(string) (free, total int64, err error) {
	return 0, 0, errors.ErrUnsupported
}

func clockSynchronized() (synchronized, known bool) { return false, false }
