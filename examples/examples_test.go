// Package examples tests the programs in its folders, and those of docs/guide/http.md.
package examples

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sebbroker/seb/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.InteropMain(m)) }

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
			program, err := testenv.BuildPackage(t.TempDir(), "github.com/sebbroker/seb/examples/"+p.name)
			if err != nil {
				t.Fatal(err)
			}
			if got := output(t, b, program); got != p.want {
				t.Errorf("the program prints\n%s\nwant\n%s", got, p.want)
			}
		})
	}
}

// TestHTTPGuide runs the programs of docs/guide/http.md: the blocks of a language, one after the other.
func TestHTTPGuide(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: builds a broker")
	}
	doc, err := os.ReadFile("../docs/guide/http.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []struct {
		language, program, file string
		want                    []string
	}{
		{"sh", "curl", "guide.sh", []string{`"4711"`, `"value":"paid"`, `"next_offset":2`, `"group":"billing"`}},
		{"python", "python3", "guide.py", []string{"orders 2", "0 4711 placed", "1 4711 paid", "billing paid"}},
		{"js", "node", "guide.mjs", []string{"orders 2", "0 4711 placed", "1 4711 paid", "billing paid"}},
	} {
		t.Run(p.language, func(t *testing.T) {
			t.Parallel()
			program, err := exec.LookPath(p.program)
			if err != nil {
				t.Skipf("%s is not installed", p.program)
			}
			if p.language == "sh" {
				program = "sh"
			}
			var text strings.Builder
			blocks := regexp.MustCompile("(?s)```"+p.language+"\n(.*?)```").FindAllStringSubmatch(string(doc), -1)
			for _, block := range blocks {
				text.WriteString(block[1])
			}
			if len(blocks) != 5 {
				t.Fatalf("the guide has %d blocks of %s, want 5", len(blocks), p.language)
			}
			file := filepath.Join(t.TempDir(), p.file)
			if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
				t.Fatal(err)
			}
			args := []string{file}
			if p.language == "sh" {
				args = []string{"-e", file}
			}
			got := output(t, testenv.ServeInterop(t), program, args...)
			for _, want := range p.want {
				if !strings.Contains(got, want) {
					t.Errorf("the program does not print %q:\n%s", want, got)
				}
			}
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
