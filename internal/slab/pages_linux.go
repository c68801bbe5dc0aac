package slab

import "golang.org/x/sys/unix"

// hugePages asks for b in pages of some MiB.
func hugePages(b []byte) { _ = unix.Madvise(b, unix.MADV_HUGEPAGE) }
