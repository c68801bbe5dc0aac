package interop

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/testenv"
)

// confluentVersion is the version of confluent-kafka, which includes a librdkafka of nearly the
// same version.
const confluentVersion = "2.16.1"

// python is the interpreter with confluent-kafka and settings for a broker.
type python struct {
	t      *testing.T
	path   string
	dir    string // of the scripts
	env    []string
	client string // name in reports
}

// needs finds a program in the PATH that these tests do not install.
func needs(name, purpose string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s is not in the PATH; it %s: install it (on Debian apt-get install %s)", name, purpose, name)
	}
	return path, nil
}

// pip installs a package from PyPI as a wheel, with additional options of pip install. If python3
// has no pip, it uses Debian's.
func pip(ctx context.Context, path, name, what string, args ...string) (dir string, err error) {
	env := os.Environ()
	if _, err := testenv.Command(ctx, ".", path, "-m", "pip", "--version"); err != nil {
		unpacked, err := testenv.Debian(ctx, "python3-pip")
		if err != nil {
			return "", err
		}
		env = append(env, "PYTHONPATH="+filepath.Join(unpacked, "usr/lib/python3/dist-packages"))
	}
	return testenv.Install("interop/"+name, what+" from PyPI", func(dir string) error {
		all := append([]string{"-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:", "--target", dir}, args...)
		c := exec.CommandContext(ctx, path, all...)
		c.Env = env
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("pip (needs PyPI or a configured mirror): %w: %s", err, out)
		}
		return nil
	})
}

// newPython installs confluent-kafka.
func newPython(t *testing.T, b *testenv.InteropBroker) *python {
	t.Helper()
	path, err := needs("python3", "confluent-kafka runs in")
	if err != nil {
		t.Fatal(err)
	}
	version, err := testenv.Command(t.Context(), ".", path, "-c", "import sys; print('%d.%d' % sys.version_info[:2])")
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("confluent-kafka-%s-python%s-%s", confluentVersion, strings.TrimSpace(version), runtime.GOARCH)
	packages, err := pip(t.Context(), path, name, "confluent-kafka "+confluentVersion, "confluent-kafka=="+confluentVersion)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := filepath.Abs("testdata/python")
	if err != nil {
		t.Fatal(err)
	}
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
	out, err := c.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		p.t.Fatal(err)
	}
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

// TestPythonTransactions requests transactions.
func TestPythonTransactions(t *testing.T) {
	testenv.InteropWanted(t)
	p := newPython(t, testenv.ServeInterop(t))
	p.run(p.report, "transactions.py")
}
