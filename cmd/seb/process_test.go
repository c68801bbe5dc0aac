package main_test

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	seb "github.com/sebbroker/seb/cmd/seb"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/testenv"
)

func TestMain(m *testing.M) {
	os.Exit(testenv.MainOf(m, func() {
		if len(os.Args) == 2 && os.Args[1] == shellCommand {
			if err := runShell(); err != nil {
				panic(err)
			}
			return
		}
		seb.Main()
	}))
}

// workDir is a working folder for commands of a person.
type workDir struct {
	t   *testing.T
	dir string
	env []string
}

// parallel has the tests that newWorkDir has made parallel: a test may have two folders.
var parallel sync.Map

func newWorkDir(t *testing.T) *workDir {
	t.Helper()
	if _, was := parallel.LoadOrStore(t, true); !was {
		t.Parallel() // tests of processes wait more than they compute
	}
	return &workDir{t: t, dir: t.TempDir()}
}

func (p *workDir) command(args ...string) *exec.Cmd {
	c := exec.Command(testenv.Program(p.t), args...)
	c.Dir = p.dir
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "SEB_") {
			c.Env = append(c.Env, v)
		}
	}
	c.Env = append(c.Env, p.env...)
	return c
}

// result is the result of a command.
type result struct {
	out, err string
	code     int
}

func (p *workDir) runWith(in io.Reader, args ...string) result {
	p.t.Helper()
	if inShell(args) {
		return p.runInShell(in, args)
	}
	c := p.command(args...)
	var out, err bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = in, &out, &err
	if e := c.Run(); e != nil && c.ProcessState == nil {
		p.t.Fatal(e)
	}
	return result{out.String(), err.String(), c.ProcessState.ExitCode()}
}

func (p *workDir) run(args ...string) result { p.t.Helper(); return p.runWith(nil, args...) }

// must runs a command that must succeed and returns its stdout.
func (p *workDir) must(args ...string) string { p.t.Helper(); return p.mustWith("", args...) }

func (p *workDir) mustWith(in string, args ...string) string {
	p.t.Helper()
	r := p.runWith(strings.NewReader(in), args...)
	if r.code != 0 {
		p.t.Fatalf("seb %s: exit code %d\n%s%s", strings.Join(args, " "), r.code, r.out, r.err)
	}
	return r.out
}

// refused runs a command that must fail with a code, and one line with text on stderr.
func (p *workDir) refused(code int, text string, args ...string) {
	p.t.Helper()
	r := p.runWith(strings.NewReader("x\n"), args...)
	if r.code != code || !strings.Contains(r.err, text) {
		p.t.Errorf("seb %s: exit code %d, want %d, and %q in: %s", strings.Join(args, " "), r.code, code, text, r.err)
	}
	if n := strings.Count(r.err, "\n"); n != 1 {
		p.t.Errorf("seb %s: %d lines on stderr: %s", strings.Join(args, " "), n, r.err)
	}
}

// running is a broker in the background.
type running struct {
	t        *testing.T
	cmd      *exec.Cmd
	out, err sebtest.Log
	done     chan struct{}
}

// serve starts a broker on any free port and waits for its ready message.
func (p *workDir) serve(args ...string) *running {
	p.t.Helper()
	r := p.launch(append([]string{"--http-port", "0"}, args...)...)
	waitFor(p.t, func() bool {
		select {
		case <-r.done:
			p.t.Fatalf("serve ended: %s%s", r.out.String(), r.err.String())
		default:
		}
		return r.serves()
	})
	return r
}

func (p *workDir) launch(args ...string) *running {
	p.t.Helper()
	r := &running{t: p.t, cmd: p.command(append([]string{"serve"}, args...)...), done: make(chan struct{})}
	r.cmd.Stdout, r.cmd.Stderr = &r.out, &r.err
	r.start()
	return r
}

func (r *running) start() {
	r.t.Helper()
	must.NoError(r.t, r.cmd.Start())
	go func() {
		_ = r.cmd.Wait()
		close(r.done)
	}()
	r.t.Cleanup(r.kill)
}

func (r *running) kill() {
	_ = r.cmd.Process.Kill()
	<-r.done
}

// term sends SIGTERM and returns the exit code.
func (r *running) term() int {
	_ = r.cmd.Process.Signal(syscall.SIGTERM)
	return r.wait()
}

// wait returns the exit code of a broker that ends on its own.
func (r *running) wait() int {
	r.t.Helper()
	select {
	case <-r.done:
	case <-time.After(sebtest.Limit):
		r.t.Fatalf("the broker does not end\n%s", r.err.String())
	}
	return r.cmd.ProcessState.ExitCode()
}

// serves reports whether the broker has logged that it is ready.
func (r *running) serves() bool { return addressLine.MatchString(r.err.String()) }

// addressLine matches a log of either format.
var addressLine = regexp.MustCompile(`msg"?[=:]"?serving\b.*?address"?[=:]"?(https?://[^\s"]+)`)

func (r *running) address() string {
	r.t.Helper()
	m := addressLine.FindStringSubmatch(r.err.String())
	if m == nil {
		r.t.Fatalf("no address in: %s", r.err.String())
	}
	return m[1]
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	sebtest.Eventually(t, "of processes", ok)
}
