package interop

import (
	"bufio"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/testenv"
)

// collectd is a process of collectd with a socket for commands.
type collectd struct {
	*testenv.Broker
	t      *testing.T
	socket net.Conn
	answer *bufio.Reader
}

// newCollectd starts collectd with testdata/riemann/collectd.conf and a further configuration.
func newCollectd(t *testing.T, interval, config string) *collectd {
	t.Helper()
	programs, err := testenv.Debian(t.Context(), "collectd-core")
	must.NoError(t, err)
	library, err := testenv.Debian(t.Context(), "libriemann-client0")
	must.NoError(t, err)
	text, err := os.ReadFile("testdata/riemann/collectd.conf")
	must.NoError(t, err)
	dir, err := os.MkdirTemp("", "seb-collectd-*") // the path of a socket is short
	must.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket, file := filepath.Join(dir, "socket"), filepath.Join(dir, "collectd.conf")
	whole := strings.NewReplacer("@INTERVAL@", interval, "@DIR@", dir, "@COLLECTD@", programs).Replace(string(text)) + config +
		"LoadPlugin unixsock\n<Plugin unixsock>\n  SocketFile \"" + socket + "\"\n  SocketPerms \"0600\"\n</Plugin>\n"
	must.NoError(t, os.WriteFile(file, []byte(whole), 0o600))
	libraries := testenv.Libraries(programs) + ":" + strings.TrimPrefix(testenv.Libraries(library), "LD_LIBRARY_PATH=")
	started := make(chan struct{}, 1)
	// write_riemann of collectd 5.12 calls riemann_event_set for the time without its last argument, so
	// what is in a register may become a field. With glibc's cache of freed memory this is often a small
	// number, and then fields are damaged or collectd crashes. Without the cache it is none of a field.
	const tunables = "GLIBC_TUNABLES=glibc.malloc.tcache_count=0"
	p, err := testenv.StartProgram(filepath.Join(programs, "usr/sbin/collectd"), []string{libraries, tunables}, func(line string) {
		if strings.Contains(line, "Initialization complete") {
			started <- struct{}{}
		}
	}, "-f", "-C", file)
	must.NoError(t, err)
	c := &collectd{Broker: p, t: t}
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("end of collectd's output:\n%s", p.Log())
		}
	})
	select {
	case <-started:
	case <-p.Done():
		t.Fatal("collectd ended")
	case <-time.After(testenv.ReadyTime):
		t.Fatal("collectd does not start")
	}
	sebtest.Eventually(t, "collectd listens on its socket", func() bool {
		c.socket, err = net.Dial("unix", socket)
		return err == nil
	})
	t.Cleanup(func() { _ = c.socket.Close() })
	c.answer = bufio.NewReader(c.socket)
	return c
}

// command sends a command of the plugin unixsock.
func (c *collectd) command(format string, args ...any) {
	c.t.Helper()
	must.Get(fmt.Fprintf(c.socket, format+"\n", args...))(c.t)
	if answer, err := c.answer.ReadString('\n'); err != nil || !strings.HasPrefix(answer, "0 ") {
		c.t.Fatalf("collectd answers %q, %v", answer, err)
	}
}

// collectdLimits are the thresholds of the values of riemannEvents: their states depend on them.
const collectdWarning, collectdFailure = 20, 50

// collectdEvent: collectd composes the service, and has no text, ttl and type of its own for values.
func collectdEvent(n int, e *riemannEvent) {
	kind, ds := "gauge", "gauge"
	if e.Kind == "sint64" {
		kind, ds = "derive", "derive"
	}
	e.Service = fmt.Sprintf("interop-%d/%s-value", n, kind)
	e.Attributes = map[string]string{
		"plugin": "interop", "plugin_instance": fmt.Sprint(n), "type": kind, "type_instance": "value",
		"ds_name": "value", "ds_type": ds, "ds_index": "0", "rack": "r1",
	}
	e.Description, e.TTL = "", 2*math.Floor(e.TTL/2)
	e.State = ""
	if kind == "gauge" {
		e.Kind = "d"
		var value float64
		_, _ = fmt.Sscan(e.Metric, &value)
		switch {
		case value > collectdFailure:
			e.State = "critical"
		case value > collectdWarning:
			e.State = "warning"
		default:
			e.State = "ok"
		}
	}
}

