package main_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/hex"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/testenv"
)

// The secrets of brokers and commands. They must not appear in any output, log, answer or stored
// file.
const (
	canaryKey    = "CANARY-api-key-7d1f0c"
	canaryWrong  = "CANARY-wrong-key-52ab9e" // of a client
	canarySecret = "CANARY-s3-secret-c81e44" // that the store refuses
	canaryToken  = "CANARY-s3-token-0b66fa"
)

// leaks looks for secrets.
type leaks struct {
	t       *testing.T
	key     string // the broker's key, which its key files have
	secrets []string
	looked  atomic.Int64 // bytes
}

func newLeaks(t *testing.T) *leaks {
	return &leaks{t: t, key: canaryKey, secrets: []string{canaryKey, canaryWrong, canarySecret, canaryToken, testenv.SecretKey}}
}

// in returns the secrets in b, in any encoding.
func (l *leaks) in(b []byte) (found []string) {
	l.looked.Add(int64(len(b)))
	if z, err := gzip.NewReader(bytes.NewReader(b)); err == nil { // profiles
		if plain, err := io.ReadAll(z); err == nil {
			b = append(bytes.Clone(b), plain...)
		}
	}
	for _, secret := range l.secrets {
		for _, form := range []string{
			secret, strings.ToLower(secret), url.QueryEscape(secret), hex.EncodeToString([]byte(secret)),
			// independent of the following bytes
			base64.StdEncoding.EncodeToString([]byte(secret))[:len(secret)],
		} {
			if bytes.Contains(b, []byte(form)) {
				found = append(found, secret)
				break
			}
		}
	}
	return found
}

// none fails the test if b has secrets.
func (l *leaks) none(where string, b []byte) {
	l.t.Helper()
	if found := l.in(b); len(found) > 0 {
		l.t.Errorf("%s: %q in\n%.3000s", where, found, b)
	}
}

// some fails the test unless b has a secret. It shows that the search works.
func (l *leaks) some(where, secret string, b []byte) {
	l.t.Helper()
	if found := strings.Join(l.in(b), " "); !strings.Contains(found, secret) {
		l.t.Errorf("%s: only %q in\n%.3000s", where, found, b)
	}
}

// run runs a command and searches its output. good: the command must succeed, else fail.
func (l *leaks) run(p *workDir, good bool, in string, args ...string) result {
	l.t.Helper()
	r := p.runWith(strings.NewReader(in), args...)
	check.Equalf(l.t, r.code == 0, good, "seb %q: exit code %d\n%s%s", args, r.code, r.out, r.err)
	l.none("seb "+args[0], []byte(r.out+r.err))
	return r
}

// answer sends a request and searches the header and the body of the answer.
func (l *leaks) answer(req *http.Request) (*http.Response, []byte) {
	l.t.Helper()
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		l.t.Error(err)
		return &http.Response{}, nil
	}
	defer resp.Body.Close()
	b, err := httputil.DumpResponse(resp, true)
	check.NoError(l.t, err)
	l.none(req.Method+" "+req.URL.Path, b)
	return resp, b
}

// tapped is a proxy that keeps all requests to a server, headers and bodies separately.
type tapped struct {
	*httptest.Server
	refuse atomic.Bool // answer 403 without the server

	mu            sync.Mutex // guards the following fields
	heads, bodies bytes.Buffer
}

func tap(t *testing.T, address string) *tapped {
	t.Helper()
	target := must.Get(url.Parse(address))(t)
	w := &tapped{}
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host // the host is signed
	}}
	w.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		head, _ := httputil.DumpRequest(r, false)
		body, err := io.ReadAll(r.Body)
		w.mu.Lock()
		w.heads.Write(head)
		w.bodies.Write(body)
		w.mu.Unlock()
		if err != nil || w.refuse.Load() {
			http.Error(rw, "<Error><Code>InvalidAccessKeyId</Code><Message>no</Message></Error>", http.StatusForbidden)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		forward.ServeHTTP(rw, r)
	}))
	t.Cleanup(w.Close)
	return w
}

func (w *tapped) kept() (heads, bodies []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return bytes.Clone(w.heads.Bytes()), bytes.Clone(w.bodies.Bytes())
}

// files searches every file below a folder except the key files, which only their owner may read.
func (l *leaks) files(dir string) {
	l.t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		switch e.Name() {
		case "broker.json", "api-key":
			if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
				l.t.Errorf("%s: %v %v", path, info, err)
			}
			l.some(path, l.key, b)
			b = bytes.ReplaceAll(b, []byte(l.key), nil)
		}
		l.none(path, b)
		return nil
	})
	check.NoError(l.t, err)
}

