package perf

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"

	"golang.org/x/sys/unix"
)

// warmBytes is more than a run writes.
const warmBytes = 5 << 30

// warm lets the program touch as much memory as a run needs, or most of what is free. A virtual machine may have given free
// pages back to its host, and getting one again can cost more than all that is measured here: ten times what writing to it
// does. It is a process of its own because the peak of a process counts for those that it starts.
func warm(ctx context.Context, program string) error {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return fmt.Errorf("how much memory is free: %w", err)
	}
	n := min(warmBytes, int64(info.Freeram)*int64(info.Unit)/4*3)
	if out, err := exec.CommandContext(ctx, program, "-touch", strconv.FormatInt(n, 10)).CombinedOutput(); err != nil {
		return fmt.Errorf("touch %d bytes: %w: %s", n, err, out)
	}
	return nil
}

// Touch maps n bytes and writes to each page.
func Touch(n int64) error {
	if n <= 0 || n > warmBytes {
		return fmt.Errorf("%d bytes, want 1 to %d", n, int64(warmBytes))
	}
	b, err := unix.Mmap(-1, 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return fmt.Errorf("map %d bytes: %w", n, err)
	}
	for i := 0; i < len(b); i += os.Getpagesize() {
		b[i] = 1
	}
	return unix.Munmap(b)
}
