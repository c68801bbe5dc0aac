package sdk

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	pages "github.com/sebbroker/seb/test/console"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/testenv"
	"github.com/sebbroker/seb/webhook"
)

const javascript = "../../sdk/js"

// node returns the path of node. Without node and npm the test is skipped, except on a machine that
// tests every change (CI=true).
func node(t *testing.T) string {
	t.Helper()
	skipShort(t)
	var program string
	for _, tool := range []string{"npm", "node"} {
		var err error
		if program, err = exec.LookPath(tool); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatal(err)
			}
			t.Skip("needs node and npm: ", err)
		}
	}
	return program
}

// TestJavaScriptBuild: sdk/js/dist is what tsc makes of the sources. -update writes it.
func TestJavaScriptBuild(t *testing.T) {
	t.Parallel()
	node(t)
	modules := must.Get(pages.Modules(t.Context(), javascript))(t)
	dir := t.TempDir()
	if *sebtest.Update {
		dir = must.Get(filepath.Abs(javascript))(t)
		must.NoError(t, os.RemoveAll(filepath.Join(dir, "dist")))
	} else {
		for _, name := range []string{"src", "package.json", "conformance.ts", "tsconfig.json", "tsconfig.conformance.json"} {
			copyTo(t, filepath.Join(dir, name), filepath.Join(javascript, name))
		}
	}
	link := filepath.Join(dir, "node_modules")
	must.NoError(t, os.Symlink(filepath.Join(modules, "node_modules"), link))
	defer os.Remove(link)
	tsc := filepath.Join(link, ".bin/tsc")
	for _, config := range []string{"tsconfig.json", "tsconfig.conformance.json"} {
		must.Get(testenv.Command(t.Context(), dir, tsc, "-p", config))(t)
	}
	made, committed := built(t, dir), built(t, javascript)
	if !slices.Equal(slices.Sorted(maps.Keys(made)), slices.Sorted(maps.Keys(committed))) {
		t.Error("sdk/js/dist has other files than tsc makes: run go test ./test/sdk -run JavaScriptBuild -update")
	}
	for name, text := range made {
		if committed[name] != text {
			t.Errorf("sdk/js/dist/%s is not what tsc makes: run go test ./test/sdk -run JavaScriptBuild -update", name)
		}
	}
}

// copyTo copies a file or a folder.
func copyTo(t *testing.T, to, from string) {
	t.Helper()
	if info := must.Get(os.Stat(from))(t); info.IsDir() {
		must.NoError(t, os.CopyFS(to, os.DirFS(from)))
		return
	}
	must.NoError(t, os.WriteFile(to, must.Get(os.ReadFile(from))(t), 0o600))
}

// built returns the files that tsc makes in a folder, by name.
func built(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, path := range must.Get(filepath.Glob(filepath.Join(dir, "dist/*")))(t) {
		files[filepath.Base(path)] = string(must.Get(os.ReadFile(path))(t))
	}
	return files
}

// bundleMax bounds what a page loads: a bundle that is minified and compressed.
const bundleMax = 15_000

// TestJavaScriptSize: the bundles for pages and for servers stay small.
func TestJavaScriptSize(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"browser", "index"} {
		file := filepath.Join(t.TempDir(), name+".js")
		bundle(t, name, file)
		var zipped bytes.Buffer
		z := must.Get(gzip.NewWriterLevel(&zipped, gzip.BestCompression))(t)
		plain := must.Get(z.Write(must.Get(os.ReadFile(file))(t)))(t)
		must.NoError(t, z.Close())
		t.Logf("%s: %d bytes minified, %d compressed", name, plain, zipped.Len())
		if zipped.Len() > bundleMax {
			t.Errorf("%s: %d bytes compressed, at most %d", name, zipped.Len(), bundleMax)
		}
	}
}

// bundle writes an entry point of the SDK and all that it imports to one file.
func bundle(t *testing.T, name, file string) {
	t.Helper()
	must.Get(testenv.Command(t.Context(), "../..", "go", "tool", "-modfile=tools/go.mod", "esbuild", "--bundle", "--minify", "--format=esm",
		"--target=es2022", "--log-level=warning", "--outfile="+file, "sdk/js/dist/"+name+".js"))(t)
}

// installedSDK returns a folder in which programs can import sebbroker.
func installedSDK(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	must.NoError(t, os.Mkdir(filepath.Join(dir, "node_modules"), 0o700))
	must.NoError(t, os.Symlink(must.Get(filepath.Abs(javascript))(t), filepath.Join(dir, "node_modules/sebbroker")))
	return dir
}

