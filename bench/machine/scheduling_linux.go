package machine

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// Scheduling returns how the kernel schedules the calling thread, such as "nice 0" or "fifo 1"; ""
// if it is unknown.
func Scheduling() string {
	a, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		return ""
	}
	switch a.Policy {
	case unix.SCHED_FIFO:
		return fmt.Sprintf("fifo %d", a.Priority)
	case unix.SCHED_RR:
		return fmt.Sprintf("round robin %d", a.Priority)
	case unix.SCHED_NORMAL:
		return fmt.Sprintf("nice %d", a.Nice)
	}
	return fmt.Sprintf("policy %d", a.Policy)
}

// WithDefaultScheduling calls f on a thread with the default scheduling of programs, which
// processes that f starts inherit.
func WithDefaultScheduling(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	was, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		return fmt.Errorf("read scheduling: %w", err)
	}
	if was.Policy == unix.SCHED_NORMAL && was.Nice == 0 {
		return f()
	}
	if err := unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_NORMAL}, 0); err != nil {
		return fmt.Errorf("set scheduling: %w", err)
	}
	err = f()
	if e := unix.SchedSetAttr(0, was, 0); err == nil && e != nil {
		err = fmt.Errorf("restore scheduling: %w", e)
	}
	return err
}
