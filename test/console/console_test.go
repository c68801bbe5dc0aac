package console

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

var (
	all      = flag.Bool("all", false, "run every case")
	only     = flag.String("only", "", "run these cases, separated by commas")
	update   = flag.Bool("update", false, "write the golden texts of the cases")
	pictures = flag.String("pictures", "", "folder for pictures of the pages")
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

const (
	sources = "../../internal/protocols/console/ui"
	built   = "../../internal/protocols/console/dist"
	vendor  = "../../internal/protocols/console/thirdparty"
)

// TestBundle: the bundle in the repository is what the sources give. A file that the build does not
// write is a fault too.
func TestBundle(t *testing.T) {
	fresh := filepath.Join(t.TempDir(), "dist")
	must.Get(testenv.Command(t.Context(), "../..", "make", "console", "BUNDLE="+fresh))(t)
	want, got := files(t, fresh), files(t, built)
	for name, content := range want {
		if !bytes.Equal(got[name], content) {
			t.Errorf("%s/%s is not what the sources give: run make console", built, name)
		}
		delete(got, name)
	}
	for name := range got {
		t.Errorf("%s/%s has no source: run make console", built, name)
	}
}

// files returns the files of a folder, uncompressed.
func files(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	list := must.Get(os.ReadDir(dir))(t)
	content := map[string][]byte{}
	for _, e := range list {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		name, zipped := strings.CutSuffix(e.Name(), ".gz")
		if zipped && err == nil {
			var r *gzip.Reader
			if r, err = gzip.NewReader(bytes.NewReader(b)); err == nil {
				b, err = io.ReadAll(r)
			}
		}
		must.NoError(t, err)
		content[name] = b
	}
	return content
}

// TestBundleSize: what a browser loads first, and the whole bundle, compressed and not.
func TestBundleSize(t *testing.T) {
	first, charts, compressed, raw := 0, 0, 0, 0
	for name, content := range files(t, built) {
		n := zipped(t, content)
		compressed, raw = compressed+n, raw+len(content)
		switch name {
		case "index.html", "app.js", "chunk.js", "app.css":
			first += n
		case "charts.js":
			charts += n
		}
	}
	t.Logf("bytes: first load %d, charts %d, all files %d compressed and %d raw", first, charts, compressed, raw)
	for _, c := range []struct {
		what     string
		got, max int
	}{{"first load", first, 45 << 10}, {"charts", charts, 26 << 10}, {"all files", compressed, 116 << 10}, {"all files, not compressed", raw, 350 << 10}} {
		if c.got > c.max {
			t.Errorf("%s: %d bytes, at most %d", c.what, c.got, c.max)
		}
	}
}

func zipped(t *testing.T, content []byte) int {
	t.Helper()
	var b bytes.Buffer
	w := must.Get(gzip.NewWriterLevel(&b, gzip.BestCompression))(t)
	must.Get(w.Write(content))(t)
	must.NoError(t, w.Close())
	return b.Len()
}

// TestThirdParty: VERSIONS.tsv lists the files of others with their digests, and npm has the same
// files.
func TestThirdParty(t *testing.T) {
	listed := must.Get(os.ReadFile(filepath.Join(vendor, "VERSIONS.tsv")))(t)
	npm := installed(t)
	got := files(t, vendor)
	delete(got, "VERSIONS.tsv")
	delete(got, "licenses.txt")
	for line := range strings.Lines(strings.SplitN(string(listed), "\n", 2)[1]) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		must.Equalf(t, len(f), 6, "line %q: want 6 fields", line)
		sum := sha256.Sum256(got[f[0]])
		check.Equalf(t, hex.EncodeToString(sum[:]), f[5], "%s has not the digest of the list", f[0])
		original, err := os.ReadFile(filepath.Join(npm, "node_modules", f[1], f[3]))
		if err != nil || !bytes.Equal(original, got[f[0]]) {
			t.Errorf("%s is not %s of %s (%v)", f[0], f[3], f[1], err)
		}
		var p struct{ Version, License string }
		text, err := os.ReadFile(filepath.Join(npm, "node_modules", f[1], "package.json"))
		if err != nil || json.Unmarshal(text, &p) != nil || p.Version != f[2] || p.License != f[4] {
			t.Errorf("%s: npm has version %s, licence %s (%v)", f[0], p.Version, p.License, err)
		}
		delete(got, f[0])
	}
	for name := range got {
		t.Errorf("%s is not in the list", name)
	}
}

// installed returns the folder of node_modules. Without node and npm the test is skipped, except on
// a machine that tests every change (CI=true).
func installed(t *testing.T) string {
	t.Helper()
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatal(err)
			}
			t.Skip("needs node and npm: ", err)
		}
	}
	dir := must.Get(Modules(t.Context(), "."))(t)
	return dir
}

