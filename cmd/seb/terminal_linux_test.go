package main_test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// terminal is a pseudo terminal. A command has the slave as its standard streams.
type terminal struct {
	master, slave *os.File
	shown         sebtest.Log
}

func newTerminal(t *testing.T) *terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no pseudo terminals: %v", err)
	}
	t.Cleanup(func() { _ = master.Close() })
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	must.NoError(t, err)
	slave := must.Get(os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0))(t)
	t.Cleanup(func() { _ = slave.Close() })
	p := &terminal{master: master, slave: slave}
	go func() { _, _ = io.Copy(&p.shown, master) }()
	return p
}

// text returns the text on the terminal.
func (p *terminal) text() string { return strings.ReplaceAll(p.shown.String(), "\r\n", "\n") }

func TestTheBannerIsSevenLines(t *testing.T) {
	p, tty := newWorkDir(t), newTerminal(t)
	b := &running{t: t, cmd: p.command("serve", "--http-port", "0", "--kafka-listen", "127.0.0.1:0"), done: make(chan struct{})}
	b.cmd.Stdin, b.cmd.Stdout, b.cmd.Stderr = tty.slave, tty.slave, tty.slave
	b.start()
	waitFor(t, func() bool { return strings.Contains(tty.text(), "\ncurl ") && strings.HasSuffix(tty.text(), "\n") })
	want := regexp.MustCompile(`^address  http://127\.0\.0\.1:\d+, Kafka 127\.0\.0\.1:\d+
records  \S*seb-bucket
API key  in seb-data/api-key  \(new: clients with another key get 401\)
console  http://127\.0\.0\.1:\d+/console/
produce  echo hello \| \S+ produce demo
consume  \S+ consume demo
curl     curl -H "Authorization: Bearer \$\(cat seb-data/api-key\)" -H 'Accept: application/json' 'http://127\.0\.0\.1:\d+/records\?topic-name=demo&offset=0'
$`)
	if got := tty.text(); !want.MatchString(got) {
		t.Errorf("the terminal shows:\n%s", got)
	}
	b.term()
}

func TestAFilterShowsItsProgressAtATerminal(t *testing.T) {
	sebtest.Long(t, "80 MB of records; TestDryRunShowsItsProgress remains")
	p, tty := newWorkDir(t), newTerminal(t)
	p.serve()
	p.must("produce", "t", "--record-size", "1000000", "--count", "80") // more than one read looks at
	p.mustWith("wanted\n", "produce", "t", "-p", "0")
	args := []string{"consume", "t", "--contains", "wanted"}
	if r := p.run(args...); r.out != "wanted\n" || r.err != "" {
		t.Errorf("without a terminal: %+v", r)
	}
	c := p.command(args...)
	c.Stderr = tty.slave
	out, err := c.Output()
	if err != nil || string(out) != "wanted\n" {
		t.Errorf("%q, %v", out, err)
	}
	waitFor(t, func() bool { return strings.Contains(tty.text(), "partition 0  ") })
}

// TestRecordsDoNotControlTheTerminal: a producer cannot set the title, move the cursor or answer for
// the person who looks at records. A pipe gets their bytes.
func TestRecordsDoNotControlTheTerminal(t *testing.T) {
	p := newWorkDir(t)
	p.serve()
	const hostile = "a\x1b]0;title\x07\rb\x7f\u009b2Jc\tü…"
	p.mustWith("k"+hostile+"="+hostile, "produce", "t", "--key-separator", "=")
	value := `a\x1b]0;title\x07\x0db\x7f` + "\xc2" + `\x9b2Jc` + "\tü…\n"
	for format, want := range map[string]string{"value": value, "key-value": "k" + strings.TrimSuffix(value, "\n") + "\t" + value} {
		tty, c := newTerminal(t), p.command("consume", "t", "--format", format)
		c.Stdout = tty.slave
		must.NoError(t, c.Run())
		waitFor(t, func() bool { return strings.HasSuffix(tty.text(), "\n") })
		check.Equalf(t, tty.text(), want, "--format %s", format)
	}
	check.Equalf(t, p.must("consume", "t"), hostile+"\n", "a pipe gets")
}

func TestAJSONLogIsOnlyJSON(t *testing.T) {
	p, tty := newWorkDir(t), newTerminal(t)
	start := func(args ...string) *running {
		b := &running{t: t, cmd: p.command(append([]string{"serve", "--log-format", "json", "--http-port", "0", "--kafka-listen", ""}, args...)...), done: make(chan struct{})}
		b.cmd.Stdout, b.cmd.Stderr = tty.slave, tty.slave
		b.start()
		return b
	}
	b := start("--bucket", "./b", "--log-level", "debug")
	waitFor(t, func() bool { return strings.Contains(tty.text(), `"msg":"serving"`) })
	if code := start("--bucket", "./b").wait(); code != 1 { // the data folder is in use
		t.Errorf("exit code %d", code)
	}
	check.Equalf(t, b.term(), 0, "exit code")
	for line := range strings.Lines(tty.text()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("not JSON: %s", line)
		}
	}
	check.Containsf(t, tty.text(), `"exit_code":1`, "the end is not logged")
}

