package main_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// The data folder can be deleted, as the README says.
func TestRecordsSurviveTheLossOfTheDataFolder(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	for _, args := range [][]string{nil, {"--data-dir", "d1"}, {"--data-dir", "."}} {
		p := newWorkDir(t)
		p.dir = filepath.Join(p.dir, "work")
		must.NoError(t, os.Mkdir(p.dir, 0o700))
		data := "seb-data"
		if args != nil {
			data = args[1]
		}
		b := p.serve(args...)
		p.mustWith("one\n", append([]string{"produce", "demo"}, args...)...)
		b.term()
		must.NoError(t, os.RemoveAll(filepath.Join(p.dir, data)))
		must.NoError(t, os.MkdirAll(p.dir, 0o700))
		b = p.serve(args...)
		if got := p.must(append([]string{"consume", "demo"}, args...)...); got != "one\n" {
			t.Errorf("%s: consumed %q after the data folder was deleted", args, got)
		}
		b.term()
		check.Containsf(t, p.must(append([]string{"fsck"}, args...)...), "damages     0", "%s: fsck", args)
	}
}

// Older versions used a default bucket inside the data folder.
func TestBucketInsideTheDataFolderIsFound(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	p := newWorkDir(t)
	b := p.serve("--bucket", "./seb-data/bucket")
	p.mustWith("old\n", "produce", "demo")
	b.term()
	b = p.serve()
	check.Equalf(t, p.must("consume", "demo"), "old\n", "consumed")
	if said := b.err.String(); !strings.Contains(said, "seb-data/bucket") || !strings.Contains(said, "level=WARN") {
		t.Errorf("no message that the records are inside the data folder: %s", said)
	}
	b.term()
	p.must("fsck")
	p.must("check-store")
	if _, err := os.Stat(filepath.Join(p.dir, "seb-bucket")); !os.IsNotExist(err) {
		t.Errorf("a second bucket was made: %v", err)
	}

	b = p.serve("--bucket", "./seb-bucket") // both have records now
	b.term()
	for _, command := range []string{"serve", "fsck", "recover", "check-store"} {
		r := p.run(command)
		if r.code != 2 || !strings.Contains(r.err, "seb-data/bucket") || !strings.Contains(r.err, " seb-bucket") {
			t.Errorf("%s: exit code %d: %s", command, r.code, r.err)
		}
	}
	if r := p.run("inspect", "meta/cluster"); r.code != 2 || !strings.Contains(r.err, "seb-data/bucket") {
		t.Errorf("inspect: exit code %d: %s", r.code, r.err)
	}
}

func TestEmptyBucketIsRefused(t *testing.T) {
	p := newWorkDir(t)
	for _, command := range []string{"serve", "fsck", "recover", "check-store"} {
		p.refused(2, "--bucket: is empty", command, "--bucket", "")
	}
	p.env = []string{"SEB_BUCKET="}
	for _, command := range []string{"serve", "fsck", "recover", "check-store"} {
		p.refused(2, "$SEB_BUCKET: is empty", command)
	}
}

// TestAStoreThatDoesNotAnswerIsNoVerdict: exit code 1, because a service manager restarts after 1
// and not after 4.
func TestAStoreThatDoesNotAnswerIsNoVerdict(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	backend := s3mem.New()
	must.NoError(t, backend.CreateBucket("b"))
	fake := gofakes3.New(backend).Server()
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter) // to PUT
		code   int
	}{
		"reset":       {func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, 1},
		"unavailable": {func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) }, 1},
		"internal":    {func(w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) }, 1},
		"forbidden":   {func(w http.ResponseWriter) { w.WriteHeader(http.StatusForbidden) }, 4},
	} {
		if testing.Short() && name == "internal" {
			continue // a command retries for a second
		}
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPut {
					c.answer(w)
					return
				}
				fake.ServeHTTP(w, r)
			}))
			defer srv.Close()
			p := newWorkDir(t)
			p.env = []string{"AWS_ACCESS_KEY_ID=k", "AWS_SECRET_ACCESS_KEY=s"}
			bucket := "s3://b/x?endpoint=" + srv.URL + "&region=us-east-1&path-style=true"
			p.refused(c.code, "store check", "check-store", bucket)
			if name != "reset" && name != "forbidden" {
				return // serve behaves the same, but slowly
			}
			if r := p.run("serve", "--bucket", bucket, "--http-port", "0", "--kafka-listen", ""); r.code != c.code {
				t.Errorf("serve: exit code %d, want %d: %s", r.code, c.code, r.err)
			}
		})
	}
}

