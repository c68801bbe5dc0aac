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
	"time"
)

// Build builds seb into a folder and returns its path. Flags are those of go build, such as -tags.
func Build(dir string, flags ...string) (string, error) {
	return BuildPackage(dir, "github.com/sebbroker/seb/cmd/seb", flags...)
}

// BuildPackage is Build of another command, named by its import path. The module of the repository's root selects the
// versions of dependencies, even if the caller is in the module bench.
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
	build := exec.Command("go", slices.Concat([]string{"build", "-o", path}, flags, []string{pkg})...)
	build.Dir = root
	out, err := build.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", name, err, out)
	}
	return path, nil
}

// Broker is one run of `seb serve`. Its methods may be called concurrently.
type Broker struct {
	cmd  *exec.Cmd
	log  tailBuffer
	done chan struct{} // closed when it has ended
	err  error         // of Wait; after done
}

// Serve starts `seb serve` with arguments, and variables beside this process's. On Linux it dies with this process.
func Serve(path string, env []string, args ...string) (*Broker, error) {
	return ServeLogged(path, env, nil, args...)
}

// ServeLogged is Serve, and calls line with each line that the broker prints on either stream, without its end. line must
// not wait for the broker.
func ServeLogged(path string, env []string, line func(string), args ...string) (*Broker, error) {
	return StartProgram(path, env, line, append([]string{"serve"}, args...)...)
}

// Start is ServeLogged of any program: what a broker works with in a test can be killed like it.
func StartProgram(path string, env []string, line func(string), args ...string) (*Broker, error) {
	b := &Broker{cmd: exec.Command(path, args...), done: make(chan struct{})}
	b.log.line = line
	b.cmd.Env = append(os.Environ(), env...)
	b.cmd.Stdout, b.cmd.Stderr = &b.log, &b.log
	b.cmd.SysProcAttr = attributes()
	if err := b.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", filepath.Base(path), err)
	}
	go func() {
		b.err = b.cmd.Wait()
		close(b.done)
	}()
	return b, nil
}

// Kill is SIGKILL; it returns when the process is gone. A process that is gone already is no error.
func (b *Broker) Kill() {
	_ = b.cmd.Process.Kill()
	<-b.done
}

// Stop is SIGTERM; it returns the exit code.
func (b *Broker) Stop() int {
	_ = b.cmd.Process.Signal(syscall.SIGTERM)
	<-b.done
	return b.cmd.ProcessState.ExitCode()
}

// Signal sends any signal. A process that is gone already is no error.
func (b *Broker) Signal(s os.Signal) { _ = b.cmd.Process.Signal(s) }

// Exit says how it ended, once Done is closed: an exit code, or -1 and the signal that ended it.
func (b *Broker) Exit() (code int, by syscall.Signal) {
	s := b.cmd.ProcessState
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		by = w.Signal()
	}
	return s.ExitCode(), by
}

// CPU is how long it computed, once Done is closed.
func (b *Broker) CPU() time.Duration {
	return b.cmd.ProcessState.UserTime() + b.cmd.ProcessState.SystemTime()
}

// Done is closed when the process is gone.
func (b *Broker) Done() <-chan struct{} { return b.done }

// Pid is the process's.
func (b *Broker) Pid() int { return b.cmd.Process.Pid }

// Log is the end of what it has printed, on either stream.
func (b *Broker) Log() string { return b.log.String() }

// ReadyTime bounds the wait for a broker, with the check of the store; none takes near as long.
const ReadyTime = 2 * time.Minute

// Address waits until the broker accepts requests and says where. dataDir is its data folder.
func (b *Broker) Address(dataDir string) (string, error) {
	end := time.After(ReadyTime)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		// What the broker of an earlier run left there has another process id.
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

// KafkaAddress is where a broker listens for clients of Kafka, if a line of its log says so.
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

	mu   sync.Mutex // guards what follows
	b    []byte
	rest []byte // of a line that has not ended
}

// lineMax bounds a line that does not end.
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