// collectdRiemann sends values through collectd's plugin write_riemann.
func collectdRiemann(t *testing.T, b *riemannBroker, batch bool) riemannCalls {
	t.Helper()
	c := newCollectd(t, "10", fmt.Sprintf(`LoadPlugin threshold
<Plugin threshold>
  <Plugin interop>
    <Type gauge>
      WarningMax %d
      FailureMax %d
    </Type>
  </Plugin>
</Plugin>
LoadPlugin write_riemann
<Plugin write_riemann>
  <Node "seb">
    Host "127.0.0.1"
    Port "%s"
    Protocol TCP
    Batch %t
    BatchFlushTimeout 1
    StoreRates false
    CheckThresholds true
    Notifications false
  </Node>
  Tag "interop"
  Tag "größe"
  Attribute "rack" "r1"
</Plugin>
`, collectdWarning, collectdFailure, b.port, batch))
	return riemannCalls{send: func(events []riemannEvent) {
		for n, e := range events {
			kind := "gauge"
			if e.Kind == "sint64" {
				kind = "derive"
			}
			c.command(`PUTVAL "%s/interop-%d/%s-value" interval=%g %d:%s`, e.Host, n, kind, math.Floor(e.TTL/2), e.Time, e.Metric)
		}
		api := must.Get(client.New(b.HTTP(), client.Options{APIKey: testenv.InteropKey}))(t)
		defer api.Close()
		sebtest.Eventually(t, "collectd has sent all values", func() bool {
			c.command("FLUSH") // sends a batch, but not values that wait for it
			list, err := api.RiemannIndex(t.Context(), "true")
			return err == nil && len(list.Events) == len(events)
		})
	}}
}

// syslogRiemann sends the lines of a file through syslog-ng.
func syslogRiemann(t *testing.T, b *riemannBroker) riemannCalls {
	t.Helper()
	programs := must.Get(testenv.Debian(t.Context(), "syslog-ng-mod-riemann"))(t)
	text := must.Get(os.ReadFile("testdata/riemann/syslog-ng.conf"))(t)
	modules, err := filepath.Glob(filepath.Join(programs, "usr/lib/syslog-ng/*/libriemann.so"))
	if err != nil || len(modules) != 1 {
		t.Fatalf("no module of syslog-ng in %s: %v", programs, err)
	}
	libraries := testenv.Libraries(programs) + ":" + filepath.Join(programs, "usr/lib/syslog-ng")
	return riemannCalls{send: func(events []riemannEvent) {
		dir := t.TempDir()
		file, config := filepath.Join(dir, "events"), filepath.Join(dir, "syslog-ng.conf")
		writeRiemannEvents(t, file, events)
		whole := strings.NewReplacer("@FILE@", file, "@PORT@", b.port).Replace(string(text))
		must.NoError(t, os.WriteFile(config, []byte(whole), 0o600))
		p := must.Get(testenv.StartProgram(filepath.Join(programs, "usr/sbin/syslog-ng"), []string{libraries, "LC_ALL=C.UTF-8"}, nil,
			"-F", "--no-caps", "--module-path", filepath.Dir(modules[0]), "-f", config, "-R", filepath.Join(dir, "persist"),
			"-c", filepath.Join(dir, "control"), "-p", filepath.Join(dir, "pid"), "--stderr"))(t)
		t.Cleanup(func() {
			p.Kill()
			if t.Failed() {
				t.Logf("end of syslog-ng's output:\n%s", p.Log())
			}
		})
	}}
}
