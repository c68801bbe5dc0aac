package machine

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const traceWait = 1500 * time.Millisecond

// DelayFlushes makes each fsync and fdatasync of a process, and of the processes that it starts from now on, take longer,
// until stop is called.
func DelayFlushes(ctx context.Context, pid int, by time.Duration) (stop func(), err error) {
	const calls = "fsync,fdatasync"
	c := exec.CommandContext(ctx, "strace", "-f", "-qq", "-o", "/dev/null", "-p", strconv.Itoa(pid), "-e", "trace="+calls,
		"-e", fmt.Sprintf("inject=%s:delay_exit=%d", calls, by.Microseconds()))
	var said strings.Builder
	c.Stderr = &said
	if err := c.Start(); err != nil {
		return nil, fmt.Errorf("test of the flush: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	select {
	case err := <-ended:
		return nil, fmt.Errorf("test of the flush: strace ended: %w: %s", errors.Join(err, ctx.Err()), said.String())
	case <-time.After(traceWait): // until it traces all threads
	}
	return func() {
		_ = c.Process.Signal(syscall.SIGINT) // it detaches
		<-ended
	}, nil
}
