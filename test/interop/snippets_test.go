package interop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

// kafkajsVersion is the version of the JavaScript client, which needs no compiler.
const kafkajsVersion = "2.2.4"

// snippets are the programs of docs/guide/kafka.md: the language of the block, the file, and the
// command.
var snippets = []struct {
	language, file string
	run            func(t *testing.T, b *testenv.InteropBroker, file string) *exec.Cmd
}{
	{"sh", "kcat.sh", func(t *testing.T, b *testenv.InteropBroker, file string) *exec.Cmd {
		k := newKcat(t, b, "PLAIN")
		c := exec.CommandContext(t.Context(), "sh", "-e", file)
		c.Dir = t.TempDir()
		c.Env = append(os.Environ(), k.env[0], "PATH="+filepath.Dir(k.path)+":"+os.Getenv("PATH"))
		return c
	}},
	{"python", "python.py", func(t *testing.T, b *testenv.InteropBroker, file string) *exec.Cmd {
		p := newPython(t, b)
		c := exec.CommandContext(t.Context(), p.path, file)
		c.Env = p.env
		return c
	}},
	{"javascript", "javascript.js", func(t *testing.T, _ *testenv.InteropBroker, file string) *exec.Cmd {
		node, err := needs("node", "kafkajs runs in")
		must.NoError(t, err)
		modules, err := kafkajs(t.Context())
		must.NoError(t, err)
		c := exec.CommandContext(t.Context(), node, file)
		c.Env = append(os.Environ(), "NODE_PATH="+modules, "KAFKAJS_NO_PARTITIONER_WARNING=1")
		return c
	}},
}

// kafkajs installs kafkajs and returns the folder for NODE_PATH.
func kafkajs(ctx context.Context) (dir string, err error) {
	return npmPackage(ctx, "kafkajs", kafkajsVersion)
}

// npmPackage installs a package from npm and returns the folder for NODE_PATH.
func npmPackage(ctx context.Context, name, version string) (dir string, err error) {
	npm, err := needs("npm", "fetches "+name)
	if err != nil {
		return "", err
	}
	dir, err = testenv.Install("interop/"+name+"-"+version, name+" "+version+" from npm", func(dir string) error {
		if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte("{}"), 0o600); err != nil {
			return err
		}
		_, err := testenv.Command(ctx, dir, npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", name+"@"+version)
		if err != nil {
			return fmt.Errorf("npm install (needs the npm registry or a configured mirror): %w", err)
		}
		return nil
	})
	return filepath.Join(dir, "node_modules"), err
}

// TestSnippetsInDocs: the programs of docs/guide/kafka.md are the files that TestSnippets runs.
func TestSnippetsInDocs(t *testing.T) {
	doc := must.Get(os.ReadFile("../../docs/guide/kafka.md"))(t)
	_, section, found := strings.Cut(string(doc), "\n## Examples\n")
	if !found {
		t.Fatal("docs/guide/kafka.md has no section Examples")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var got, want []string
	for i, block := range strings.Split(section, "\n```") {
		if i%2 == 1 {
			got = append(got, block)
		}
	}
	for _, s := range snippets {
		text := must.Get(os.ReadFile(filepath.Join("testdata/snippets", s.file)))(t)
		want = append(want, s.language+"\n"+strings.TrimSuffix(string(text), "\n"))
	}
	if !slices.Equal(got, want) {
		t.Errorf("docs/guide/kafka.md has the programs\n%s\nwant those in testdata/snippets\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestSnippets runs the programs of docs/guide/kafka.md.
func TestSnippets(t *testing.T) {
	testenv.InteropWanted(t)
	for _, s := range snippets {
		t.Run(s.language, func(t *testing.T) {
			t.Parallel()
			b := testenv.ServeInterop(t)
			file := must.Get(filepath.Abs(filepath.Join("testdata/snippets", s.file)))(t)
			c := s.run(t, b, file)
			c.Env = append(c.Env, "BROKER="+b.Address, "KEY="+testenv.InteropKey)
			c.WaitDelay = time.Second
			begin := time.Now()
			out, err := c.CombinedOutput()
			if errors.Is(err, exec.ErrWaitDelay) {
				err = nil
			}
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			for _, want := range []string{"rose is red", "lily is white"} {
				if !strings.Contains(string(out), want) {
					t.Errorf("the program does not print %q: %s", want, out)
				}
			}
			report(t, "docs/guide/kafka.md", "the "+s.file+" of the examples", time.Since(begin))
		})
	}
}
