package main_test

import (
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// serviceManager is the socket that a broker reports to.
type serviceManager struct {
	t    *testing.T
	conn *net.UnixConn
}

func newServiceManager(t *testing.T, p *workDir) *serviceManager {
	t.Helper()
	path := filepath.Join(p.dir, "n")
	conn := must.Get(net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"}))(t)
	t.Cleanup(func() { conn.Close() })
	p.env = append(p.env, "NOTIFY_SOCKET="+path)
	return &serviceManager{t, conn}
}

// next returns the next report, or "" after the time.
func (m *serviceManager) next(within time.Duration) string {
	m.t.Helper()
	buf := make([]byte, 100)
	must.NoError(m.t, m.conn.SetReadDeadline(time.Now().Add(within)))
	n, err := m.conn.Read(buf)
	if err != nil && !strings.Contains(err.Error(), "timeout") {
		m.t.Fatal(err)
	}
	return string(buf[:n])
}

func TestServiceManagerIsNotified(t *testing.T) {
	p := newWorkDir(t)
	m := newServiceManager(t, p)
	b := p.launch("--http-port", "0")
	must.Equalf(t, m.next(sebtest.Limit), "READY=1", "first report")
	p.must("topic", "list") // READY means that the broker answers requests
	if got := m.next(100 * time.Millisecond); got != "" {
		t.Errorf("%q without a watchdog", got)
	}
	check.Equalf(t, b.term(), 0, "exit code")
	check.Equalf(t, m.next(sebtest.Limit), "STOPPING=1", "last report")
}

func TestStuckBrokerDoesNotFeedWatchdog(t *testing.T) {
	p := newWorkDir(t)
	m := newServiceManager(t, p)
	p.env = append(p.env, "WATCHDOG_USEC=100000")
	b := p.launch("--http-port", "0")
	must.Equalf(t, m.next(sebtest.Limit), "READY=1", "first report")
	for range 3 {
		must.Equal(t, m.next(sebtest.Limit), "WATCHDOG=1")
	}
	must.NoError(t, b.cmd.Process.Signal(syscall.SIGSTOP))
	for m.next(time.Second) != "" { // earlier reports
	}
	must.NoError(t, b.cmd.Process.Signal(syscall.SIGCONT))
	check.Equalf(t, m.next(sebtest.Limit), "WATCHDOG=1", "after SIGCONT")
}
