package main_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

func TestRecordsSurviveKill9(t *testing.T) {
	p := newWorkDir(t)
	b := p.serve()
	p.mustWith("one\ntwo\nthree", "produce", "demo")
	if pid, err := os.ReadFile(filepath.Join(p.dir, "seb-data", "lock")); strings.TrimSpace(string(pid)) != strconv.Itoa(b.cmd.Process.Pid) {
		t.Errorf("the lock names process %q, %v, want %d", pid, err, b.cmd.Process.Pid)
	}
	b.kill()
	b = p.serve()
	check.Equal(t, p.must("consume", "demo"), "one\ntwo\nthree\n")
	p.mustWith("four\n", "produce", "demo")
	if code := b.term(); code != 0 {
		t.Errorf("exit code %d after SIGTERM: %s", code, b.err.String())
	}
	if _, err := os.Stat(filepath.Join(p.dir, "seb-data", "broker.json")); !os.IsNotExist(err) {
		t.Errorf("broker.json of a stopped broker still exists: %v", err)
	}

	// Everything except the bucket is lost.
	must.NoError(t, os.Rename(filepath.Join(p.dir, "seb-bucket"), filepath.Join(p.dir, "elsewhere")))
	must.NoError(t, os.RemoveAll(filepath.Join(p.dir, "seb-data")))
	p.serve("--bucket", "./elsewhere")
	check.Equal(t, p.must("consume", "demo"), "one\ntwo\nthree\nfour\n")
}

func TestStopAnswersWaitingRequests(t *testing.T) {
	p := newWorkDir(t)
	b := p.serve()
	p.mustWith("first\n", "produce", "demo")
	b.term()
	b = p.serve("--batch-wait-time", "1m")
	done := make(chan result)
	go func() { done <- p.runWith(strings.NewReader("waits\n"), "produce", "demo") }()
	waitFor(t, func() bool {
		return !strings.Contains(metrics(t, p, b), "seb_memory_reserved_bytes{class=\"produce\"} 0\n")
	})
	code := b.term()
	r := <-done
	if code != 0 || r.code != 0 {
		t.Errorf("exit codes %d and %d\n%s%s", code, r.code, r.err, b.err.String())
	}
	p.serve()
	check.Equal(t, p.must("consume", "demo"), "first\nwaits\n")
}

// metrics reads the metrics over its own connection.
func metrics(t *testing.T, p *workDir, b *running) string {
	t.Helper()
	key := must.Get(os.ReadFile(filepath.Join(p.dir, "seb-data", "api-key")))(t)
	req := must.Get(http.NewRequest(http.MethodGet, b.address()+"/metrics", nil))(t)
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(key)))
	req.Close = true
	return body(t, req)
}

func body(t *testing.T, req *http.Request) string {
	t.Helper()
	resp := must.Get(http.DefaultClient.Do(req))(t)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %v", req.URL, resp.Status, err)
	}
	return string(b)
}

// TestSecondBrokerIsAStandby: on one machine, with the default listeners, and with the API key that the
// first has generated.
func TestSecondBrokerIsAStandby(t *testing.T) {
	p := newWorkDir(t)
	first := p.serve("--bucket", "./b", "--data-dir", "d1")
	p.mustWith("1\n", "produce", "demo", "--data-dir", "d1")
	second := p.serve("--bucket", "./b", "--data-dir", "d2")
	check.Containsf(t, second.err.String(), "msg=serving role=follower", "log of the second broker")
	p.mustWith("2\n", "produce", "demo", "--data-dir", "d2")
	p.mustWith("3\n", "produce", "demo", "--data-dir", "d1")
	first.kill()
	p.mustWith("4\n", "produce", "demo", "--data-dir", "d2")
	check.Equal(t, p.must("consume", "demo", "--data-dir", "d2"), "1\n2\n3\n4\n")
	p.serve("--bucket", "./b", "--data-dir", "d1")
	check.Containsf(t, p.must("cluster", "--data-dir", "d1"), "standby", "the first broker returns as")
}

