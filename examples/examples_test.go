// Package examples tests the programs in its folders, and the marked blocks of README.md, SECURITY.md
// and docs/guide.
package examples

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

func TestMain(m *testing.M) {
	code := testenv.Main(m)
	_ = os.RemoveAll(programs.dir)
	os.Exit(code)
}

// programs are the built examples by name, and the receiver of the onboarding guide. TestMain removes
// them.
var programs struct {
	once  sync.Once
	dir   string
	names []string
	err   error
}

// buildPrograms builds all examples at the first call, and returns their folder and names.
func buildPrograms(t *testing.T) (dir string, names []string) {
	t.Helper()
	p := &programs
	p.once.Do(func() {
		if p.dir, p.err = os.MkdirTemp("", "seb-examples-"); p.err != nil {
			return
		}
		out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", p.dir, "./...").CombinedOutput()
		if err != nil {
			p.err = fmt.Errorf("build the examples: %w\n%s", err, out)
			return
		}
		sources, err := filepath.Glob("*/main.go")
		for _, path := range sources {
			if name := filepath.Dir(path); name != "onboarding" { // a month of events, with a test of its own
				p.names = append(p.names, name)
			}
		}
		p.err = err
	})
	must.NoError(t, p.err)
	return p.dir, p.names
}

// ofRun is the part of an ID that differs between runs of an example.
var ofRun = regexp.MustCompile(`-[A-Z2-7]{8}\b`)

// TestPrograms runs each example twice against a broker and compares its output.
func TestPrograms(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: builds a broker and the examples")
	}
	dir, names := buildPrograms(t)
	b := testenv.ServeInterop(t, "--webhook-targets", "127.0.0.1")
	env := []string{"BROKER=" + b.Address, "KEY=" + testenv.InteropKey, "SEB_ADDRESS=" + b.HTTP(), "SEB_API_KEY=" + testenv.InteropKey}
	prints := map[string][2]string{
		"http":  {"order 4711 was placed\norder 4711 was paid\n", "order 4711 was placed\norder 4711 was paid\n"},
		"kafka": {"rose is red at 0\nlily is white at 1\n", "rose is red at 2\nlily is white at 3\n"},
		"embedded": {
			"stored from offset 0\n0: order 4711 was placed\n1: order 4711 was paid\n",
			"stored from offset 2\n0: order 4711 was placed\n1: order 4711 was paid\n2: order 4711 was placed\n3: order 4711 was paid\n",
		},
		"jobs": {
			"sent cat.png: true\nsent dog.png: true\nresized cat.png, delivery 1\nresized dog.png, delivery 1\n",
			"sent cat.png: true\nsent dog.png: true\nresized cat.png, delivery 1\nresized dog.png, delivery 1\n",
		},
		"service": {"paid fired for order-ID\n", "paid fired for order-ID\n"},
		"trigger": {"trigger.fired: example-ID fired for ada-ID\n", "trigger.fired: example-ID fired for ada-ID\n"},
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			for i, want := range prints[name] {
				out, err := output(t, folder, env, filepath.Join(dir, name))
				check.Equalf(t, ofRun.ReplaceAllString(out, "-ID"), want, "run %d of the program prints", i+1)
				must.NoError(t, err)
			}
			check.Equalf(t, prints[name] != [2]string{}, true, "the test knows what the example prints")
		})
	}
}

// TestProgramsEnd runs the examples without a broker, without a key and with a wrong one, or without a
// folder for the bucket: each ends with a sentence and exit code 1.
func TestProgramsEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: builds a broker and the examples")
	}
	dir, names := buildPrograms(t)
	b := testenv.ServeInterop(t)
	closed := must.Get(testenv.FreeAddress())(t)
	for _, c := range []struct {
		name string
		env  []string
		want map[string]string
	}{
		{
			"without a broker",
			[]string{"BROKER=" + closed, "SEB_ADDRESS=http://" + closed, "KEY=" + testenv.InteropKey, "SEB_API_KEY=" + testenv.InteropKey},
			map[string]string{"http": "connection refused", "jobs": "connection refused", "kafka": "no connection to " + closed, "trigger": "connection refused"},
		},
		{
			"without a key",
			[]string{"BROKER=" + b.Address, "SEB_ADDRESS=" + b.HTTP()},
			map[string]string{"http": "missing API key", "jobs": "missing API key", "kafka": "$KEY", "trigger": "missing API key"},
		},
		{
			"with a wrong key",
			[]string{"BROKER=" + b.Address, "SEB_ADDRESS=" + b.HTTP(), "KEY=another-key-0123456", "SEB_API_KEY=another-key-0123456"},
			map[string]string{"http": "invalid", "jobs": "invalid", "kafka": "$KEY", "trigger": "invalid"},
		},
		{
			"without --webhook-targets",
			[]string{"BROKER=" + b.Address, "SEB_ADDRESS=" + b.HTTP(), "KEY=" + testenv.InteropKey, "SEB_API_KEY=" + testenv.InteropKey},
			map[string]string{"trigger": "--webhook-targets"},
		},
		{"with a file instead of a bucket", nil, map[string]string{"embedded": "bucket", "service": "bucket"}},
	} {
		for _, name := range names {
			want := c.want[name]
			if want == "" {
				continue // the example needs none of this
			}
			t.Run(c.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				folder := t.TempDir()
				if c.env == nil {
					must.NoError(t, os.WriteFile(filepath.Join(folder, "bucket"), nil, 0o600))
				}
				_, err := output(t, folder, c.env, filepath.Join(dir, name))
				exit, ok := errors.AsType[*exec.ExitError](err)
				if !ok || exit.ExitCode() != 1 || !strings.Contains(string(exit.Stderr), want) {
					t.Errorf("%s %s: %v, want exit code 1 and %q", name, c.name, err, want)
				}
			})
		}
	}
}

// output runs a program in a folder with variables in its environment, and returns its stdout.
func output(t *testing.T, folder string, env []string, program string) (string, error) {
	t.Helper()
	c := exec.CommandContext(t.Context(), program)
	c.Dir, c.Env = folder, append(os.Environ(), env...)
	out, err := c.Output()
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		t.Logf("%s: %s", filepath.Base(program), e.Stderr)
	}
	return string(out), err
}
