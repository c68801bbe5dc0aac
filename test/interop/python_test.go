package interop

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

// python is the interpreter with confluent-kafka and settings for a broker.
type python struct {
	t      *testing.T
	path   string
	dir    string // of the scripts
	env    []string
	client string // name in reports
}

// newPython installs confluent-kafka.
func newPython(t *testing.T, b *testenv.InteropBroker) *python {
	t.Helper()
	path, packages := must.Get2(Confluent(t.Context()))(t)
	dir := must.Get(filepath.Abs("testdata/python"))(t)
	return &python{
		t: t, path: path, dir: dir, client: "confluent-kafka",
		env: append(os.Environ(), "PYTHONPATH="+packages, "PYTHONDONTWRITEBYTECODE=1", "BROKER="+b.Address, "KEY="+testenv.InteropKey),
	}
}

// command returns a script's command that is not started. It ends with ctx.
func (p *python) command(ctx context.Context, script string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, p.path, append([]string{filepath.Join(p.dir, script)}, args...)...)
	c.Env = p.env
	return c
}

// result is a line of a script's output.
type result struct {
	Check                  string
	Seconds, Written, Read float64
	Records                int
}

// run runs a script to its end, calls visit with each of its results, and fails the test on an
// error.
func (p *python) run(visit func(result), script string, args ...string) {
	p.t.Helper()
	ctx, stop := context.WithTimeout(p.t.Context(), callMax)
	defer stop()
	c := p.command(ctx, script, args...)
	var said strings.Builder
	c.Stderr = &said
	out := must.Get(c.StdoutPipe())(p.t)
	must.NoError(p.t, c.Start())
	lines, count := bufio.NewScanner(out), 0
	for lines.Scan() {
		var r result
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			p.t.Errorf("%s printed %q", script, lines.Text())
		}
		visit(r)
		count++
	}
	if err := c.Wait(); err != nil || count == 0 {
		p.t.Fatalf("%s: %v, after %d results\n%s", script, err, count, said.String())
	}
}

// report reports a result.
func (p *python) report(r result) {
	var figures []string
	if r.Written > 0 {
		figures = append(figures, testenv.Rate("written", int(r.Written), time.Second), testenv.Rate("read", int(r.Read), time.Second))
	}
	report(p.t, p.client, r.Check, time.Duration(r.Seconds*float64(time.Second)), figures...)
}

// TestPythonMillion writes and reads a million records.
func TestPythonMillion(t *testing.T) {
	testenv.InteropWanted(t)
	b := testenv.ServeInterop(t)
	createTopic(t, b, "numbers", 4)
	p := newPython(t, b)
	p.run(p.report, "million.py", "numbers", fmt.Sprint(million))
	expectLog(t, b, "numbers", million, func(n int) string { return codecs[n/(million/len(codecs))] })
}

// TestPythonSASL authenticates with each mechanism.
func TestPythonSASL(t *testing.T) {
	testenv.InteropWanted(t)
	b := testenv.ServeInterop(t)
	createTopic(t, b, "secrets", 1)
	p := newPython(t, b)
	p.run(p.report, "sasl.py", "secrets")
}

// TestPythonAdmin uses all requests of AdminClient.
func TestPythonAdmin(t *testing.T) {
	testenv.InteropWanted(t)
	p := newPython(t, testenv.ServeInterop(t))
	p.run(p.report, "admin.py", "plants")
}
