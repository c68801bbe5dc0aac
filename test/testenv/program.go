package testenv

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/must"
)

// Build builds seb into a folder and returns its path. flags are those of go build, such as -tags.
func Build(dir string, flags ...string) (string, error) {
	return BuildPackage(dir, "github.com/sebbroker/seb/cmd/seb", flags...)
}

// BuildPackage builds another command, named by its import path. The module of the repository's
// root selects the versions of dependencies, even if the caller is in the module bench.
func BuildPackage(dir, pkg string, flags ...string) (string, error) {
	name := filepath.Base(pkg)
	path, err := filepath.Abs(filepath.Join(dir, name))
	if err != nil {
		return "", err
	}
	root, err := Root()
	if err != nil {
		return "", err
	}
	build := exec.Command("go", slices.Concat([]string{"build", "-ldflags=-s -w", "-o", path}, flags, []string{pkg})...)
	build.Dir = root
	out, err := build.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", name, err, out)
	}
	return path, nil
}

// programs are the programs of this process: links to those in .cache, which other processes may
// replace after a change of the code.
var programs struct {
	mu    sync.Mutex
	dir   string            // created for the first program
	paths map[string]string // by the flags of go build
	self  bool              // this program is seb too: MainOf
}

// Program returns the path of a built seb, which stays the same until Main returns. It builds on
// the first call with the same flags. The linker runs only if no test process has built the same
// code before, and never in short tests of MainOf.
func Program(t testing.TB, flags ...string) string {
	t.Helper()
	programs.mu.Lock()
	defer programs.mu.Unlock()
	key := strings.Join(flags, "")
	if path, ok := programs.paths[key]; ok {
		return path
	}
	path := must.Get(linked(key, flags))(t)
	programs.paths[key] = path
	return path
}

func linked(key string, flags []string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	if programs.dir == "" {
		if programs.dir, err = os.MkdirTemp("", "seb-programs-*"); err != nil {
			return "", err
		}
		programs.paths = make(map[string]string)
	}
	path := filepath.Join(programs.dir, "seb"+key)
	if programs.self && testing.Short() && key == "" {
		own, err := os.Executable()
		if err != nil {
			return "", err
		}
		return path, keep(own, path)
	}
	shared := filepath.Join(root, ".cache", "programs"+key)
	if err := os.MkdirAll(shared, 0o750); err != nil {
		return "", err
	}
	unlock, err := lock(shared + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	built, err := Build(shared, flags...)
	if err != nil {
		return "", err
	}
	return path, keep(built, path)
}

// keep links or copies a program.
func keep(program, path string) error {
	if os.Link(program, path) == nil {
		return nil
	}
	text, err := os.ReadFile(program) // another file system
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o700)
}

// MainOf is Main for the tests of the command seb. Short tests link no seb: Program is this test
// program under another name, which runs main.
func MainOf(m *testing.M, main func()) int {
	if filepath.Base(os.Args[0]) == "seb" {
		main()
		return 0
	}
	programs.self = true
	return Main(m)
}

// Main runs the tests of a package and removes its programs. It returns the exit code.
func Main(m *testing.M) int {
	code := m.Run()
	if programs.dir != "" {
		_ = os.RemoveAll(programs.dir)
	}
	return code
}

// Broker is one process of `seb serve`. Its methods may be called concurrently.
type Broker struct {
	cmd  *exec.Cmd
	log  tailBuffer
	done chan struct{} // closed when the process has ended
	err  error         // of Wait; valid after done
}

// Serve starts `seb serve` with arguments and additional environment variables. On Linux it ends
// with this process.
func Serve(path string, env []string, args ...string) (*Broker, error) {
	return ServeLogged(path, env, nil, args...)
}

// ServeLogged is Serve, and calls line with each line of the broker's output, without its end. line
// must not wait for the broker.
func ServeLogged(path string, env []string, line func(string), args ...string) (*Broker, error) {
	return StartProgram(path, env, line, append([]string{"serve"}, args...)...)
}

