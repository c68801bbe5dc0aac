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

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// TestInterrupt checks that the command and its child processes end when the context ends.
func TestInterrupt(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	step := Step{Args: []string{"sh", "-c", "sleep 300 & echo $! >" + file + ".part; mv " + file + ".part " + file + "; wait"}}
	go func() { ended <- step.Run(ctx) }()
	var text []byte
	sebtest.Eventually(t, "the command starts its child", func() (done bool) {
		var err error
		text, err = os.ReadFile(file)
		return err == nil
	})
	cancel()
	check.Error(t, <-ended, "an interrupted command ended without an error")
	pid := must.Get(strconv.Atoi(strings.TrimSpace(string(text))))(t)
	sebtest.Eventually(t, "the child process ends", func() bool {
		// A killed process remains a zombie until its new parent has waited for it.
		state, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		return err == nil && strings.Contains(string(state), ") Z ") || errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
	})
}

func TestRunReturnsTheExitCode(t *testing.T) {
	step := Step{Dir: "/", Env: []string{"CODE=7"}, Args: []string{"sh", "-c", "exit $CODE"}}
	var exit *exec.ExitError
	if err := step.Run(t.Context()); !errors.As(err, &exit) || exit.ExitCode() != 7 {
		t.Errorf("got %v, want exit code 7", err)
	}
}

func TestHelp(t *testing.T) {
	check.Equal(t, help("// Command a does b.\n//\n//\ta -x\npackage main\n// c\n"), "Command a does b.\n\n\ta -x\n")
}