// TestTypes checks the types of the sources.
func TestTypes(t *testing.T) {
	npm := installed(t)
	paths := map[string][]string{}
	for _, name := range []string{"preact", "preact/hooks", "preact/jsx-runtime", "uplot"} {
		paths[name] = []string{filepath.Join(npm, "node_modules", name)}
	}
	from := must.Get(filepath.Abs(sources))(t)
	config, err := json.Marshal(map[string]any{
		"compilerOptions": map[string]any{
			"strict": true, "noEmit": true, "target": "ES2022", "module": "ESNext", "moduleResolution": "bundler", "jsx": "react-jsx", "jsxImportSource": "preact",
			"lib": []string{"ES2023", "DOM", "DOM.Iterable", "WebWorker"}, "skipLibCheck": true, "noUncheckedIndexedAccess": true, "noUnusedLocals": true,
			"types": []string{}, "paths": paths,
		},
		"include": []string{from + "/**/*"},
	})
	must.NoError(t, err)
	file := filepath.Join(t.TempDir(), "tsconfig.json")
	must.NoError(t, os.WriteFile(file, config, 0o600))
	if _, err := testenv.Command(t.Context(), ".", filepath.Join(npm, "node_modules/.bin/tsc"), "-p", file); err != nil {
		t.Error(err)
	}
}

// TestPages runs cases in the browser: one, or with -all every one.
func TestPages(t *testing.T) {
	npm := installed(t)
	if _, err := exec.LookPath("apt-get"); err != nil && os.Getenv("CI") != "true" {
		t.Skip("needs Debian's packages: ", err)
	}
	program, env := must.Get2(Browser(t.Context()))(t)
	port := must.Get(testenv.FreePort())(t)
	args := []string{"--http-port", strconv.Itoa(port), "--webhook-targets", "127.0.0.1", "--http-host", "seb.example"}
	if *only == "lists-many" {
		args = append(args, "--memory-limit", "1GiB") // for the state
	}
	b := testenv.ServeInterop(t, args...)
	cases := "smoke"
	if *all {
		cases = *only
	} else if *only != "" {
		cases = *only
	}
	env = append(env, "BASE="+b.HTTP(), "KEY="+testenv.InteropKey, "CONTROL="+control(t, b), "MODULES="+npm, "BROWSER="+program, "ONLY="+cases, "PICTURES="+folder(t))
	if *update {
		env = append(env, "UPDATE=1")
	}
	out, err := run(t.Context(), env)
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if !strings.Contains(out, "ok ") && err == nil {
		t.Error("no case ran")
	}
}

// folder returns the folder for pictures, or "".
func folder(t *testing.T) string {
	t.Helper()
	if *pictures == "" {
		return ""
	}
	root := must.Get(testenv.Root())(t)
	if filepath.IsAbs(*pictures) {
		return *pictures
	}
	return filepath.Join(root, *pictures)
}

// run runs the cases and returns what they print. With -v it also prints that at once.
func run(ctx context.Context, env []string) (string, error) {
	c := exec.CommandContext(ctx, "node", "run.mjs")
	c.Env = append(os.Environ(), env...)
	c.SysProcAttr = testenv.Attributes()
	var out strings.Builder
	c.Stdout = &out
	if testing.Verbose() {
		c.Stdout = io.MultiWriter(&out, os.Stdout)
	}
	c.Stderr = c.Stdout
	err := c.Run()
	return out.String(), err
}

// control returns an address at which a case kills and starts the broker, replaces it by one with events of
// the past, or opens a transaction.
func control(t *testing.T, b *testenv.InteropBroker) string {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /kill", func(http.ResponseWriter, *http.Request) { b.Kill() })
	mux.HandleFunc("POST /start", func(http.ResponseWriter, *http.Request) { b.Start() })
	mux.HandleFunc("POST /past", func(w http.ResponseWriter, r *http.Request) {
		b.Kill()
		bucket := filepath.Join(b.Dir, "bucket")
		for _, folder := range []string{bucket, filepath.Join(b.Dir, "data")} {
			if err := os.RemoveAll(folder); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
		}
		if err := past(r.Context(), bucket, r.Body); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		b.Start()
	})
	mux.HandleFunc("POST /transaction", func(w http.ResponseWriter, r *http.Request) {
		if err := openTransaction(r.Context(), b.Address, r.FormValue("id"), r.FormValue("topic")); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	s := &http.Server{Handler: mux}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	return fmt.Sprintf("http://%s", l.Addr())
}

// openTransaction leaves a transaction open with a record in a topic.
func openTransaction(ctx context.Context, address, id, topic string) error {
	c, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.TransactionalID(id), kgo.TransactionTimeout(10*time.Minute),
		kgo.SASL(plain.Auth{User: "seb", Pass: testenv.InteropKey}.AsMechanism()))
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.BeginTransaction(); err != nil {
		return err
	}
	return c.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("v")}).FirstErr()
}