func TestReadOnlyBroker(t *testing.T) {
	p := newWorkDir(t)
	p.serve("--bucket", "./b", "--data-dir", "d1")
	p.mustWith("1\n", "produce", "demo", "--data-dir", "d1")
	p.serve("--bucket", "./b", "--data-dir", "d2", "--read-only")
	check.Equal(t, p.must("consume", "demo", "--data-dir", "d2"), "1\n")
	p.refused(1, "read only", "produce", "demo", "--data-dir", "d2")
	p.mustWith("2\n", "produce", "demo", "--data-dir", "d1")
	check.Equalf(t, p.must("consume", "demo", "--data-dir", "d2", "--follow", "--count", "2"), "1\n2\n", "followed")
}

func TestGeneratedKeyIsOnlyInItsFile(t *testing.T) {
	p := newWorkDir(t)
	b := p.serve("--log-level", "debug")
	file := filepath.Join(p.dir, "seb-data", "api-key")
	kept, err := os.ReadFile(file)
	key := strings.TrimSpace(string(kept))
	if err != nil || len(key) < 20 {
		t.Fatalf("kept %q, %v", kept, err)
	}
	if log := b.err.String(); !strings.Contains(log, `"new API key generated`) || !strings.Contains(log, "file=seb-data/api-key") {
		t.Errorf("no message about the new key: %s", log)
	}
	for _, f := range []string{file, filepath.Join(p.dir, "seb-data", "broker.json")} {
		if info, err := os.Stat(f); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", f, info, err)
		}
	}
	p.mustWith("x\n", "produce", "demo")
	p.refused(1, "unauthorized", "produce", "demo", "--api-key", "wrong")
	b.kill()
	if strings.Contains(b.err.String()+b.out.String(), key) {
		t.Error("the key is printed")
	}
	check.Equalf(t, b.out.String(), "", "on stdout, which is not a terminal")
	b = p.serve()
	if strings.Contains(b.err.String(), "new API key") {
		t.Errorf("message about a new key for an existing one: %s", b.err.String())
	}
	b.term()

	p.env = []string{"SEB_API_KEY=from-the-environment"}
	b = p.serve("--log-level", "debug")
	p.mustWith("x\n", "produce", "demo")
	b.term()
	if strings.Contains(b.err.String()+b.out.String(), "from-the-environment") {
		t.Error("a configured key is printed")
	}
}

func TestKeyFromFile(t *testing.T) {
	p := newWorkDir(t)
	must.NoError(t, os.WriteFile(filepath.Join(p.dir, "k"), []byte("  key-in-file\n"), 0o600))
	b := p.serve("--http-api-key-file", "k")
	p.mustWith("x\n", "produce", "demo", "--address", b.address(), "--api-key-file", "k", "--data-dir", "none")
	p.refused(1, "unauthorized", "produce", "demo", "--address", b.address(), "--data-dir", "none")
	b.term()
	p.refused(2, "", "serve", "--http-api-key-file", "k", "--http-api-key", "x")
	empty := newWorkDir(t)
	must.NoError(t, os.WriteFile(filepath.Join(empty.dir, "k"), nil, 0o600))
	if r := empty.run("serve", "--http-port", "0", "--http-api-key-file", "k"); r.code == 0 || !strings.Contains(r.err, "--http-api-key-file") {
		t.Errorf("empty key file: %d %s", r.code, r.err)
	}
}

// A broker with an address in use must not take the bucket from the running one.
func TestTakenPortLeavesTheOtherBrokerAlone(t *testing.T) {
	p := newWorkDir(t)
	b := p.serve("--bucket", "./b", "--data-dir", "d1")
	port := b.address()[strings.LastIndex(b.address(), ":")+1:]
	r := p.run("serve", "--bucket", "./b", "--data-dir", "d2", "--http-port", port)
	if r.code != 1 || !strings.Contains(r.err, "--http-port") {
		t.Errorf("exit code %d: %s", r.code, r.err)
	}
	r = p.run("serve", "--bucket", "./b", "--data-dir", "d1", "--http-port", "0")
	if r.code != 1 || !strings.Contains(r.err, "--data-dir") {
		t.Errorf("exit code %d: %s", r.code, r.err)
	}
	p.mustWith("x\n", "produce", "demo", "--data-dir", "d1")
}

