package main_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/engine/objstore/anystore"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/testenv"
)

const (
	canaryHeader = "CANARY-webhook-header-4c1d9e"
	canaryHook   = "whsec_Q0FOQVJZLXdlYmhvb2stc2VjcmV0LTAwMDE=" // CANARY-webhook-secret-0001
)

// hook is a receiver of webhooks.
type hook struct {
	*httptest.Server
	mu     sync.Mutex     // guards the fields below
	counts map[string]int // deliveries by trigger and entity
	wrong  []string       // without the header
}

func newHook(t *testing.T) *hook {
	h := &hook{counts: map[string]int{}}
	h.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		var m struct {
			Data struct{ Trigger, Entity string }
		}
		_ = json.Unmarshal(b, &m)
		h.mu.Lock()
		defer h.mu.Unlock()
		h.counts[m.Data.Trigger+" "+m.Data.Entity]++
		if r.Header.Get("Authorization") != "Bearer "+canaryHeader || r.Header.Get("Webhook-Signature") == "" {
			h.wrong = append(h.wrong, string(b))
		}
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *hook) got() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.counts)
}

// sealing is a broker on S3 whose triggers have secrets.
type sealing struct {
	*workDir
	hook   *hook
	store  string // its endpoint
	bucket string
	logs   []*sebtest.Log
}

func newSealing(t *testing.T, prefix string) *sealing {
	p := newWorkDir(t)
	p.env = []string{"AWS_ACCESS_KEY_ID=" + testenv.AccessKey, "AWS_SECRET_ACCESS_KEY=" + testenv.SecretKey}
	server := testenv.S3ForTest(t)
	return &sealing{workDir: p, hook: newHook(t), store: server.Endpoint, bucket: server.Spec(prefix)}
}

// broker starts a broker that merges, snapshots and collects often.
func (s *sealing) broker(args ...string) *running {
	s.t.Helper()
	b := s.serve(append([]string{
		"--bucket", s.bucket, "--kafka-listen", "", "--batch-wait-time", "0", "--webhook-targets", "127.0.0.1",
		"--pack-age", "50ms", "--merge-interval", "50ms", "--snapshot-slots", "10",
	}, args...)...)
	s.logs = append(s.logs, &b.out, &b.err)
	return b
}

func (s *sealing) put(id string) {
	s.t.Helper()
	s.must("trigger", "apply", "-f", s.definition(id), "--yes")
}

