package peers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sebbroker/seb/internal/machine"
)

// Process is one that was started, the first of a session of its own.
type Process struct {
	Name string `json:"name"`
	PID  int    `json:"pid"`
	Born uint64 `json:"born"` // clock ticks from the machine's start to the process's: another one may get its number
	Log  string `json:"log"`
	// Command is how it was started, without its environment.
	Command string `json:"command"`
}

const (
	stopWait = 15 * time.Second
	killWait = 5 * time.Second
	tailMax  = 1500
)

// run starts a program that outlives this process, with its output in the peer's folder.
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
	if stat, err := readStat(one.PID); err == nil {
		one.Born = stat.born
	}
	p.Processes = append(p.Processes, one)
	p.PID = one.PID
	return c.Process.Release()
}

// stat is what is read of /proc/PID/stat.
type stat struct {
	name    string
	dead    bool // it waits for its parent to notice
	session int
	born    uint64
}

var errStat = errors.New("the process is not as expected")

func readStat(pid int) (stat, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return stat{}, err
	}
	// The name is in brackets and may hold anything.
	open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return stat{}, errStat
	}
	fields := strings.Fields(string(text[end+1:]))
	const state, session, born = 0, 3, 19 // fields 3, 6 and 22 of proc(5)
	if len(fields) <= born {
		return stat{}, errStat
	}
	s := stat{name: string(text[open+1 : end]), dead: fields[state] == "Z" || fields[state] == "X"}
	if s.session, err = strconv.Atoi(fields[session]); err != nil {
		return stat{}, err
	}
	s.born, err = strconv.ParseUint(fields[born], 10, 64)
	return s, err
}

// alive says whether this very process runs.
func (o *Process) alive() bool {
	s, err := readStat(o.PID)
	if err != nil || s.born != o.Born {
		return false
	}
	if s.dead {
		var status syscall.WaitStatus
		_, _ = syscall.Wait4(o.PID, &status, syscall.WNOHANG, nil) // a child of this process is gone then
	}
	return !s.dead
}

// members are the processes of its session that are alive, whose names fit, if one is given. When another process has got its
// number the session is another one: as long as one of its own is left the number is not given away.
func (o *Process) members(name string) []int {
	if s, err := readStat(o.PID); err == nil && s.born != o.Born {
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
		s, err := readStat(pid)
		if err == nil && !s.dead && s.session == o.PID && s.born >= o.Born && (name == "" || s.name == name) {
			list = append(list, pid)
		}
	}
	return list
}

// tail is the end of its log.
func (o *Process) tail() string {
	text, err := os.ReadFile(o.Log)
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(text[max(0, len(text)-tailMax):]))
}

// end ends all processes of the session: asks, waits, and kills what is left.
func (o *Process) end(ctx context.Context) error {
	for _, step := range []struct {
		signal syscall.Signal
		wait   time.Duration
	}{{syscall.SIGTERM, stopWait}, {syscall.SIGKILL, killWait}} {
		ends := time.Now().Add(step.wait)
		for first := true; ; first = false {
			list := o.members("")
			// A process that is ending is in no session any more.
			if !o.alive() && len(list) == 0 {
				return nil
			}
			if first || step.signal == syscall.SIGKILL {
				for _, pid := range list {
					_ = syscall.Kill(pid, step.signal) // it may be gone already
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

// alive says whether all of the peer's processes run.
func (p *Peer) alive() bool {
	return len(p.Processes) > 0 && !slices.ContainsFunc(p.Processes, func(o Process) bool { return !o.alive() })
}

// stop ends the processes, the last one first.
func (p *Peer) stop(ctx context.Context) error {
	var faults []error
	for _, one := range slices.Backward(p.Processes) {
		faults = append(faults, one.end(ctx))
	}
	return errors.Join(faults...)
}

// Stop ends the peer in order, and kills what does not end. Its data stay. It may be called twice.
func (p *Peer) Stop(ctx context.Context) error { return p.stop(ctx) }

// Kill kills the broker at once, as a crash does. What else belongs to the peer runs until Stop.
func (p *Peer) Kill() error { return syscall.Kill(p.PID, syscall.SIGKILL) }

// settle notes which process is the broker, where a script has started it.
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

// MemoryBytes is how much memory the broker's process has, as the kernel counts it.
func (p *Peer) MemoryBytes() (int64, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(p.PID) + "/statm")
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0, errStat
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}

// freePorts returns free ports of the loopback address.
func freePorts(n int) ([]int, error) {
	var list []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // all at the end, so that they differ
		list = append(list, l.Addr().(*net.TCPAddr).Port)
	}
	return list, nil
}

// loopback is an address of loopback.
func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