// TestJavaScript runs testdata/broker.mjs and testdata/faults.mjs.
func TestJavaScript(t *testing.T) {
	t.Parallel()
	program, dir := node(t), installedSDK(t)
	b, env := serve(t)
	for _, name := range []string{"broker.mjs", "faults.mjs"} {
		copyTo(t, filepath.Join(dir, name), filepath.Join("testdata", name))
	}
	authority := testenv.NewAuthority(t)
	leaf := authority.Files(t, dir, testenv.Leaf{})
	c := exec.CommandContext(t.Context(), program, "--test", "--test-concurrency=2", "--test-timeout=60000", "--test-reporter=spec", "broker.mjs", "faults.mjs")
	c.Dir, c.SysProcAttr = dir, testenv.Attributes()
	c.Env = slices.Concat(os.Environ(), env, []string{
		"CONTROL=" + control(t, b), "VECTORS=" + vectors(t, dir), "CERT=" + leaf.Cert, "CERT_KEY=" + leaf.Key, "CA=" + authority.File(t, dir),
	})
	out, err := c.CombinedOutput()
	if err != nil || !regexp.MustCompile(`(?m)^ℹ pass [1-9]`).Match(out) {
		t.Errorf("%v: %s", err, out)
	}
}

// control returns an address: a POST there kills the broker, and is answered when it serves again.
func control(t *testing.T, b *testenv.InteropBroker) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { b.Restart(0) }))
	t.Cleanup(s.Close)
	return s.URL
}

// vectors writes webhooks that package webhook has signed, and some that are wrong.
func vectors(t *testing.T, dir string) string {
	t.Helper()
	const now = 1_777_636_800
	old, current, other := webhook.NewSecret(), webhook.NewSecret(), webhook.NewSecret()
	type vector struct {
		Name, Body, Want string
		Headers          map[string]string
		Secrets          []string
		Now, Sent        int64
	}
	make := func(name, want string, change func(v *vector)) vector {
		h, body := http.Header{}, []byte("{\"é\":1}\x00\xff")
		must.NoError(t, webhook.Sign(h, "5f0c1e8a", time.Unix(now-100, 0), body, old, current))
		v := vector{Name: name, Want: want, Body: base64.StdEncoding.EncodeToString(body), Now: now, Sent: now - 100, Secrets: []string{current.Reveal()}, Headers: map[string]string{}}
		for k := range h {
			v.Headers[strings.ToLower(k)] = h.Get(k)
		}
		if change != nil {
			change(&v)
		}
		return v
	}
	list := []vector{
		make("one of two secrets", "", nil),
		make("second secret", "", func(v *vector) { v.Secrets = []string{other.Reveal(), old.Reveal()} }),
		make("other secret", "signature", func(v *vector) { v.Secrets = []string{other.Reveal()} }),
		make("other body", "signature", func(v *vector) { v.Body = "e30=" }),
		make("other ID", "signature", func(v *vector) { v.Headers["webhook-id"] = "5f0c1e8b" }),
		make("other version", "signature", func(v *vector) {
			v.Headers["webhook-signature"] = strings.ReplaceAll(v.Headers["webhook-signature"], "v1,", "v1a,")
		}),
		make("too old", "timestamp", func(v *vector) { v.Now += 201 }),
		make("too new", "timestamp", func(v *vector) { v.Now -= 401 }),
		make("no number", "bad_headers", func(v *vector) { v.Headers["webhook-timestamp"] = "0" + v.Headers["webhook-timestamp"] }),
		make("no ID", "bad_headers", func(v *vector) { delete(v.Headers, "webhook-id") }),
		make("full stop", "bad_headers", func(v *vector) { v.Headers["webhook-id"] = "a.b" }),
	}
	text := must.Get(json.Marshal(list))(t)
	for _, name := range []string{"Name", "Body", "Want", "Headers", "Secrets", "Now", "Sent"} {
		text = bytes.ReplaceAll(text, []byte(`"`+name+`":`), []byte(`"`+strings.ToLower(name)+`":`))
	}
	file := filepath.Join(dir, "vectors.json")
	must.NoError(t, os.WriteFile(file, text, 0o600))
	return file
}

