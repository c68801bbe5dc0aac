package main_test

import (
	"strings"
	"syscall"
	"testing"

	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

func TestHealth(t *testing.T) {
	p := newWorkDir(t)
	p.refused(1, "connection refused", "health", "--address", "http://127.0.0.1:1")
	b := p.serve()
	if got := p.must("health", "--timeout", "1m"); !strings.HasPrefix(got, "ready: epoch 1, format level ") {
		t.Errorf("%q", got)
	}
	p.must("health", "--address", b.address(), "--data-dir", "none", "--timeout", "1m") // without a key
	p.refused(2, "--timeout -1s: must be above 0", "health", "--timeout", "-1s")
	must.NoError(t, b.cmd.Process.Signal(syscall.SIGSTOP))
	sebtest.Eventually(t, "all threads of the broker are stopped", func() bool { return p.run("health", "--timeout", "200ms").code == 1 })
	p.refused(1, "no answer within 200ms", "health", "--timeout", "200ms")
	must.NoError(t, b.cmd.Process.Signal(syscall.SIGCONT))
	p.must("health", "--timeout", "1m")
}
