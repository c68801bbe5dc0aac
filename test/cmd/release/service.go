package main

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
	"sync"
	"syscall"
	"time"

	"github.com/sebbroker/seb/test/testenv"
)

// unit has the settings of the section [Service] of a unit file.
type unit map[string][]string

func readUnit(path string) (unit, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	u, section := unit{}, ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			section = line
		}
		name, value, ok := strings.Cut(line, "=")
		if ok && section == "[Service]" && !strings.HasPrefix(line, "#") {
			u[name] = append(u[name], value)
		}
	}
	return u, nil
}

// words returns the words of all values of a setting.
func (u unit) words(name string) []string { return strings.Fields(strings.Join(u[name], " ")) }

// duration returns a setting such as 2, 70s or 15min.
func (u unit) duration(name string) (time.Duration, error) {
	text := strings.Replace(strings.Join(u[name], ""), "min", "m", 1)
	if _, err := strconv.Atoi(text); err == nil {
		text += "s"
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("unit: %s=%s: %w", name, u[name], err)
	}
	return d, nil
}

// service runs seb.service of a machine as systemd would: it prepares the state directory and the
// credential, waits for READY=1, aborts a process that does not feed the watchdog, and restarts it
// as Restart, RestartSec and RestartPreventExitStatus say.
type service struct {
	machine machine
	unit    unit
	env     []string // in addition to the unit's
	socket  *net.UnixConn
	times   struct{ start, restart, stop, watchdog time.Duration }

	mu      sync.Mutex // guards the fields below
	process *os.Process
	starts  int
	codes   []int  // exit codes of ended processes, -1 for a signal
	states  string // what the current process has reported, a line each
	log     bytes.Buffer
	stopped bool // by stop: not restarted

	changed chan struct{} // gets a value after a change, if it has room
	end     context.CancelFunc
	done    chan struct{} // closed when no process runs and none will be started
}

// start starts the service without waiting. env overrides the unit's environment.
func (m machine) start(env ...string) (*service, error) {
	u, err := readUnit(m.path("/usr/lib/systemd/system/seb.service"))
	if err != nil {
		return nil, err
	}
	s := &service{machine: m, unit: u, env: env, changed: make(chan struct{}, 1), done: make(chan struct{})}
	for name, d := range map[string]*time.Duration{
		"TimeoutStartSec": &s.times.start, "RestartSec": &s.times.restart, "TimeoutStopSec": &s.times.stop, "WatchdogSec": &s.times.watchdog,
	} {
		if *d, err = u.duration(name); err != nil {
			return nil, err
		}
	}
	for _, v := range env {
		if micros, ok := strings.CutPrefix(v, "WATCHDOG_USEC="); ok {
			n, err := strconv.Atoi(micros)
			if err != nil {
				return nil, err
			}
			s.times.watchdog = time.Duration(n) * time.Microsecond
		}
	}
	if err := s.prepare(); err != nil {
		return nil, err
	}
	ctx, end := context.WithCancel(m.ctx)
	s.end = end
	go s.supervise(ctx)
	return s, nil
}

// prepare makes the state directory, the copy of the credential, and the socket for reports.
func (s *service) prepare() error {
	user, err := s.machine.credential(strings.Join(s.unit["User"], ""))
	if err != nil {
		return err
	}
	owned := func(path string) error { return os.Chown(path, int(user.Uid), int(user.Gid)) }
	credentials := s.machine.path(credentialsDir)
	if err := os.MkdirAll(credentials, 0o755); err != nil {
		return err
	}
	for _, name := range s.unit.words("StateDirectory") {
		dir := s.machine.path("/var/lib/" + name)
		if err := errors.Join(os.MkdirAll(dir, 0o700), owned(dir)); err != nil {
			return err
		}
	}
	for _, v := range s.unit.words("LoadCredential") {
		name, file, _ := strings.Cut(v, ":")
		text, err := os.ReadFile(s.machine.path(file))
		if err != nil {
			return err
		}
		copied := filepath.Join(credentials, name)
		if err := errors.Join(os.WriteFile(copied, text, 0o400), owned(copied)); err != nil {
			return err
		}
	}
	path := s.machine.path(notifySocket)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if s.socket, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"}); err != nil {
		return err
	}
	return owned(path)
}

// Paths in the machine.
const (
	credentialsDir = "/run/credentials/seb.service"
	notifySocket   = "/run/seb-notify"
)

// environment returns that of the process: later values win.
func (s *service) environment() ([]string, error) {
	env := []string{"PATH=/usr/bin:/bin", "NOTIFY_SOCKET=" + notifySocket, fmt.Sprintf("WATCHDOG_USEC=%d", s.times.watchdog.Microseconds())}
	for _, v := range s.unit.words("Environment") {
		env = append(env, strings.ReplaceAll(v, "%d", credentialsDir))
	}
	for _, file := range s.unit["EnvironmentFile"] {
		text, err := os.ReadFile(s.machine.path(strings.TrimPrefix(file, "-")))
		if err != nil && !strings.HasPrefix(file, "-") {
			return nil, err
		}
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				env = append(env, line)
			}
		}
	}
	return append(env, s.env...), nil
}