// StartProgram is ServeLogged for any program, so that a test can kill other programs like a
// broker.
func StartProgram(path string, env []string, line func(string), args ...string) (*Broker, error) {
	b := &Broker{cmd: exec.Command(path, args...), done: make(chan struct{})}
	b.log.line = line
	b.cmd.Env = append(os.Environ(), env...)
	b.cmd.Stdout, b.cmd.Stderr = &b.log, &b.log
	b.cmd.SysProcAttr = Attributes()
	if err := b.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", filepath.Base(path), err)
	}
	go func() {
		b.err = b.cmd.Wait()
		close(b.done)
	}()
	return b, nil
}

// Kill sends SIGKILL and returns when the process has ended. It may be called after the end.
func (b *Broker) Kill() {
	_ = b.cmd.Process.Kill()
	<-b.done
}

// Stop sends SIGTERM and returns the exit code.
func (b *Broker) Stop() int {
	_ = b.cmd.Process.Signal(syscall.SIGTERM)
	<-b.done
	return b.cmd.ProcessState.ExitCode()
}

// Signal sends any signal. It may be called after the end.
func (b *Broker) Signal(s os.Signal) { _ = b.cmd.Process.Signal(s) }

// Exit returns how the process ended, after Done is closed: an exit code, or -1 and the signal that
// ended it.
func (b *Broker) Exit() (code int, by syscall.Signal) {
	s := b.cmd.ProcessState
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		by = w.Signal()
	}
	return s.ExitCode(), by
}

// CPU returns the CPU time, after Done is closed.
func (b *Broker) CPU() time.Duration {
	return b.cmd.ProcessState.UserTime() + b.cmd.ProcessState.SystemTime()
}

// Status returns a number of bytes from /proc/PID/status, 0 if it is unknown.
func (b *Broker) Status(field string) (bytes int64) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.Pid()))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), field+":")
	_, _ = fmt.Sscanf(rest, "%d kB", &bytes)
	return bytes << 10
}

// Done is closed when the process has ended.
func (b *Broker) Done() <-chan struct{} { return b.done }

// Pid returns the process ID.
func (b *Broker) Pid() int { return b.cmd.Process.Pid }

// Log returns the end of the output.
func (b *Broker) Log() string { return b.log.String() }

// ReadyTime bounds the wait for a broker, including the check of the store. Starts take much less.
const ReadyTime = 2 * time.Minute

// Address waits until the broker accepts requests and returns its address. dataDir is its data
// directory.
func (b *Broker) Address(dataDir string) (string, error) {
	end := time.After(ReadyTime)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		// A file of an earlier process has another process ID.
		var r struct {
			Address string
			PID     int
		}
		text, err := os.ReadFile(filepath.Join(dataDir, "broker.json"))
		if err == nil && json.Unmarshal(text, &r) == nil && r.PID == b.Pid() {
			return r.Address, nil
		}
		select {
		case <-b.done:
			return "", fmt.Errorf("broker ended by itself: %v\n%s", b.err, b.Log())
		case <-end:
			return "", errors.New("broker not ready in time\n" + b.Log())
		case <-tick.C:
		}
	}
}

// KafkaAddress returns the Kafka address, if a line of the broker's log contains it.
func KafkaAddress(line string) (address string, ok bool) {
	if !strings.Contains(line, " msg=serving ") {
		return "", false
	}
	_, rest, ok := strings.Cut(line, " kafka=")
	address, _, _ = strings.Cut(strings.TrimSpace(rest), " ")
	return address, ok
}

// tailBuffer keeps the last bytes written.
type tailBuffer struct {
	line func(string) // nil, or called with each line

	mu   sync.Mutex // guards the fields below
	b    []byte
	rest []byte // the unfinished line
}

// lineMax bounds an unfinished line.
const lineMax = 64 << 10

func (t *tailBuffer) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.line != nil {
		t.rest = append(t.rest, p...)
		for {
			i := bytes.IndexByte(t.rest, '\n')
			if i < 0 && len(t.rest) < lineMax {
				break
			} else if i < 0 {
				i = len(t.rest) - 1
			}
			t.line(string(t.rest[:i]))
			t.rest = t.rest[i+1:]
		}
	}
	t.b = append(t.b, p...)
	if n := len(t.b) - 8<<10; n > 0 {
		t.b = t.b[n:]
	}
	return len(p), nil
}

func (t *tailBuffer) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.b))
}
