package machine

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// Scheduling is how the kernel schedules the calling thread, as in "nice 0" or "fifo 1"; "" if it does not say.
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

// Ordinarily calls f on a thread that is scheduled as programs are by default, so that a process that f starts is too,
// whatever this one is.
func Ordinarily(f func() error) error {
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
		err = fmt.Errorf("set scheduling back: %w", e)
	}
	return err
}