// supervise runs processes until one must not be restarted or ctx ends.
func (s *service) supervise(ctx context.Context) {
	defer close(s.done)
	defer s.socket.Close()
	reports := make(chan string, 16)
	go s.receive(reports)
	for {
		code, err := s.once(ctx, reports)
		s.mu.Lock()
		if err != nil {
			fmt.Fprintln(&s.log, err)
		}
		s.process = nil
		s.codes = append(s.codes, code)
		again := code != 0 && !s.stopped && err == nil &&
			slices.Contains(s.unit["Restart"], "on-failure") && !slices.Contains(s.unit.words("RestartPreventExitStatus"), strconv.Itoa(code))
		s.mu.Unlock()
		s.signal()
		if !again {
			return
		}
		select {
		case <-time.After(s.times.restart):
		case <-ctx.Done():
			return
		}
	}
}

// receive passes reports on until the socket is closed.
func (s *service) receive(reports chan<- string) {
	defer close(reports)
	buf := make([]byte, 4<<10)
	for {
		n, err := s.socket.Read(buf)
		if err != nil {
			return
		}
		select {
		case reports <- string(buf[:n]):
		default: // supervise does not read after the end of a process
		}
	}
}

// once runs one process and returns its exit code.
func (s *service) once(ctx context.Context, reports <-chan string) (int, error) {
	env, err := s.environment()
	if err != nil {
		return 0, err
	}
	user, err := s.machine.credential(strings.Join(s.unit["User"], ""))
	if err != nil {
		return 0, err
	}
	args := s.unit.words("ExecStart")
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Env = strings.Join(s.unit["WorkingDirectory"], ""), env
	cmd.SysProcAttr = testenv.Attributes()
	cmd.SysProcAttr.Chroot, cmd.SysProcAttr.Credential = s.machine.dir, user
	cmd.Stdout, cmd.Stderr = (*logWriter)(s), (*logWriter)(s)
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		return 0, nil
	}
	err = cmd.Start()
	s.process, s.starts, s.states = cmd.Process, s.starts+1, ""
	s.mu.Unlock()
	if err != nil {
		return 0, err
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // the exit code is in ProcessState
		close(ended)
	}()
	deadline := time.NewTimer(s.times.start) // of READY=1, then of each WATCHDOG=1
	defer deadline.Stop()
	for {
		select {
		case report := <-reports:
			s.mu.Lock()
			s.states += report + "\n"
			s.mu.Unlock()
			s.signal()
			deadline.Reset(s.times.watchdog)
			if report == "STOPPING=1" {
				deadline.Reset(s.times.stop)
			}
		case <-deadline.C: // systemd continues the process after it sends a signal
			_ = errors.Join(cmd.Process.Signal(syscall.SIGABRT), cmd.Process.Signal(syscall.SIGCONT))
			deadline.Reset(s.times.stop)
		case <-ctx.Done():
			_ = cmd.Process.Kill()
			<-ended
			return 0, ctx.Err()
		case <-ended:
			return cmd.ProcessState.ExitCode(), nil
		}
	}
}

// logWriter keeps the output of the processes.
type logWriter service

func (w *logWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(p)
}

func (s *service) signal() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// history is what has happened to a service.
type history struct {
	starts  int
	codes   []int
	states  []string
	running *os.Process // nil if no process runs
}

func (s *service) history() history {
	s.mu.Lock()
	defer s.mu.Unlock()
	return history{s.starts, slices.Clone(s.codes), strings.Fields(s.states), s.process}
}

// wait waits until the history fulfils a condition. Only one goroutine may wait.
func (s *service) wait(what string, within time.Duration, fulfils func(history) bool) error {
	end := time.After(within)
	for !fulfils(s.history()) {
		select {
		case <-s.changed:
		case <-end:
			return fmt.Errorf("service: no %s within %s: %+v\n%s", what, within, s.history(), s.tail())
		}
	}
	return nil
}

// ready waits until a process reports that it serves.
func (s *service) ready() error {
	return s.wait("READY=1", time.Minute, func(h history) bool { return slices.Contains(h.states, "READY=1") })
}

func (s *service) tail() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := s.log.String()
	return text[:min(len(text), 2000)] + "\n...\n" + text[max(0, len(text)-2000):]
}

// stop stops the service and returns the exit code of the last process.
func (s *service) stop() (int, error) {
	s.mu.Lock()
	s.stopped = true
	if s.process != nil {
		_ = s.process.Signal(syscall.SIGTERM) // it may have ended
	}
	s.mu.Unlock()
	select {
	case <-s.done:
	case <-time.After(s.times.stop):
		s.end()
		<-s.done
		return 0, fmt.Errorf("service: not stopped within %s\n%s", s.times.stop, s.tail())
	}
	h := s.history()
	return h.codes[len(h.codes)-1], nil
}

// close ends the service immediately. It may be called after stop.
func (s *service) close() {
	s.end()
	<-s.done
}