// TestSecretsAreNotShown runs a broker with known secrets through success and failure to its final
// dump of goroutines. No output, answer, stored file or request has a secret where it does not
// belong. The real S3 server checks signatures and refuses session tokens; the other store accepts
// everything.
func TestSecretsAreNotShown(t *testing.T) {
	sebtest.Long(t, "an S3 bucket, and all commands; TestKeysOfFlagsAndFilesAreNotShown remains")
	t.Run("real store", func(t *testing.T) {
		l := newLeaks(t)
		store := tap(t, testenv.S3ForTest(t).Endpoint)
		p := newWorkDir(t)
		p.env = []string{"SEB_API_KEY=" + canaryKey, "AWS_ACCESS_KEY_ID=" + testenv.AccessKey, "AWS_SECRET_ACCESS_KEY=" + testenv.SecretKey}
		bucket := "s3://" + testenv.Bucket + "/canary?endpoint=" + store.URL + "&region=us-east-1&path-style=true"
		l.untilDump(p, store, bucket)
		l.foreignCredentials(p, bucket)
		l.wire(store, canaryToken)
	})
	t.Run("store that takes tokens", func(t *testing.T) {
		l := newLeaks(t)
		backend := s3mem.New()
		must.NoError(t, backend.CreateBucket("b"))
		fake := httptest.NewServer(gofakes3.New(backend).Server())
		t.Cleanup(fake.Close)
		store := tap(t, fake.URL)
		p := newWorkDir(t)
		p.env = []string{
			"SEB_API_KEY=" + canaryKey, "AWS_ACCESS_KEY_ID=k", "AWS_SECRET_ACCESS_KEY=" + canarySecret, "AWS_SESSION_TOKEN=" + canaryToken,
		}
		l.untilDump(p, store, "s3://b/canary?endpoint="+store.URL+"&region=us-east-1&path-style=true")
		l.wire(store, canaryToken)
	})
}

// untilDump runs a broker until it dumps its goroutines.
func (l *leaks) untilDump(p *workDir, store *tapped, bucket string) {
	l.t.Helper()
	b := p.serve("--bucket", bucket, "--log-level", "debug", "--log-format", "json", "--http-debug-enable", "--http-debug-port", "0")
	front := tap(l.t, b.address())
	l.commands(p, front.URL, bucket)
	l.requests(front.URL)
	l.profiles(b)

	store.refuse.Store(true)
	l.run(p, false, "", "check-store", bucket)
	// The broker's message is enough, because clients retry for a long time while a store refuses.
	ctx, cancel := context.WithCancel(l.t.Context())
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, front.URL+"/records?topic-name=refused", strings.NewReader("x"))
		if err != nil {
			l.t.Error(err)
			return
		}
		req.Header = http.Header{"Authorization": {"Bearer " + canaryKey}, "Content-Type": {"text/plain"}, "Accept": {"*/*"}}
		if resp, err := http.DefaultTransport.RoundTrip(req); err == nil {
			_ = resp.Body.Close()
		}
	}()
	waitFor(l.t, func() bool { return strings.Contains(b.err.String(), "InvalidAccessKeyId") })
	cancel()
	<-sent
	store.refuse.Store(false)

	l.files(p.dir)
	must.NoError(l.t, b.cmd.Process.Signal(syscall.SIGQUIT))
	b.wait()
	if log := b.err.String(); !strings.Contains(log, "\ngoroutine ") {
		l.t.Errorf("no dump of goroutines:\n%.5000s", log)
	}
	l.none("stdout", []byte(b.out.String()))
	l.none("stderr", []byte(b.err.String()))

	heads, bodies := front.kept()
	l.some("heads to the broker", canaryKey, heads)
	l.some("heads to the broker", canaryWrong, heads)
	l.none("bodies to the broker", bodies)
}

// wire searches the requests to the store: tokens are only in their header.
func (l *leaks) wire(store *tapped, token string) {
	l.t.Helper()
	heads, bodies := store.kept()
	l.some("heads to the store", token, heads)
	l.none("heads to the store beside the token", bytes.ReplaceAll(heads, []byte("X-Amz-Security-Token: "+token), nil))
	l.none("bodies to the store", bodies)
	l.t.Logf("looked at %d bytes", l.looked.Load())
}

