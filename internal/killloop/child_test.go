package killloop

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// program is the built broker; TestMain makes it.
var program string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "seb-killloop-bin-*")
	if err != nil {
		panic(err)
	}
	program = filepath.Join(dir, "seb")
	out, err := exec.Command("go", "build", "-o", program, "github.com/sebbroker/seb/cmd/seb").CombinedOutput()
	if err != nil {
		fmt.Fprintf(os.Stderr, "build the broker: %v\n%s", err, out)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// child is one run of the broker.
type child struct {
	cmd  *exec.Cmd
	log  *tailBuffer
	done chan struct{} // closed when it has ended
	err  error         // of Wait; after done
}

func start(t *testing.T, env []string, args ...string) *child {
	t.Helper()
	c := &child{cmd: exec.Command(program, append([]string{"serve"}, args...)...), log: &tailBuffer{}, done: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), env...)
	c.cmd.Stdout, c.cmd.Stderr = c.log, c.log
	c.cmd.SysProcAttr = childAttributes()
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		c.err = c.cmd.Wait()
		close(c.done)
	}()
	t.Cleanup(func() { c.kill() })
	return c
}

// kill is SIGKILL; it returns when the process is gone.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	<-c.done
}

// stop is SIGTERM; it returns the exit code.
func (c *child) stop() int {
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	<-c.done
	return c.cmd.ProcessState.ExitCode()
}

// readyTime bounds a start, with the check of the store; no start takes near as long.
const readyTime = 2 * time.Minute

// address waits until the broker accepts requests and says where.
func (c *child) address(dataDir string) (string, error) {
	end := time.After(readyTime)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		// What the broker of an earlier run left there has another process id.
		var r struct {
			Address string
			PID     int
		}
		b, err := os.ReadFile(filepath.Join(dataDir, "broker.json"))
		if err == nil && json.Unmarshal(b, &r) == nil && r.PID == c.cmd.Process.Pid {
			return r.Address, nil
		}
		select {
		case <-c.done:
			return "", fmt.Errorf("broker ended by itself: %v\n%s", c.err, c.log)
		case <-end:
			return "", errors.New("broker not ready in time\n" + c.log.String())
		case <-tick.C:
		}
	}
}

// tailBuffer keeps the last bytes written.
type tailBuffer struct {
	mu sync.Mutex // guards b
	b  []byte
}

func (t *tailBuffer) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
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
