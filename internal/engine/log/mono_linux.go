package log

import (
	"time"

	"golang.org/x/sys/unix"
)

// mono is a monotonic clock in ns. It also counts while the machine sleeps.
func mono() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return int64(time.Since(began))
	}
	return t.Nano()
}

var began = time.Now()