// lyingStore is an S3 server that ignores conditions.
func lyingStore(t *testing.T) string {
	t.Helper()
	backend := s3mem.New()
	must.NoError(t, backend.CreateBucket("b"))
	fake := gofakes3.New(backend).Server()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("If-None-Match")
		fake.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	return "s3://b/x?endpoint=" + srv.URL + "&region=us-east-1&path-style=true"
}

func TestStoreThatFailsTheCheck(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	p := newWorkDir(t)
	p.env = []string{"AWS_ACCESS_KEY_ID=k", "AWS_SECRET_ACCESS_KEY=s"}
	bucket := lyingStore(t)
	p.refused(4, "put-if-absent", "check-store", bucket)
	r := p.run("serve", "--bucket", bucket, "--http-port", "0")
	if r.code != 4 || !strings.Contains(r.err, "put-if-absent") || r.out != "" {
		t.Errorf("exit code %d: %s%s", r.code, r.out, r.err)
	}
	if got := p.must("check-store", "--bucket", "./disk"); !strings.Contains(got, "passes all checks") || !strings.Contains(got, "they do not cover the loss of power or of a disk") {
		t.Errorf("disk: %s", got)
	}
}

func TestCorruptLogStopsTheBroker(t *testing.T) {
	p := newWorkDir(t)
	b := p.serve("--bucket", "./b"+inFiles)
	p.mustWith("x\n", "produce", "demo")
	b.kill()
	slots, err := filepath.Glob(filepath.Join(p.dir, "b", "s0000", "wal", "0000000001-*", "*"))
	if err != nil || len(slots) == 0 {
		t.Fatalf("no slots: %v", err)
	}
	damage(t, slots[0], 60)
	p.refused(5, "corrupt", "inspect", slots[0])
	b = p.launch("--bucket", "./b", "--http-port", "0")
	if code := b.wait(); code != 5 {
		t.Errorf("exit code %d: %s", code, b.err.String())
	}
}

func damage(t *testing.T, file string, pos int) {
	t.Helper()
	data := must.Get(os.ReadFile(file))(t)
	data[pos] ^= 1
	must.NoError(t, os.Chmod(file, 0o600))
	must.NoError(t, os.WriteFile(file, data, 0o600))
}

func TestPprofHasItsOwnListener(t *testing.T) {
	p := newWorkDir(t)
	b := p.serve("--http-debug-enable", "--http-debug-port", "0")
	m := pprofLine.FindStringSubmatch(b.err.String())
	if m == nil {
		t.Fatalf("no address in: %s", b.err.String())
	}
	req := must.Get(http.NewRequest(http.MethodGet, m[1], nil))(t)
	check.Contains(t, body(t, req), "goroutine")
	for host, want := range map[string]int{
		"localhost": 200, "localhost:5000": 200, "127.0.0.1:1": 200, "[::1]:5000": 200, "[::1]": 200, "192.0.2.1": 200, "attacker.example:5000": 403,
	} {
		req := req.Clone(t.Context())
		req.Host = host
		resp := must.Get(http.DefaultClient.Do(req))(t)
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("pprof for host %q: %s, want %d", host, resp.Status, want)
		}
	}
	resp := must.Get(http.Get(b.address() + "/debug/pprof/"))(t)
	defer resp.Body.Close()
	check.Equalf(t, resp.StatusCode, http.StatusNotFound, "pprof on the public listener: %s", resp.Status)
	p.refused(2, "--http-debug-address", "serve", "--http-debug-address", "0.0.0.0")
}
