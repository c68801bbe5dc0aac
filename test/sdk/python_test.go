package sdk

import (
	"bufio"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

// python runs programs with the Python client.
type python struct {
	t      *testing.T
	path   string // of the interpreter
	folder string // sdk/python
	env    []string
}

func newPython(t *testing.T, env ...string) *python {
	t.Helper()
	skipShort(t)
	path, modules := must.Get2(testenv.PythonClient(t.Context()))(t)
	folder := must.Get(filepath.Abs("../../sdk/python"))(t)
	cache := must.Get(filepath.Abs("../../.cache/mypy"))(t)
	env = append(os.Environ(), append(env, "PYTHONPATH="+modules+":"+folder, "PYTHONDONTWRITEBYTECODE=1", "MYPY_CACHE_DIR="+cache)...)
	return &python{t: t, path: path, folder: folder, env: env}
}

func skipShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: starts Python and a broker")
	}
}

// serve starts a broker at an address that stays, for webhooks to this machine. args are further arguments.
func serve(t *testing.T, args ...string) (b *testenv.InteropBroker, env []string) {
	t.Helper()
	skipShort(t)
	b = testenv.ServeInterop(t, append(args, "--http-port", strconv.Itoa(testenv.PortForTest(t)), "--webhook-targets", "127.0.0.1")...)
	return b, []string{"SEB_ADDRESS=" + b.HTTP(), "SEB_API_KEY=" + testenv.InteropKey}
}

// program is a running program.
type program struct {
	*exec.Cmd
	lines *bufio.Scanner // of its output
	said  strings.Builder
}

// start starts a program, which ends with the test.
func (p *python) start(args ...string) *program {
	p.t.Helper()
	c := &program{Cmd: exec.CommandContext(p.t.Context(), p.path, args...)}
	c.Dir, c.Env = p.folder, p.env
	out, in := must.Get2(os.Pipe())(p.t)
	c.Stdout, c.Stderr = in, in
	must.NoError(p.t, c.Start())
	_ = in.Close()
	c.lines = bufio.NewScanner(out)
	return c
}

// until reads lines until one has a text.
func (c *program) until(text string) bool {
	for c.lines.Scan() {
		c.said.WriteString(c.lines.Text() + "\n")
		if text != "" && strings.Contains(c.lines.Text(), text) {
			return true
		}
	}
	return false
}

// end reads the rest of the output, and returns all of it and the exit code.
func (c *program) end() (out string, code int) {
	c.until("")
	_ = c.Wait()
	return c.said.String(), c.ProcessState.ExitCode()
}

// run runs a program to its end.
func (p *python) run(args ...string) string {
	p.t.Helper()
	out, code := p.start(args...).end()
	if code != 0 {
		p.t.Errorf("python3 %s ended with code %d:\n%s", strings.Join(args, " "), code, out)
	}
	return out
}

// TestPythonIsTyped: what is generated is not stale, and mypy --strict finds nothing.
func TestPythonIsTyped(t *testing.T) {
	t.Parallel()
	p := newPython(t)
	p.run("generate.py", "--check")
	p.run("-m", "mypy")
}

// TestPythonFaults runs the tests that need no broker, but a server whose certificate is not trusted.
func TestPythonFaults(t *testing.T) {
	t.Parallel()
	skipShort(t)
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes that fail
	server.StartTLS()
	t.Cleanup(server.Close)
	certificate := filepath.Join(t.TempDir(), "certificate.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	must.NoError(t, os.WriteFile(certificate, text, 0o600))
	for _, form := range forms {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			newPython(t, "TLS_ADDRESS="+server.URL, "TLS_CERTIFICATE="+certificate).run("tests/test_faults.py", form)
		})
	}
}

// forms are the arguments for the asynchronous and the synchronous client.
var forms = []string{"--async", "--sync"}

// TestPythonBroker runs the tests of both clients with a broker.
func TestPythonBroker(t *testing.T) {
	t.Parallel()
	_, env := serve(t)
	for _, form := range forms {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			newPython(t, env...).run("tests/test_broker.py", form, "BrokerTest")
		})
	}
}