func (s *sealing) definition(id string) string {
	file := filepath.Join(s.dir, id+".json")
	text := fmt.Sprintf(`{"expr":"signup","fire":"edge","deliver":{"url":%q,"secrets":[%q],"headers":{"Authorization":"Bearer %s"}}}`,
		s.hook.URL, canaryHook, canaryHeader)
	must.NoError(s.t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

func (s *sealing) events(first, last int) {
	s.t.Helper()
	var in strings.Builder
	for i := first; i <= last; i++ {
		fmt.Fprintf(&in, `{"event":"signup","entity_id":"u%d"}`+"\n", i)
	}
	s.mustWith(in.String(), "event", "-f", "-")
}

func (s *sealing) newKey(name string) string {
	s.t.Helper()
	return strings.Fields(s.must("secrets", "init", name))[1]
}

func (s *sealing) state() (out client.Secrets) {
	s.t.Helper()
	must.NoError(s.t, json.Unmarshal([]byte(s.must("secrets", "status", "--json")), &out))
	return out
}

func (s *sealing) open() objstore.Store {
	s.t.Helper()
	store := must.Get(anystore.Open(s.t.Context(), s.bucket, anystore.Options{AccessKey: testenv.AccessKey, SecretKey: testenv.SecretKey}))(s.t)
	return store
}

// each calls f with each object of the bucket.
func (s *sealing) each(f func(key string, b []byte)) {
	s.t.Helper()
	store := s.open()
	for o := (objstore.ListOptions{}); ; {
		entries, more := must.Get2(store.List(s.t.Context(), o))(s.t)
		for _, e := range entries {
			o.After = e.Key
			got, err := store.Get(s.t.Context(), e.Key, objstore.Whole)
			if errors.Is(err, objstore.ErrNotFound) {
				continue // collected
			}
			must.NoError(s.t, err)
			b, err := io.ReadAll(got.Body)
			must.NoError(s.t, errors.Join(err, got.Body.Close()))
			f(e.Key, b)
		}
		if !more {
			return
		}
	}
}

// exposed lists the objects and files with a byte string of a secret.
func (s *sealing) exposed() (where []string) {
	s.t.Helper()
	l := &leaks{t: s.t, secrets: []string{canaryHeader, canaryHook, strings.TrimSuffix(strings.TrimPrefix(canaryHook, "whsec_"), "="), "CANARY-webhook-secret-0001"}}
	look := func(name string, b []byte) {
		if len(l.in(b)) > 0 {
			where = append(where, name)
		}
	}
	s.each(look)
	err := filepath.WalkDir(filepath.Join(s.dir, "seb-data"), func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || err == nil && !e.Type().IsRegular() {
			return nil
		}
		b, readErr := os.ReadFile(path)
		if errors.Is(readErr, fs.ErrNotExist) {
			return err
		}
		look(path, b)
		return errors.Join(err, readErr)
	})
	must.NoError(s.t, err)
	return where
}

// TestSecretsAtRest: the first key encrypts the secrets of existing triggers. Afterwards no byte of
// them is in the bucket, in the data folder or in a log, and deliveries continue. With another key,
// and without one, deliveries wait and nothing else does. A restored backup needs the same key, and
// no delivery is lost while the key changes.
func TestSecretsAtRest(t *testing.T) {
	s := newSealing(t, "at-rest")
	b := s.broker()
	for _, id := range []string{"a", "b", "c"} {
		s.put(id)
		s.mustWith("x\n", "produce", "other") // shares packs with the definitions
	}
	s.must("trigger", "delete", "c", "--yes")
	s.events(1, 2)
	waitFor(t, func() bool { return s.hook.got() == 4 })
	if where := s.exposed(); len(where) < 2 {
		t.Errorf("before the encryption secrets are in %q: the search does not work", where)
	}
	if r := s.run("fsck", "--secrets", "--bucket", s.bucket); r.code != 1 || !strings.Contains(r.err, "with readable secrets") || !strings.Contains(r.out, "exposed: readable secrets s0000/") {
		t.Errorf("fsck: exit code %d\n%s%s", r.code, r.out, r.err)
	}
	b.term()
	s.doctor("secrets of 2 triggers are readable")

	id := s.newKey("key1")
	b = s.broker("--secrets-key-file", "key1")
	s.purge(b)
	if state := s.state(); state.Key != id || state.Readable != 0 || state.Encrypted[id] != 2 {
		t.Errorf("state %+v, want key %s for both triggers", state, id)
	}
	if out := s.must("trigger", "show", "a", "--json"); !strings.Contains(out, `"version": 1,`) || strings.Contains(out, "sealed") {
		t.Errorf("trigger %s", out)
	}
	s.events(3, 3)
	waitFor(t, func() bool { return s.hook.got() == 6 })
	b.term()

	s.newKey("key2")
	for _, args := range [][]string{{"--secrets-key-file", "key2"}, nil} {
		b = s.broker(args...)
		s.held(b, id)
		b.term()
		s.doctor("deliveries wait for missing keys (triggers by key): map["+id+":2]", args...)
	}
	s.restored()
	s.rewrapped()
	for _, log := range s.logs {
		if text := log.String(); strings.Contains(text, "CANARY") || strings.Contains(text, canaryHook) || strings.Contains(text, "sebsecrets_") {
			t.Errorf("secret in the log\n%s", text)
		}
	}
	if len(s.hook.wrong) > 0 {
		t.Errorf("deliveries without header or signature: %q", s.hook.wrong)
	}
}

// purge writes records to b until the secrets have left the bucket and the data folder.
func (s *sealing) purge(b *running) {
	s.t.Helper()
	var where []string
	defer func() {
		if s.t.Failed() {
			s.t.Logf("secrets in %q", where)
		}
	}()
	waitFor(s.t, func() bool {
		for range 12 { // snapshots, and so collections
			s.call(b, "POST", "/records?topic-name=other", "text/plain", "x")
		}
		where = s.exposed()
		return len(where) == 0 && s.run("fsck", "--secrets", "--bucket", s.bucket).code == 0
	})
}

// held checks that deliveries wait for a key, and that everything else works.
func (s *sealing) held(b *running, id string) {
	s.t.Helper()
	before := s.hook.got()
	s.events(before, before)
	waitFor(s.t, func() bool { return strings.Contains(b.err.String(), "deliveries held") })
	if line := b.err.String(); !strings.Contains(line, id) || !strings.Contains(line, "[a b]") || strings.Count(line, "deliveries held") != 1 {
		s.t.Errorf("log %s", line)
	}
	if state := s.state(); state.Blocked != 2 || state.Encrypted[id] != 2 {
		s.t.Errorf("state %+v", state)
	}
	check.Containsf(s.t, s.must("trigger", "show", "a", "--json"), `"blocked": "the secrets are encrypted with key `+id, "trigger")
	waitFor(s.t, func() bool { // the engine may evaluate the events later
		return strings.Count(s.must("trigger", "fires", "--json"), `"state":"pending"`) >= 2
	})
	if out := s.must("trigger", "fires", "--json"); strings.Contains(out, `"state":"dead"`) {
		s.t.Errorf("firings %s", out)
	}
	if text := s.call(b, "GET", "/status", "", ""); !strings.Contains(text, "deliveries of 2 triggers are held") || !strings.Contains(text, id) {
		s.t.Errorf("status %s", text)
	}
	check.Containsf(s.t, s.call(b, "GET", "/metrics", "", ""), "seb_triggers_blocked 2\n", "metrics")
	s.must("trigger", "pause", "b")
	s.must("trigger", "resume", "b")
	if state := s.state(); state.Key == "" {
		s.refused(1, "this bucket encrypts the secrets", "trigger", "apply", "-f", s.definition("d"), "--yes")
		s.mustWith("{id: d, expr: login}", "trigger", "apply", "-f", "-", "--yes")
	}
	if got := s.hook.got(); got != before {
		s.t.Errorf("%d deliveries, then %d", before, got)
	}
}

// doctor checks a line of seb doctor.
func (s *sealing) doctor(want string, args ...string) {
	s.t.Helper()
	if out := s.must(append([]string{"doctor", "--bucket", s.bucket, "--http-port", "0", "--kafka-listen", ""}, args...)...); !strings.Contains(out, want) {
		s.t.Errorf("doctor: no %q in\n%s", want, out)
	}
}

// restored starts a broker with the key on a restored backup.
func (s *sealing) restored() {
	s.t.Helper()
	s.must("backup", "--bucket", s.bucket, "--to", "./backup")
	s.must("restore", "--from", "./backup", "--bucket", "./restored")
	before := s.hook.got()
	b := s.serve("--bucket", "./restored", "--data-dir", "data-restored", "--kafka-listen", "", "--webhook-targets", "127.0.0.1", "--secrets-key-file", "key1")
	waitFor(s.t, func() bool { return s.hook.got() >= before+2 }) // those that were held
	b.term()
}

// rewrapped changes the key while events arrive, and removes the old one.
func (s *sealing) rewrapped() {
	s.t.Helper()
	const more = 70 // more than one request changes
	definition, err := os.ReadFile(s.definition("more"))
	must.NoError(s.t, errors.Join(err, os.Mkdir(filepath.Join(s.dir, "more"), 0o700)))
	var both []byte
	for _, file := range []string{"key2", "key1"} {
		b := must.Get(os.ReadFile(filepath.Join(s.dir, file)))(s.t)
		both = append(both, b...)
	}
	files := map[string][]byte{"both": both}
	for i := range more {
		files[fmt.Sprintf("more/m%d.json", i)] = definition
	}
	for name, b := range files {
		must.NoError(s.t, os.WriteFile(filepath.Join(s.dir, name), b, 0o600))
	}
	b := s.broker("--secrets-key-file", "key1")
	s.must("trigger", "apply", "-f", "more", "--yes")
	waitFor(s.t, func() bool { return !strings.Contains(s.must("trigger", "fires", "--json"), `"pending"`) })
	b.term()

	b = s.broker("--secrets-key-file", "both")
	before := s.hook.got()
	if state := s.state(); state.Left != more+2 {
		s.t.Errorf("state %+v, want %d left", state, more+2)
	}
	var load sync.WaitGroup
	load.Go(func() { s.events(1000, 1009) })
	if out := s.must("secrets", "rewrap"); !strings.HasPrefix(out, fmt.Sprintf("%d triggers now have key", more+2)) {
		s.t.Errorf("rewrap: %s", out)
	}
	load.Wait()
	waitFor(s.t, func() bool { return s.hook.got() == before+10*(more+2) })
	b.term()
	b = s.broker("--secrets-key-file", "key2")
	if state := s.state(); state.Blocked != 0 || state.Encrypted[state.Key] != more+2 {
		s.t.Errorf("state %+v", state)
	}
	s.events(2000, 2000)
	waitFor(s.t, func() bool { return s.hook.got() == before+11*(more+2) })
	b.term()
}

// TestEncryptionSurvivesKills kills the broker before and after each request of the encryption.
// The next broker completes it: all triggers keep their versions, and nothing is delivered again.
func TestEncryptionSurvivesKills(t *testing.T) {
	s := newSealing(t, "kills")
	b := s.broker()
	for i := range 4 {
		s.put(fmt.Sprint("t", i))
	}
	s.events(1, 1)
	waitFor(t, func() bool { return s.hook.got() == 4 })
	waitFor(t, func() bool { return !strings.Contains(s.must("trigger", "fires", "--json"), `"pending"`) })
	b.term()
	s.newKey("key")
	objects := map[string][]byte{}
	s.each(func(key string, b []byte) { objects[key] = b })
	origin := s.bucket
	kills := 0
	for n := 1; n <= sebtest.Runs(3, 1); n++ { // the encryption takes three
		for _, after := range []bool{false, true} {
			name := fmt.Sprintf("run-%d-%v", n, after)
			s.bucket = strings.Replace(origin, "/kills", "/"+name, 1)
			store := s.open()
			for key, b := range objects {
				must.NoError(t, store.Put(t.Context(), key, objstore.NewBody(b)))
			}
			if s.killed(name, n, after) {
				kills++
			}
			s.complete(name)
		}
	}
	if kills < sebtest.Runs(4, 2) {
		t.Errorf("%d brokers were killed", kills)
	}
}

// killed starts a broker that is killed before or after the n-th PUT of a commit object that comes
// once it leads. It reports whether that happened before the encryption was complete.
func (s *sealing) killed(name string, n int, after bool) bool {
	s.t.Helper()
	target := must.Get(url.Parse(s.store))(s.t)
	var puts atomic.Int64
	reached, killed := make(chan struct{}), make(chan struct{})
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host
	}}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hit := r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/wal/") && puts.Add(1) == int64(n+1) // the first is the SEAL
		if !hit || after {
			forward.ServeHTTP(w, r)
		}
		if hit {
			close(reached)
			<-killed
		}
	}))
	defer proxy.Close()
	at := strings.Replace(s.bucket, target.String(), proxy.URL, 1)
	if at == s.bucket {
		s.t.Fatalf("no endpoint in %s", at)
	}
	b := s.launch("--http-port", "0", "--bucket", at, "--kafka-listen", "", "--data-dir", "data-"+name, "--batch-wait-time", "0",
		"--webhook-targets", "127.0.0.1", "--secrets-key-file", "key")
	hit := false
	waitFor(s.t, func() bool {
		select {
		case <-reached:
			hit = true
		default:
		}
		return hit || strings.Count(b.err.String(), "webhook secrets encrypted") == 2
	})
	b.kill()
	close(killed)
	return hit
}