// TestJavaScriptDocuments runs the programs of the README and of the guide. Each prints the block that
// follows it, and ends by itself, or after SIGTERM if it handles that. A receiver of webhooks gets one.
func TestJavaScriptDocuments(t *testing.T) {
	t.Parallel()
	program := node(t)
	block := regexp.MustCompile("(?ms)^```js\n(.*?)^```$(?:\n\n```\n(.*?)^```$)?")
	for _, path := range []string{filepath.Join(javascript, "README.md"), "../../docs/guide/javascript.md"} {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			blocks := block.FindAllStringSubmatch(string(must.Get(os.ReadFile(path))(t)), -1)
			if len(blocks) < 3 {
				t.Fatalf("%d programs", len(blocks))
			}
			_, env := serve(t)
			dir, port, secret := installedSDK(t), testenv.PortForTest(t), webhook.NewSecret()
			env = append(env, fmt.Sprint("PORT=", port), "WEBHOOK_SECRET="+secret.Reveal())
			for i, m := range blocks {
				file := filepath.Join(dir, fmt.Sprintf("%d.mjs", i))
				must.NoError(t, os.WriteFile(file, []byte(m[1]), 0o600))
				p := must.Get(testenv.StartProgram(program, env, nil, file))(t)
				t.Cleanup(p.Kill)
				if strings.Contains(m[1], "verify(") {
					post(t, port, secret)
				}
				mustPrint(t, p, m[2], strings.Contains(m[1], "SIGTERM"))
				if t.Failed() {
					t.Fatalf("the output is\n%s\nof\n%s", p.Log(), m[1])
				}
			}
		})
	}
}

// mustPrint waits until a program has printed lines and has ended. stops: it ends after SIGTERM.
func mustPrint(t *testing.T, p *testenv.Broker, want string, stops bool) {
	t.Helper()
	printed := func() bool {
		for line := range strings.Lines(want) {
			if !strings.Contains(p.Log(), strings.TrimSpace(line)) {
				return false
			}
		}
		return true
	}
	sebtest.Eventually(t, "the program ends, or prints what the document says", func() bool {
		select {
		case <-p.Done():
			return true
		default:
			return stops && printed()
		}
	})
	if code := p.Stop(); code != 0 || !printed() {
		t.Errorf("exit code %d; the document says\n%s", code, want)
	}
}

// post sends a webhook to a receiver until that takes it.
func post(t *testing.T, port int, secret webhook.Secret) {
	t.Helper()
	body := must.Get(json.Marshal(webhook.Firing{ID: "f", Data: webhook.FiringData{Entity: "user-7"}}))(t)
	send := func(h http.Header) int {
		r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, fmt.Sprintf("http://127.0.0.1:%d/", port), bytes.NewReader(body)))(t)
		r.Header, r.Close = h, true
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0
		}
		must.NoError(t, resp.Body.Close())
		return resp.StatusCode
	}
	signed := http.Header{}
	must.NoError(t, webhook.Sign(signed, "f", time.Now(), body, secret))
	sebtest.Eventually(t, "the receiver takes a webhook", func() bool { return send(signed) == http.StatusNoContent })
	forged := http.Header{}
	must.NoError(t, webhook.Sign(forged, "f", time.Now(), body, webhook.NewSecret()))
	must.Equalf(t, send(forged), http.StatusUnauthorized, "answer to a forged webhook")
}

// TestJavaScriptPage: a page of another origin produces events and streams them.
func TestJavaScriptPage(t *testing.T) {
	t.Parallel()
	program := node(t)
	if _, err := exec.LookPath("apt-get"); err != nil && os.Getenv("CI") != "true" {
		t.Skip("needs Debian's packages: ", err)
	}
	dir := t.TempDir()
	bundle(t, "browser", filepath.Join(dir, "sebbroker.js"))
	copyTo(t, filepath.Join(dir, "index.html"), "testdata/page.html")
	site := httptest.NewServer(http.FileServer(http.Dir(dir)))
	defer site.Close()
	b, env := serve(t, "--cors-origin", site.URL)
	chromium, fonts := must.Get2(pages.Browser(t.Context()))(t)
	modules := must.Get(pages.Modules(t.Context(), "../console"))(t)
	copyTo(t, filepath.Join(dir, "page.mjs"), "testdata/page.mjs")
	c := exec.CommandContext(t.Context(), program, "page.mjs")
	c.Dir, c.SysProcAttr = dir, testenv.Attributes()
	c.Env = append(slices.Concat(os.Environ(), env, fonts), "MODULES="+modules+"/node_modules", "BROWSER="+chromium, "PAGE="+site.URL, "CONTROL="+control(t, b))
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
