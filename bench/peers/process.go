package peers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sebbroker/seb/bench/machine"
)

// Process is a started process. It is the leader of its own session.
type Process struct {
	Name string `json:"name"`
	PID  int    `json:"pid"`
	Born uint64 `json:"born"` // start time in clock ticks since boot, because the PID may be reused
	Log  string `json:"log"`
	// Command is the command line, without the environment.
	Command string `json:"command"`
}

const (
	stopWait = 15 * time.Second
	killWait = 5 * time.Second
	tailMax  = 1500
)

// run starts a program that outlives this process. Its output is a log file in the peer's folder.
func (p *Peer) run(name string, env []string, program string, args ...string) error {
	log, err := os.Create(filepath.Join(p.Dir, name+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	c := exec.Command(program, args...)
	c.Dir, c.Env, c.Stdout, c.Stderr = p.Dir, append(os.Environ(), env...), log, log
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := machine.WithDefaultScheduling(c.Start); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	one := Process{Name: name, PID: c.Process.Pid, Log: log.Name(), Command: strings.Join(append([]string{program}, args...), " ")}
	if s, err := machine.Process(one.PID); err == nil {
		one.Born = s.Born
	}
	p.Processes = append(p.Processes, one)
	p.PID = one.PID
	return c.Process.Release()
}

// alive reports whether the process runs. A process with a reused PID does not count.
func (o *Process) alive() bool {
	s, err := machine.Process(o.PID)
	if err != nil || s.Born != o.Born {
		return false
	}
	if s.Dead {
		var status syscall.WaitStatus
		_, _ = syscall.Wait4(o.PID, &status, syscall.WNOHANG, nil) // reap it if it is a child of this process
	}
	return !s.Dead
}

// members returns the PIDs of the session's live processes, filtered by name unless it is "". If
// the PID was reused, the session is empty: the kernel does not reuse the PID of a non-empty
// session.
func (o *Process) members(name string) []int {
	if s, err := machine.Process(o.PID); err == nil && s.Born != o.Born {
		return nil
	}
	var list []int
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		s, err := machine.Process(pid)
		if err == nil && !s.Dead && s.Session == o.PID && s.Born >= o.Born && (name == "" || s.Name == name) {
			list = append(list, pid)
		}
	}
	return list
}

// tail returns the end of the log.
func (o *Process) tail() string {
	text, err := os.ReadFile(o.Log)
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(text[max(0, len(text)-tailMax):]))
}

// end terminates all processes of the session: it sends SIGTERM, waits up to stopWait, then sends
// SIGKILL.
func (o *Process) end(ctx context.Context) error {
	for _, step := range []struct {
		signal syscall.Signal
		wait   time.Duration
	}{{syscall.SIGTERM, stopWait}, {syscall.SIGKILL, killWait}} {
		ends := time.Now().Add(step.wait)
		for first := true; ; first = false {
			list := o.members("")
			// A process that is exiting no longer has a session.
			if !o.alive() && len(list) == 0 {
				return nil
			}
			if first || step.signal == syscall.SIGKILL {
				for _, pid := range list {
					_ = syscall.Kill(pid, step.signal) // the process may have exited
				}
			}
			if time.Now().After(ends) {
				break
			}
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(askEvery):
			}
		}
	}
	return fmt.Errorf("processes %v of %s do not end", o.members(""), o.Name)
}

// alive reports whether all processes of the peer run.
func (p *Peer) alive() bool {
	return len(p.Processes) > 0 && !slices.ContainsFunc(p.Processes, func(o Process) bool { return !o.alive() })
}

// Stop terminates the peer's processes in reverse start order, and kills those that do not exit in
// time. It keeps the data. It may be called again.
func (p *Peer) Stop(ctx context.Context) error {
	var faults []error
	for _, one := range slices.Backward(p.Processes) {
		faults = append(faults, one.end(ctx))
	}
	return errors.Join(faults...)
}

// Kill sends SIGKILL to the broker to simulate a crash. Other processes of the peer run until Stop.
func (p *Peer) Kill() error { return syscall.Kill(p.PID, syscall.SIGKILL) }

// settle sets the PID of the broker if a script has started it.
func (p *Peer) settle() error {
	if !strings.HasPrefix(p.Name, "rabbitmq") {
		return nil
	}
	last := p.Processes[len(p.Processes)-1]
	list := last.members("beam.smp")
	if len(list) != 1 {
		return fmt.Errorf("want one process beam.smp of %s, there are %v", last.Name, list)
	}
	p.PID = list[0]
	return nil
}

// freePorts returns n TCP ports of the loopback address without a listener. They are below the range
// of ephemeral ports, so that the kernel does not assign them to connections before the broker listens.
func freePorts(n int) ([]int, error) {
	const first, count, tries = 10_000, 20_000, 50
	var list []int
	for range n + tries {
		l, err := net.Listen("tcp", loopback(first+rand.IntN(count)))
		if err != nil {
			continue // taken
		}
		defer l.Close() // close all after the loop, so that the ports differ
		if list = append(list, l.Addr().(*net.TCPAddr).Port); len(list) == n {
			return list, nil
		}
	}
	return nil, fmt.Errorf("%d of %d ports are free after %d tries between %d and %d", len(list), n, n+tries, first, first+count)
}

// loopback returns the loopback address with a port.
func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