// complete starts a broker that completes the encryption.
func (s *sealing) complete(name string) {
	s.t.Helper()
	b := s.serve("--bucket", s.bucket, "--kafka-listen", "", "--data-dir", "data-"+name, "--batch-wait-time", "0",
		"--webhook-targets", "127.0.0.1", "--secrets-key-file", "key")
	at := []string{"--data-dir", "data-" + name}
	var state client.Secrets
	waitFor(s.t, func() bool {
		err := json.Unmarshal([]byte(s.must(append([]string{"secrets", "status", "--json"}, at...)...)), &state)
		return err == nil && state.Readable == 0 && state.Encrypted[state.Key] == 4
	})
	for i := range 4 {
		if out := s.must(append([]string{"trigger", "show", fmt.Sprint("t", i), "--json"}, at...)...); !strings.Contains(out, `"version": 1,`) || strings.Contains(out, "blocked") {
			s.t.Errorf("%s: %s", name, out)
		}
	}
	before := s.hook.got()
	s.mustWith("", append([]string{"event", "signup", name}, at...)...)
	waitFor(s.t, func() bool { return s.hook.got() == before+4 })
	s.hook.mu.Lock()
	for i := range 4 {
		if n := s.hook.counts[fmt.Sprintf("t%d u1", i)]; n != 1 {
			s.t.Errorf("%s: the old firing of t%d was delivered %d times", name, i, n)
		}
	}
	s.hook.mu.Unlock()
	b.term()
}
