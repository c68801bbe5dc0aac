// The API's description is tested with third-party tools: a linter, a fuzzer that derives requests
// from it, and generated clients of three languages. Each client writes a record to a real broker
// and reads it back. They run with `go run ./test/cmd/openapi`.

package interop

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

// The tools and their versions.
var npmPackages = []string{"@redocly/cli@2.77.0", "openapi-typescript@7.13.0", "typescript@5.9.3", "openapi-fetch@0.17.0"}

const (
	npmName     = "openapi-npm-1" // increment when npmPackages changes
	pythonName  = "openapi-python-1"
	goGenerator = "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2"
)

// description is the file that is embedded into the broker.
const description = "../../internal/protocols/httpapi/openapi.json.gz"

// openapiTime returns how long schemathesis sends requests. It skips the test unless `go run
// ./test/cmd/openapi` runs it.
func openapiTime(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("SEB_OPENAPI_TIME")
	if text == "" {
		t.Skip("runs with go run ./test/cmd/openapi: it fetches tools")
	}
	d := must.Get(time.ParseDuration(text))(t)
	return d
}

// need finds a program that these tests do not install.
func need(t *testing.T, name string) string {
	t.Helper()
	path := must.Get(needs(name, "the tools of OpenAPI need it"))(t)
	return path
}

// run runs a program to its end, with additional environment variables, and returns its output.
func run(t *testing.T, dir string, env []string, program string, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), program, args...)
	c.Dir, c.Env = dir, append(os.Environ(), env...)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", filepath.Base(program), strings.Join(args, " "), err, tail(string(out)))
	}
	return string(out)
}

// tail returns the end of an output.
func tail(text string) string { return text[max(0, len(text)-20_000):] }

func npm(t *testing.T) (modules string) {
	t.Helper()
	path := need(t, "npm")
	dir, err := testenv.Install("interop/"+npmName, "redocly and openapi-typescript from npm", func(dir string) error {
		_, err := testenv.Command(t.Context(), dir, path, append([]string{"install", "--no-audit", "--no-fund", "--prefix", dir}, npmPackages...)...)
		return err
	})
	must.NoError(t, err)
	return filepath.Join(dir, "node_modules")
}