// TestPythonLosesNothing kills the broker and starts it again, while both clients produce records one by one
// and follow them.
func TestPythonLosesNothing(t *testing.T) {
	t.Parallel()
	b, env := serve(t)
	var running []*program
	for _, form := range forms {
		c := newPython(t, env...).start("tests/test_broker.py", form, "LoopTest")
		must.Equalf(t, c.until("produced 20"), true, "the loop produces:\n%s", &c.said)
		running = append(running, c)
	}
	for range 2 {
		b.Restart(200 * time.Millisecond)
	}
	for _, c := range running {
		out, code := c.end()
		check.Equalf(t, code, 0, "the loop ends with code:\n%s", out)
	}
}

// TestPythonIsInterrupted: after a first interrupt a worker ends when its handler has returned and that is
// stored; a second one ends it at once.
func TestPythonIsInterrupted(t *testing.T) {
	t.Parallel()
	b, env := serve(t)
	c := must.Get(client.New(b.HTTP(), client.Options{APIKey: testenv.InteropKey}))(t)
	t.Cleanup(c.Close)
	for _, form := range forms {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			p, queue := newPython(t, env...), "interrupted"+form
			must.Get(c.CreateQueue(t.Context(), queue, client.QueueSpec{}))(t)
			worker := func(seconds string) *program {
				must.Get(c.SendMessages(t.Context(), queue, client.OutgoingMessage{Value: &seconds}))(t)
				worker := p.start("tests/worker.py", form, queue)
				must.Equalf(t, worker.until("started"), true, "the worker starts:\n%s", &worker.said)
				must.NoError(t, worker.Process.Signal(os.Interrupt))
				return worker
			}
			out, _ := worker("0.5").end()
			check.Contains(t, out, "finished")
			check.Contains(t, out, "KeyboardInterrupt")
			state := must.Get(c.Queue(t.Context(), queue))(t)
			check.Equalf(t, state.Ready+state.Leased+state.Retry, 0, "messages that are not done")
			busy := worker("600")
			ended := make(chan struct{})
			go func() {
				for { // two interrupts at the same time are one
					select {
					case <-time.After(50 * time.Millisecond):
						_ = busy.Process.Signal(os.Interrupt)
					case <-ended:
						return
					}
				}
			}()
			out, _ = busy.end()
			close(ended)
			check.Contains(t, out, "KeyboardInterrupt")
		})
	}
}

// snippets returns the programs of README.md and of the guide, by file and number.
func snippets(t *testing.T, ports *strings.Replacer) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, path := range []string{"sdk/python/README.md", "docs/guide/python.md"} {
		text := string(must.Get(os.ReadFile("../../" + path))(t))
		for i, m := range regexp.MustCompile("(?ms)^```python\n(.*?)^```$").FindAllStringSubmatch(text, -1) {
			found[fmt.Sprintf("%s %d", filepath.Base(path), i+1)] = ports.Replace(m[1])
		}
	}
	return found
}

// TestPythonSnippets runs the programs of the documents.
func TestPythonSnippets(t *testing.T) {
	t.Parallel()
	b, env := serve(t)
	_, port := must.Get2(net.SplitHostPort(strings.TrimPrefix(b.HTTP(), "http://")))(t)
	all := snippets(t, strings.NewReplacer("51313", port, "8080", strconv.Itoa(testenv.PortForTest(t))))
	check.Equal(t, len(all), 7)
	p := newPython(t, append(env, "WEBHOOK_SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")...)
	run := func(name string) *program { return p.start("-c", all[name]) }
	receiver := run("python.md 5")
	producer, jobs, sender := run("python.md 1"), run("python.md 3"), run("README.md 1")
	expect(t, producer, "1 b'4711' paid\n")
	expect(t, jobs, "resized cat.png\n")
	expect(t, sender, "")
	worker, consumer, trigger := run("README.md 2"), run("python.md 2"), run("python.md 4")
	must.Equalf(t, worker.until("mail to ada"), true, "the worker prints:\n%s", &worker.said)
	must.NoError(t, worker.Process.Signal(syscall.SIGTERM))
	expect(t, worker, "")
	expect(t, consumer, "bill placed\nbill paid\n")
	expect(t, trigger, "")
	check.Equalf(t, receiver.until("welcome fired for ada"), true, "the receiver prints:\n%s", &receiver.said)
}

// expect waits for the end of a program, which must print a text.
func expect(t *testing.T, c *program, want string) {
	t.Helper()
	out, code := c.end()
	if code != 0 || !strings.Contains(out, want) {
		t.Errorf("%s ended with code %d:\n%swant %q", c.Args[len(c.Args)-1], code, out, want)
	}
}