func TestJSONRecordsAreARoundTrip(t *testing.T) {
	p := newWorkDir(t)
	p.serve()
	in := `{"key":"k","value":"text <&> \u2028","timestamp":1700000000001}
{"key_base64":"//8=","value_base64":"AP8=","headers":[{"key":"h","value":"1"},{"key":"h","value":null},{"key":"b","value_base64":"/w=="}],"timestamp":2}
{"key":"k","value":null,"timestamp":3}
{"key":null,"value":"","timestamp":4}
`
	p.mustWith(in, "produce", "one", "--format", "json")
	first := p.must("consume", "one", "--format", "json")
	if strings.Contains(first, `"value":null,"value_base64"`) || !strings.Contains(first, `"value_base64":"AP8="`) {
		t.Errorf("binary values: %s", first)
	}
	p.mustWith(first, "produce", "two", "--format", "json")
	if second := p.must("consume", "two", "--format", "json"); second != first {
		t.Errorf("consumed\n%s, produced\n%s", second, first)
	}
	for line, says := range map[string]string{
		`{"key":"k"}`: "line 2: value: missing; give value or value_base64", `{"value":"a","value_base64":"YQ=="}`: "line 2: value_base64: given twice", `[]`: "line 2: body: JSON: want '{'",
		`{"value":"a","color":"b"}`: `line 2: "color": unknown member of a record`, `{"value":"a"} x`: "line 2", `{"value_base64":"!"}`: "line 2: value_base64",
	} {
		r := p.runWith(strings.NewReader(`{"value":"first"}`+"\n"+line+"\n"), "produce", "three", "--format", "json")
		if r.code != 1 || !strings.Contains(r.err, says) {
			t.Errorf("%s: exit code %d: %s, want %q", line, r.code, r.err, says)
		}
	}
}

func TestErrorsNameTheCause(t *testing.T) {
	p := newWorkDir(t)
	p.serve()
	long := "short\n" + strings.Repeat("x", 1_500_000) + "\nlast\n"
	r := p.runWith(strings.NewReader(long), "produce", "demo")
	if r.code != 1 || !strings.Contains(r.err, "line 2 is a record of 1500000 bytes") || !strings.Contains(r.err, "--setting max-batch-bytes=") {
		t.Errorf("a long line: exit code %d: %s", r.code, r.err)
	}
	check.Containsf(t, p.runWith(strings.NewReader("x\n"), "produce", "demo").err, "1 record (1 bytes)", "one record")
	p.refused(1, "broker at http://127.0.0.1:1:", "consume", "demo", "--address", "http://127.0.0.1:1")
	p.refused(1, "broker at http://127.0.0.1:", "topic", "list", "--api-key", "not-the-right-key")
	r = p.run("serve", "--http-port", "70000", "--batch-wait-time", "2h")
	if r.code != 2 || !strings.Contains(r.err, "2 settings are invalid (see `seb serve --help`)\n  --http-port: ") || !strings.Contains(r.err, "\n  --batch-wait-time: ") {
		t.Errorf("two faults: exit code %d: %s", r.code, r.err)
	}
	check.Equalf(t, p.must("--version"), p.must("version"), "--version")
	check.Containsf(t, p.must("help"), "\nRecords:\n", "help without groups")
	check.Containsf(t, p.must("bench", "--help"), "go build -C bench", "bench --help")
}

func TestUnknownVariablesCauseWarnings(t *testing.T) {
	p := newWorkDir(t)
	p.env = []string{"SEB_HTTP_PROT=5", "SEB_NOTHING_LIKE_IT=1", "SEB_CONFIG_FILE_NAME=x", "SEB_ADDRESS=http://127.0.0.1:1"}
	b := p.serve()
	for _, want := range []string{"$SEB_HTTP_PROT is not a setting of Seb; did you mean $SEB_HTTP_PORT?", "$SEB_NOTHING_LIKE_IT is not a setting of Seb\""} {
		if !strings.Contains(b.err.String(), want) {
			t.Errorf("%q is missing in %s", want, b.err.String())
		}
	}
	if strings.Contains(b.err.String(), "$SEB_ADDRESS") {
		t.Errorf("a setting of other commands is unknown: %s", b.err.String())
	}
	check.Containsf(t, p.run("version").err, "warning: $SEB_HTTP_PROT is not a setting", "version")
}

func TestABucketWithoutItsMetaIsCorrupt(t *testing.T) {
	p := newWorkDir(t)
	p.serve("--bucket", "./b").kill()
	meta := filepath.Join(p.dir, "b", "meta", "cluster")
	was := must.Get(os.ReadFile(meta))(t)
	for name, spoil := range map[string]func() error{
		"missing": func() error { return os.Remove(meta) },
		"damaged": func() error { return errors.Join(os.Chmod(meta, 0o600), os.WriteFile(meta, was[1:], 0o600)) },
	} {
		_ = os.Remove(meta)
		err := os.WriteFile(meta, was, 0o600)
		if err = errors.Join(err, spoil()); err != nil {
			t.Fatal(err)
		}
		if r := p.run("serve", "--bucket", "./b", "--http-port", "0", "--kafka-listen", ""); r.code != 5 || !strings.Contains(r.err, "seb recover") {
			t.Errorf("%s: exit code %d: %s", name, r.code, r.err)
		}
	}
}