// commands runs every command against a broker and its bucket, with the key and with a wrong one.
func (l *leaks) commands(p *workDir, address, bucket string) {
	l.t.Helper()
	at := []string{"--address", address}
	l.run(p, true, "", append([]string{"topic", "create", "keyed", "-s", "cleanup-policy=compact", "-s", "key-index=true"}, at...)...)
	l.run(p, true, "one\ntwo\n", append([]string{"produce", "demo"}, at...)...)
	for _, args := range [][]string{
		{"consume", "demo"}, {"topic", "list"}, {"topic", "describe", "demo"}, {"key", "list", "keyed"}, {"key", "history", "keyed", "k"}, {"group", "list"}, {"export", "--topic", "demo", "--to", "./out"},
	} {
		l.run(p, true, "", append(args, at...)...)
		l.run(p, false, "", append(append(args, at...), "--api-key", canaryWrong)...)
	}
	l.run(p, false, "x\n", append([]string{"produce", "demo", "--api-key", canaryWrong}, at...)...)
	l.run(p, false, "x\n", append([]string{"produce", "demo", "--api-key", canaryWrong + "\n"}, at...)...)
	l.run(p, true, "", "check-store", bucket)
	l.run(p, true, "", "fsck", "--bucket", bucket)
	l.run(p, true, "", "inspect", "meta/cluster", "--bucket", bucket)
	l.run(p, false, "", "inspect", "meta/other", "--bucket", bucket)
}

// foreignCredentials uses a secret or a token that the store refuses.
func (l *leaks) foreignCredentials(p *workDir, bucket string) {
	l.t.Helper()
	for variable, code := range map[string]string{
		"AWS_SECRET_ACCESS_KEY=" + canarySecret: "SignatureDoesNotMatch",
		"AWS_SESSION_TOKEN=" + canaryToken:      "InvalidToken",
	} {
		q := &workDir{t: p.t, dir: p.dir, env: append(slices.Clone(p.env), variable)}
		for _, args := range [][]string{
			{"check-store", bucket},
			{"fsck", "--bucket", bucket},
			{"inspect", "meta/cluster", "--bucket", bucket},
			{"serve", "--bucket", bucket, "--http-port", "0", "--log-level", "debug", "--data-dir", "other"},
		} {
			if r := l.run(q, false, "", args...); !strings.Contains(r.err, code) {
				l.t.Errorf("%s: not refused as %s: %s", args[0], code, r.err)
			}
		}
	}
}

// requests sends keys to endpoints that need them and to others.
func (l *leaks) requests(address string) {
	l.t.Helper()
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, path := range []string{
		"/records?topic-name=demo&offset=0", "/records?topic-name=none&offset=0", "/records?topic-name=demo&offset=x", "/record?topic-name=demo&offset=99",
		"/topic?topic-name=..", "/topics", "/groups", "/keys?topic-name=demo", "/metrics", "/healthz", "/readyz", "/openapi.json", "/none",
		"/debug/pprof/cmdline", "/debug/pprof/", "/records?topic-name=demo&offset=0&api-key=" + canaryWrong,
	} {
		for _, authorization := range []string{"Bearer " + canaryKey, canaryKey, "Bearer " + canaryWrong, "Basic " + canaryKey, canaryKey + canaryKey} {
			wg.Go(func() { // each failed login is delayed
				for _, method := range []string{"GET", "POST", "TRACE", "OPTIONS"} {
					req, err := http.NewRequest(method, address+path, nil)
					if err != nil {
						l.t.Error(err)
						return
					}
					req.Header = http.Header{"Authorization": {authorization}, "Accept": {"*/*"}, "Cookie": {"key=" + canaryKey}}
					l.answer(req)
				}
			})
		}
	}
}

var pprofLine = regexp.MustCompile(`pprof"?[=:]"?(http://127\.0\.0\.1:[^\s"]+)`)

// profiles reads all answers of the pprof listener.
func (l *leaks) profiles(b *running) {
	l.t.Helper()
	m := pprofLine.FindStringSubmatch(b.err.String())
	if m == nil {
		l.t.Fatalf("no address in: %s", b.err.String())
	}
	for _, name := range []string{
		"", "goroutine?debug=1", "goroutine?debug=2", "goroutine", "heap?debug=1", "heap?gc=1", "allocs", "block?debug=1", "mutex?debug=1",
		"threadcreate?debug=1", "symbol", "trace?seconds=0.1", "profile?seconds=1", "cmdline",
	} {
		req := must.Get(http.NewRequest(http.MethodGet, m[1]+name, nil))(l.t)
		want := http.StatusOK
		if name == "cmdline" { // the key may be a command-line argument
			want = http.StatusNotFound
		}
		if resp, body := l.answer(req); resp.StatusCode != want {
			l.t.Errorf("pprof %s: %.300s", name, body)
		}
	}
	for _, path := range []string{"/metrics", "/records?topic-name=demo&offset=0", "/topics"} {
		req := must.Get(http.NewRequest(http.MethodGet, strings.TrimSuffix(m[1], "/debug/pprof/")+path, nil))(l.t)
		req.Header.Set("Authorization", "Bearer "+canaryKey)
		if resp, body := l.answer(req); resp.StatusCode != http.StatusNotFound {
			l.t.Errorf("%s on the listener of pprof: %.300s", path, body)
		}
	}
}

