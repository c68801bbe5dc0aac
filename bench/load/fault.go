package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sebbroker/seb/bench/machine"
	"github.com/sebbroker/seb/bench/result"
	"github.com/sebbroker/seb/bench/workload"
)

// fault waits for the time of a fault, injects it, and records when it was active.
func (r *run) runFault(ctx context.Context, f workload.Fault) {
	if r.clock.SleepUntil(ctx, r.measureFrom+int64(f.At)) != nil {
		return
	}
	from := r.clock.Now()
	err := r.inject(ctx, f)
	done := result.Fault{Fault: f, From: r.seconds(from), To: r.seconds(r.clock.Now())}
	if err != nil {
		done.Error = err.Error()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = append(r.faults, done)
}

func (r *run) inject(ctx context.Context, f workload.Fault) error {
	until := r.clock.Now() + int64(f.For)
	switch f.Kind {
	case workload.Pause:
		return r.pause(ctx, until)
	case workload.Slow:
		r.delay.Store(int64(f.Delay))
		defer r.delay.Store(0)
		return r.clock.SleepUntil(ctx, until)
	case workload.Hold:
		r.holdUntil.Store(until)
		defer r.holdUntil.Store(0)
		return r.clock.SleepUntil(ctx, until)
	case workload.Restart:
		if err := r.signal(syscall.SIGKILL); err != nil {
			return err
		}
	}
	return r.command(ctx, f.Run)
}

// pause stops the broker's process until the given clock time. The process continues afterwards,
// even after an error.
func (r *run) pause(ctx context.Context, until int64) (err error) {
	if err := r.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.signal(syscall.SIGCONT)) }()
	return r.clock.SleepUntil(ctx, until)
}

func (r *run) signal(sig syscall.Signal) error {
	pid := int(r.pid.Load())
	if pid <= 1 || pid == os.Getpid() {
		return fmt.Errorf("send %v: process %d is not a broker", sig, pid)
	}
	if err := syscall.Kill(pid, sig); err != nil {
		return fmt.Errorf("send %v to process %d: %w", sig, pid, err)
	}
	return nil
}

// commandMax limits the run time of a command.
const commandMax = 5 * time.Minute

// outputMax limits how much of a command's output an error quotes.
const outputMax = 500

// command runs a shell command. If the last line of its output is a number, that is the process id
// of the broker from then on. Processes that the command leaves running do not delay the run.
func (r *run) command(ctx context.Context, text string) error {
	ctx, cancel := context.WithTimeout(ctx, commandMax)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", text)
	cmd.Env = append(os.Environ(), fmt.Sprintf("PID=%d", r.pid.Load()))
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := machine.WithDefaultScheduling(cmd.Start)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		said := out.String()
		return fmt.Errorf("command %q: %w: %s", text, err, said[:min(len(said), outputMax)])
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if pid, err := strconv.Atoi(strings.TrimSpace(lines[len(lines)-1])); err == nil && pid > 1 {
		r.pid.Store(int64(pid))
	}
	return nil
}
