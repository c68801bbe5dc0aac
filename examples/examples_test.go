// Package examples tests the programs in its folders, and the marked blocks of README.md and of
// docs/guide.
package examples

import (
	"os"
	"os/exec"
	"testing"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

// TestPrograms runs each example against a broker and compares its output.
func TestPrograms(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: builds a broker and the examples")
	}
	b := testenv.ServeInterop(t, "--webhook-targets", "127.0.0.1")
	for _, p := range []struct{ name, want string }{
		{"http", "order 4711 was placed\norder 4711 was paid\n"},
		{"kafka", "rose is red at 0\nlily is white at 1\n"},
		{"embedded", "stored from offset 0\n0: order 4711 was placed\n1: order 4711 was paid\n"},
		{"trigger", "trigger.fired: no-project fired for ada\n"},
	} {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			program := must.Get(testenv.BuildPackage(t.TempDir(), "github.com/sebbroker/seb/examples/"+p.name))(t)
			check.Equalf(t, output(t, b, program), p.want, "the program prints")
		})
	}
}

// output runs a program in an empty folder, with the broker in its environment, and returns its stdout.
func output(t *testing.T, b *testenv.InteropBroker, program string, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), program, args...)
	c.Dir = t.TempDir()
	c.Env = append(os.Environ(), "BROKER="+b.Address, "KEY="+testenv.InteropKey, "SEB_ADDRESS="+b.HTTP(), "SEB_API_KEY="+testenv.InteropKey)
	out, err := c.Output()
	if err != nil {
		said := ""
		if e, ok := err.(*exec.ExitError); ok {
			said = string(e.Stderr)
		}
		t.Fatalf("%s: %v\n%s%s", program, err, out, said)
	}
	return string(out)
}