// TestDestructiveCommandsAsk: commands ask at a terminal; a script from before they asked continues
// to work.
func TestDestructiveCommandsAsk(t *testing.T) {
	p := newWorkDir(t)
	p.serve()
	p.must("topic", "create", "demo", "-s", "retention-time=7d")
	p.mustWith("one\n", "produce", "demo")
	p.must("group", "reset", "g", "demo", "--to", "0")
	p.must("token", "create", "shop", "--read", "demo")
	p.must("quota", "set", "shop", "--requests", "9")
	p.mustWith("{id: trig, expr: a}", "trigger", "apply", "-f", "-", "--yes")
	asked := func(answer, says string, args ...string) (code int, shown string) {
		t.Helper()
		tty := newTerminal(t)
		c := p.command(args...)
		c.Stdin, c.Stdout, c.Stderr = tty.slave, tty.slave, tty.slave
		must.NoError(t, c.Start())
		waitFor(t, func() bool { return strings.Contains(tty.text(), "Continue? [y/N] ") })
		must.Get(tty.master.WriteString(answer + "\n"))(t)
		_ = c.Wait()
		// the output may not be read completely yet
		waitFor(t, func() bool { return strings.Contains(tty.text(), says) })
		return c.ProcessState.ExitCode(), tty.text()
	}
	for _, c := range []struct {
		args   []string
		script int // exit code without a terminal
	}{
		{[]string{"topic", "update", "demo", "-s", "retention-time=1s"}, 0},
		{[]string{"topic", "trim", "demo", "--before", "1"}, 2},
		{[]string{"entity", "erase", "u1"}, 0},
		{[]string{"token", "revoke", "shop"}, 0},
		{[]string{"quota", "remove", "shop"}, 0},
		{[]string{"trigger", "delete", "trig"}, 0},
		{[]string{"acl", "remove", "--principal", "shop"}, 2},
		{[]string{"group", "delete", "g"}, 2},
		{[]string{"topic", "delete", "demo"}, 2},
	} {
		if code, shown := asked("n", "nothing was changed", c.args...); code != 1 {
			t.Errorf("%s, answered n: exit code %d: %s", c.args, code, shown)
		}
		if c.script == 2 {
			p.refused(2, "confirm with --yes", c.args...)
		}
	}
	check.Equalf(t, p.must("consume", "demo"), "one\n", "after every answer was n")
	p.must("topic", "update", "demo", "-s", "retention-time=6d") // a script
	for _, c := range []struct{ says, line string }{             // scripts, with and without --yes
		{"the quota of shop is removed\n", "quota remove shop"},
		{"token shop is revoked\n", "token revoke shop"},
		{"trigger trig is deleted\n", "trigger delete trig -y"},
		{"group g is deleted\n", "group delete g --yes"},
	} {
		check.Equalf(t, p.must(strings.Fields(c.line)...), c.says, "seb %s prints", c.line)
	}
	if code, shown := asked("y", "topic demo is deleted, with 1 record\n", "topic", "delete", "demo"); code != 0 {
		t.Errorf("answered y: exit code %d: %s", code, shown)
	}
	p.refused(1, "unknown topic", "consume", "demo")
}

// TestProduceSaysThatTheStoreIsAway: a message at the terminal explains the delay.
func TestProduceSaysThatTheStoreIsAway(t *testing.T) {
	p, tty := newWorkDir(t), newTerminal(t)
	p.serve("--bucket", "./b"+inFiles)
	p.mustWith("x\n", "produce", "demo")
	must.NoError(t, os.RemoveAll(filepath.Join(p.dir, "b")))
	c := p.command("produce", "demo")
	c.Stdin, c.Stderr = strings.NewReader("y\n"), tty.slave
	must.NoError(t, c.Start())
	waitFor(t, func() bool { return strings.Contains(tty.text(), "records not stored yet") })
	_ = c.Process.Kill()
	_ = c.Wait()
}

// TestDryRunShowsItsProgress at a terminal, and leaves only the result.
func TestDryRunShowsItsProgress(t *testing.T) {
	p, tty := newWorkDir(t), newTerminal(t)
	p.serve()
	p.mustWith(strings.Repeat(`{"event":"a","entity_id":"u"}`+"\n", 100), "event", "-f", "-")
	const line = "fired      1 of 1 entities (1 seen)\n"
	if out := p.must("trigger", "dry-run", "a"); !strings.Contains(out, line) || strings.Contains(out, "%|") {
		t.Errorf("without a terminal: %s", out)
	}
	c := p.command("trigger", "dry-run", "a", "--sample", "1")
	c.Stdin, c.Stdout, c.Stderr = tty.slave, tty.slave, tty.slave
	must.NoError(t, c.Run())
	waitFor(t, func() bool { return strings.Contains(tty.text(), line) })
	check.Containsf(t, tty.text(), "events   0% |", "the terminal shows")
}
