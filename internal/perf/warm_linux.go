package perf

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// warmBytes is more than a run writes.
const warmBytes = 5 << 30

// warm touches as much memory as a run needs, or most of what is free. A virtual machine may have given free pages back
// to its host, and getting one again can cost more than all that is measured here: ten times what writing to it does.
func warm() error {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return fmt.Errorf("how much memory is free: %w", err)
	}
	free := int64(info.Freeram) * int64(info.Unit)
	n := min(warmBytes, free/4*3)
	if n < 1<<20 {
		return nil
	}
	b, err := unix.Mmap(-1, 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return fmt.Errorf("map %d bytes: %w", n, err)
	}
	for i := 0; i < len(b); i += 4 << 10 {
		b[i] = 1
	}
	return unix.Munmap(b)
}