// TestKeysOfFlagsAndFilesAreNotShown does the same for a key on the command line, and in a file.
func TestKeysOfFlagsAndFilesAreNotShown(t *testing.T) {
	l := newLeaks(t)
	p := newWorkDir(t)
	must.NoError(t, os.WriteFile(filepath.Join(p.dir, "api-key"), []byte(canaryKey+"\n"), 0o600))
	for _, flags := range [][]string{{"--http-api-key", canaryKey}, {"--http-api-key-file", "api-key"}}[sebtest.Runs(0, 1):] {
		b := p.serve(append(flags, "--log-level", "debug", "--http-debug-enable", "--http-debug-port", "0")...)
		l.run(p, true, "one\n", "produce", "demo")
		l.run(p, false, "one\n", "produce", "demo", "--api-key", canaryWrong)
		l.requests(b.address())
		l.profiles(b)
		l.files(p.dir)
		check.Equalf(t, b.term(), 0, "exit code")
		check.Containsf(t, b.err.String(), "settings.http-api-key", "the settings are not logged")
		l.none("stdout", []byte(b.out.String()))
		l.none("stderr", []byte(b.err.String()))
	}
}

// TestSecretsInTheWrongPlaceAreNotRepeated: the error for a misplaced secret does not contain it.
func TestSecretsInTheWrongPlaceAreNotRepeated(t *testing.T) {
	l := newLeaks(t)
	p := newWorkDir(t)
	for name, text := range map[string]string{"two": canaryKey + " " + canaryKey, "d/broker.json": `{"api_key":"` + canaryKey, "e/api-key": canaryKey + "\x00"} {
		file := filepath.Join(p.dir, name)
		must.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
		must.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	for _, args := range [][]string{
		{"serve", "--http-api-key", canaryKey + " x"},
		{"serve", "--http-api-key", canaryKey, "--http-api-key-file", "two"},
		{"serve", "--http-api-key", canaryKey, "--http-port", "x"},
		{"serve", "--http-api-keys", canaryKey},
		{"serve", "--http-api-key-file", "two", "--http-port", "0"},
		{"serve", "--data-dir", "e", "--http-port", "0"},
		{"topic", "list", "--data-dir", "d"},
		{"topic", "list", "--data-dir", "e"},
		{"topic", "list", "--api-key-file", "two"},
		{"topic", "list", "--address", "http://seb:" + canaryKey + "@127.0.0.1:1"},
		{"topic", "list", "--address", "http://seb:" + canaryKey + "@127.0.0.1:x"},
		{"topic", "list", "--address", "http://127.0.0.1:1?key=" + canaryKey},
		{"topic", "list", "--address", "ftp://seb:" + canaryKey + "@127.0.0.1:1"},
		{"benchmark", "--local-broker=false", "--remote-broker-address", "http://seb:" + canaryKey + "@127.0.0.1:1"},
	} {
		l.run(p, false, "", args...)
	}
	for i, bucket := range []string{
		"s3://k:" + canarySecret + "@b/p?region=us-east-1",
		"s3://k:abc/" + canarySecret + "@b/p?region=us-east-1",
		"s3://b/p?region=us-east-1&endpoint=http://k:" + canarySecret + "@127.0.0.1:1",
		"s3://b/p?region=us-east-1&endpoint=k:" + canarySecret + "@127.0.0.1:1",
		"s3://b/p?region=us-east-1&endpoint=http://k:" + canarySecret + "@127.0.0.1:x",
		"s3://b/p?region=us-east-1&endpoint=http://127.0.0.1:1/?secret=" + canarySecret,
		"s3://b/p?region=us-east-1&secret-key=" + canarySecret,
		"s3://b/p?region=us-east-1&session-token=" + canaryToken + "&session-token=" + canaryToken,
		"s3://b/p?region=us-east-1;secret-key=" + canarySecret,
		"s3://b/p?secret-key=" + canarySecret + "%zz",
		"s3:k:" + canarySecret + "@b",
		"https://k:" + canarySecret + "@b.s3.amazonaws.com",
	} {
		for j, args := range [][]string{
			{"serve", "--http-port", "0", "--log-level", "debug", "--bucket", bucket},
			{"check-store", bucket},
			{"fsck", "--bucket", bucket},
			{"inspect", "meta/cluster", "--bucket", bucket},
			{"import", "--topic", "t", "--from", bucket},
			{"export", "--topic", "t", "--to", bucket},
			{"benchmark", "--bucket", bucket},
		} {
			if (i+j)%sebtest.Runs(1, 4) != 0 {
				continue
			}
			if r := l.run(p, false, "", args...); r.code != 2 {
				t.Errorf("seb %q: exit code %d: %s", args, r.code, r.err)
			}
		}
	}
}
