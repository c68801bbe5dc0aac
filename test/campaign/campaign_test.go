package campaign

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestInterrupt: when the context ends, so do the command and what it has started.
func TestInterrupt(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	step := Step{Args: []string{"sh", "-c", "sleep 300 & echo $! >" + file + ".part; mv " + file + ".part " + file + "; wait"}}
	go func() { ended <- step.Run(ctx) }()
	var text []byte
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		var err error
		if text, err = os.ReadFile(file); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the command did not start its child within a minute")
		}
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("an interrupted command ended without an error")
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH); time.Sleep(5 * time.Millisecond) {
		if state, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat"); err == nil && strings.Contains(string(state), ") Z ") {
			break // killed; its new parent has not waited for it yet
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d, which the command has started, is still there", pid)
		}
	}
}

func TestRunReturnsTheExitCode(t *testing.T) {
	step := Step{Dir: "/", Env: []string{"CODE=7"}, Args: []string{"sh", "-c", "exit $CODE"}}
	var exit *exec.ExitError
	if err := step.Run(t.Context()); !errors.As(err, &exit) || exit.ExitCode() != 7 {
		t.Errorf("got %v, want exit code 7", err)
	}
}

func TestHelp(t *testing.T) {
	if got, want := help("// Command a does b.\n//\n//\ta -x\npackage main\n// c\n"), "Command a does b.\n\n\ta -x\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
