//go:build !linux

package main

import "errors"

// The values below are for Linux only.

func openFilesMax() int64 { return 0 }

func machineMemory() int64 { return 0 }

func diskSpace(string) (free, total int64, err error) {
	return 0, 0, errors.ErrUnsupported
}

func clockSynchronized() (synchronized, known bool) { return false, false }