// openapiPython installs schemathesis and openapi-python-client, and returns an environment for them.
func openapiPython(t *testing.T) (path string, env []string) {
	t.Helper()
	path = need(t, "python3")
	requirements := must.Get(filepath.Abs("testdata/openapi/requirements.txt"))(t)
	version := strings.TrimSpace(run(t, ".", nil, path, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"))
	name := fmt.Sprintf("%s-%s-%s", pythonName, version, runtime.GOARCH)
	dir, err := testenv.Install("interop/"+name, "schemathesis and openapi-python-client from PyPI", func(dir string) error {
		_, err := testenv.Command(t.Context(), dir, path, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--only-binary", ":all:", "--target", dir, "-r", requirements)
		return err
	})
	must.NoError(t, err)
	return path, []string{"PYTHONPATH=" + dir, "PATH=" + filepath.Join(dir, "bin") + string(os.PathListSeparator) + os.Getenv("PATH")}
}

// spec returns a file with the description.
func spec(t *testing.T) string {
	t.Helper()
	f := must.Get(os.Open(description))(t)
	defer f.Close()
	text := must.Get(io.ReadAll(must.Get(gzip.NewReader(f))(t)))(t)
	path := filepath.Join(t.TempDir(), "openapi.json")
	must.NoError(t, os.WriteFile(path, text, 0o600))
	return path
}

// copied copies a folder of testdata into a new one.
func copied(t *testing.T, from string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	must.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata/openapi", from))))
	return dir
}

// TestOpenAPILint applies the linter's recommended rules, including warnings.
func TestOpenAPILint(t *testing.T) {
	openapiTime(t)
	began, modules := time.Now(), npm(t)
	run(t, t.TempDir(), nil, filepath.Join(modules, ".bin", "redocly"), "lint", "--max-problems", "100", "--format", "stylish", spec(t))
	testenv.Report("redocly", "lint", time.Since(began))
}

// TestOpenAPIClients: the generated clients compile, write a record and read it back.
func TestOpenAPIClients(t *testing.T) {
	openapiTime(t)
	b := testenv.ServeInterop(t, "--bucket", "mem:")
	env := []string{"SEB_URL=" + b.HTTP(), "SEB_API_KEY=" + testenv.InteropKey}
	t.Run("typescript", func(t *testing.T) {
		began, modules, dir := time.Now(), npm(t), copied(t, "typescript")
		must.NoError(t, os.Symlink(modules, filepath.Join(dir, "node_modules")))
		run(t, dir, nil, filepath.Join(modules, ".bin", "openapi-typescript"), spec(t), "-o", "seb.ts")
		run(t, dir, nil, filepath.Join(modules, ".bin", "tsc"), "-p", ".")
		wantRecord(t, b, "typescript", run(t, dir, env, need(t, "node"), "out/main.js"))
		testenv.Report("typescript", "generated, compiled, a record written and read", time.Since(began))
	})
	t.Run("python", func(t *testing.T) {
		began, dir := time.Now(), copied(t, "python")
		path, tools := openapiPython(t)
		// It omits, with a warning, bodies and answers of media types that it does not know: text,
		// lines and batches.
		run(t, dir, tools, path, "-m", "openapi_python_client", "generate", "--path", spec(t), "--config", "config.yaml", "--meta", "none", "--output-path", "seb_client")
		wantRecord(t, b, "python", run(t, dir, append(env, tools...), path, "main.py"))
		testenv.Report("python", "generated, a record written and read", time.Since(began))
	})
	t.Run("go", func(t *testing.T) {
		began, dir, path := time.Now(), copied(t, "go"), need(t, "go")
		must.NoError(t, os.Rename(filepath.Join(dir, "main.go.txt"), filepath.Join(dir, "main.go")))
		must.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.com/generated\n\ngo 1.26\n\nrequire github.com/oapi-codegen/runtime v1.8.0\n"), 0o600))
		bin, err := testenv.Install("interop/oapi-codegen-"+goGenerator[strings.LastIndexByte(goGenerator, '@')+1:], "oapi-codegen from the Go proxy", func(dir string) error {
			c := exec.CommandContext(t.Context(), path, "install", goGenerator)
			c.Env = append(os.Environ(), "GOBIN="+dir, "GOFLAGS=")
			out, err := c.CombinedOutput()
			if err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			return nil
		})
		must.NoError(t, err)
		run(t, dir, nil, filepath.Join(bin, "oapi-codegen"), "-generate", "types,client", "-package", "main", "-o", "seb.gen.go", spec(t))
		run(t, dir, []string{"GOFLAGS=-mod=mod"}, path, "mod", "tidy")
		run(t, dir, nil, path, "vet", ".")
		wantRecord(t, b, "go", run(t, dir, env, path, "run", "."))
		testenv.Report("go", "generated, compiled, a record written and read", time.Since(began))
	})
}

// wantRecord checks the client's output and the broker's record.
func wantRecord(t *testing.T, b *testenv.InteropBroker, name, said string) {
	t.Helper()
	if want := "read: made by " + name; !strings.Contains(said, want) {
		t.Errorf("output of the client: %q, want %q", tail(said), want)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	r := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, b.HTTP()+"/record?topic-name="+name+"&offset=0", nil))(t)
	r.Header.Set("Authorization", "Bearer "+testenv.InteropKey)
	resp := must.Get(http.DefaultClient.Do(r))(t)
	defer resp.Body.Close()
	if value, err := io.ReadAll(resp.Body); err != nil || string(value) != "made by "+name {
		t.Errorf("the broker has %d %q, %v", resp.StatusCode, value, err)
	}
}

// TestOpenAPIRequests sends requests of schemathesis: requests that are valid by the description are accepted, others are refused,
// and each answer is described.
func TestOpenAPIRequests(t *testing.T) {
	length := openapiTime(t)
	began, b := time.Now(), testenv.ServeInterop(t, "--bucket", "mem:")
	path, env := openapiPython(t)
	testdata := must.Get(filepath.Abs("testdata/openapi"))(t)
	env[0] += string(os.PathListSeparator) + testdata
	env = append(env, "SCHEMATHESIS_HOOKS=hooks")
	said := run(t, t.TempDir(), env, path, "-m", "schemathesis.cli", "--config-file", filepath.Join(testdata, "schemathesis.toml"), "run", b.HTTP()+"/openapi.json",
		"-H", "Authorization: Bearer "+testenv.InteropKey, "--request-timeout", "30", "--suppress-health-check", "all", "--continue-on-failure", "--no-color",
		"-n", "1000", "--max-time", fmt.Sprintf("%.0f", length.Seconds()))
	if log := b.Log(); strings.Contains(log, "level=ERROR") {
		t.Errorf("output of the broker:\n%s", tail(log))
	}
	for line := range strings.Lines(said) {
		if strings.Contains(line, "generated,") {
			testenv.Report("schemathesis", strings.TrimSpace(line), time.Since(began))
		}
	}
}
