package rules

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/internal/triggers/secrets"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// canarySecret is in the deliver sections of the tests.
const canarySecret = "CANARY-1b44f0"

func ringOf(t testing.TB, keys ...*secrets.Key) *secrets.Ring {
	t.Helper()
	text := ""
	for _, k := range keys {
		text += k.Reveal() + "\n"
	}
	r := must.Get(secrets.Parse(text))(t)
	return r
}

// sealing returns a change of options that sets keys.
func sealing(ring *secrets.Ring) func(o *Options) { return func(o *Options) { o.Keys = ring } }

// secretive returns a trigger whose deliver section has secrets.
func secretive(id string) rule.Definition {
	e, err := driplang.Parse("A")
	if err != nil {
		panic(err)
	}
	deliver := json.RawMessage(`{"url":"https://x.example","secrets":["` + canarySecret + `"],"headers":{"A":"` + canarySecret + `"}}`)
	return rule.Definition{ID: id, Expr: e, Fire: rule.OnEdge, Deliver: deliver}
}

// opened opens an engine with goroutines.
func opened(t *testing.T, b *fakeBroker, change ...func(o *Options)) (*Engine, *sebtest.Log) {
	t.Helper()
	s := &sebtest.Log{}
	o := Options{Path: filepath.Join(t.TempDir(), "triggers.db"), Log: b, Now: b.now, Logger: s.Logger(), Sizes: &small}
	for _, f := range change {
		f(&o)
	}
	e := must.Get(Open(t.Context(), o))(t)
	t.Cleanup(func() { _ = e.Close() })
	return e, s
}

// secretsOf is the state of the secrets once the engine is open.
func secretsOf(e *Engine) Secrets { s, _ := e.SecretsState(); return s }

func mustPut(t *testing.T, e *Engine, d rule.Definition) Put {
	t.Helper()
	p := must.Get(e.Put(t.Context(), d, nil))(t)
	return p
}

// inLog reports whether a record of the topic of definitions has a text.
func (l *fakeLog) inLog(text string, from int64) bool {
	t, _ := l.Topic("triggers")
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.topicLocked(t.ID).parts[0].batches {
		if b.BaseOffset() >= from && bytes.Contains(b, []byte(text)) {
			return true
		}
	}
	return false
}

// TestPutEncrypts: with a key no record has a readable secret. Without one the secrets stay as
// given, and Put says so; but once a trigger is encrypted, a broker without a key refuses secrets.
func TestPutEncrypts(t *testing.T) {
	log := newLog()
	e, _ := opened(t, log.broker(true))
	if p := mustPut(t, e, secretive("plain")); !p.Readable {
		t.Errorf("put %+v: want readable secrets", p)
	}
	if !log.inLog(canarySecret, 0) {
		t.Error("without a key the secrets changed")
	}
	_ = e.Close()

	k := secrets.NewKey()
	e, _ = opened(t, log.broker(true), sealing(ringOf(t, k)))
	sebtest.Eventually(t, "encryption", func() bool { return secretsOf(e).Sealed == 1 })
	end, _ := log.Topic("triggers")
	p, _ := log.leader.Position(end.ID)
	if put := mustPut(t, e, secretive("sealed")); put.Readable {
		t.Errorf("put %+v: want sealed secrets", put)
	}
	if log.inLog(canarySecret, p.Topics[0][0].Next) {
		t.Error("a record has the secret")
	}
	x, err := e.Trigger(t.Context(), "sealed")
	if err != nil || x.Version != 1 {
		t.Fatal(x, err)
	}
	if deliver, err := e.Opened(&x.Definition); err != nil || !secrets.Same(deliver, secretive("").Deliver) {
		t.Errorf("opened %s, %v", deliver, err)
	}
	moved := secretive("thief")
	moved.Deliver = x.Deliver
	if _, err := e.Put(t.Context(), moved, nil); !errors.Is(err, ErrInvalid) || strings.Contains(err.Error(), "sebsealed1") {
		t.Errorf("the encrypted form was given: %v", err)
	}
	_ = e.Close()

	e, logs := opened(t, log.broker(true))
	sebtest.Eventually(t, "state", func() bool { return secretsOf(e).Locked == 2 })
	if _, err := e.Put(t.Context(), secretive("more"), nil); !errors.Is(err, ErrLocked) || !errors.Is(err, ErrInvalid) {
		t.Errorf("without a key: %v", err)
	}
	check.ErrorIsf(t, check.Err(e.Opened(&x.Definition)), secrets.ErrNoKey, "opened without a key")
	check.NoErrorf(t, e.Pause(t.Context(), "sealed", true), "pause without a key")
	if n := strings.Count(logs.String(), "deliveries held"); n != 1 || !strings.Contains(logs.String(), k.ID().String()) {
		t.Errorf("%d lines: %s", n, logs)
	}
}

// TestEncryptionWaitsForTheLevel: at a lower format level nothing is written, and a new trigger with
// secrets is refused.
func TestEncryptionWaitsForTheLevel(t *testing.T) {
	log := newLog()
	e, _ := opened(t, log.broker(true))
	mustPut(t, e, secretive("old"))
	_ = e.Close()
	low := errors.New("level 3")
	e, logs := opened(t, log.broker(true), sealing(ringOf(t, secrets.NewKey())), func(o *Options) { o.Sealable = func() error { return low } })
	sebtest.Eventually(t, "the warning", func() bool { return strings.Contains(logs.String(), "stay readable") })
	check.ErrorIsf(t, check.Err(e.Put(t.Context(), secretive("new"), nil)), low, "put")
	check.NoError(t, e.Pause(t.Context(), "old", true))
	if s := secretsOf(e); s.Readable != 1 || s.Sealed != 0 || log.inLog("sebsealed1", 0) {
		t.Errorf("state %+v", s)
	}
}

// TestReadBackThatDiffers: the second trigger is not encrypted if the first cannot be decrypted
// after it was stored, and the first is stored again as it was.
func TestReadBackThatDiffers(t *testing.T) {
	log := newLog()
	e, _ := opened(t, log.broker(true))
	mustPut(t, e, secretive("a"))
	mustPut(t, e, secretive("b"))
	_ = e.Close()
	broken := &brokenLog{fakeBroker: log.broker(true)}
	e, logs := opened(t, broken.fakeBroker, sealing(ringOf(t, secrets.NewKey())), func(o *Options) { o.Log = broken })
	sebtest.Eventually(t, "the error", func() bool { return strings.Contains(logs.String(), "encryption of webhook secrets stopped") })
	if s := secretsOf(e); s.Readable != 2 || s.Sealed != 0 {
		t.Errorf("state %+v\n%s", s, logs)
	}
	if x, err := e.Trigger(t.Context(), "a"); err != nil || x.Version != 1 || !secrets.Same(x.Deliver, secretive("").Deliver) {
		t.Errorf("%+v, %v", x, err)
	}
	if strings.Contains(logs.String(), canarySecret) {
		t.Errorf("secret in the log\n%s", logs)
	}
}

// brokenLog changes the encrypted values of an append.
type brokenLog struct{ *fakeBroker }

func (b *brokenLog) Append(ctx context.Context, topic record.ID, part uint32, recs []record.Record) (int64, error) {
	for i := range recs {
		recs[i].Value = bytes.Replace(recs[i].Value, []byte("sebsealed1:"), []byte("sebsealed1:AAAA"), 1)
	}
	return b.fakeBroker.Append(ctx, topic, part, recs)
}

// TestFirstKeyReplacesCopies: after the encryption neither the file nor a copy in the bucket has a
// readable secret, not even of a trigger that was deleted before.
func TestFirstKeyReplacesCopies(t *testing.T) {
	log, b := newLog().broker(true), newBucket()
	s := b.step(t, log, "")
	s.put(s.definition("a", "A", func(d *rule.Definition) { d.Deliver = secretive("a").Deliver }))
	const gone = 10 // their rows fill pages of the file
	long := bytes.ReplaceAll(secretive("").Deliver, []byte(canarySecret), []byte(strings.Repeat(canarySecret, 250)))
	for i := range gone {
		s.put(s.definition(fmt.Sprint("gone", i), "B", func(d *rule.Definition) { d.Deliver = long }))
	}
	for range 50 {
		log.post(ev("u", "A"))
	}
	s.settle()
	for i := range gone {
		s.append("triggers", record.Record{Key: fmt.Append(nil, "gone", i)})
	}
	log.advance(time.Minute)
	for range 50 {
		log.post(ev("u", "A"))
	}
	s.settle()
	if copies := b.copies(t, log); !bytes.Contains(copies, []byte(canarySecret)) {
		t.Fatalf("the copies have no secret: %d bytes\n%s", len(copies), s.logs)
	}
	s.end()

	s = b.step(t, log, s.path, sealing(ringOf(t, secrets.NewKey())))
	s.settle()
	if n, err := s.encryptSome(t.Context(), new(bool)); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	log.advance(time.Minute)
	s.settle()
	s.settle()
	p, _, _ := s.follower.Peek()
	if p.Marks.Replaced == 0 || p.Marks.Copied != p.Marks.Replaced || p.Marks.Purged != 0 {
		t.Errorf("marks %+v\n%s", p.Marks, s.logs)
	}
	topic, below := s.Unpurged()
	if want, _ := log.Topic("triggers"); topic != want.ID || below != p.Marks.Replaced {
		t.Errorf("unpurged %s, %d", topic, below)
	}
	s.Purged(below)
	s.settle()
	if _, below := s.Unpurged(); below != 0 {
		t.Errorf("unpurged %d", below)
	}
	if bytes.Contains(b.copies(t, log), []byte(canarySecret)) {
		t.Error("a copy has the secret")
	}
	files, _ := filepath.Glob(s.path + "*")
	for _, file := range files {
		if text, err := os.ReadFile(file); err != nil || bytes.Contains(text, []byte(canarySecret)) {
			t.Errorf("%s has the secret (%v)", file, err)
		}
	}
	saves := b.saves
	log.advance(time.Hour)
	s.settle()
	check.Equalf(t, b.saves, saves, "%d more copies", b.saves-saves)
}

// copies returns the contents of all copies of the file, newest first.
func (b *bucket) copies(t *testing.T, log *fakeBroker) (all []byte) {
	t.Helper()
	names, _ := must.Get2(b.store.List(t.Context(), objstore.ListOptions{}))(t)
	read := map[string]bool{}
	for range names {
		path := filepath.Join(t.TempDir(), "copy")
		s := b.saver(t, log, (&sebtest.Log{}).Logger())
		info, ok := must.Get2(s.Restore(t.Context(), path, true, func(name string) bool { return read[name] }))(t)
		if !ok {
			break
		}
		read[info.Name] = true
		text := must.Get(os.ReadFile(path))(t)
		all = append(all, text...)
	}
	return all
}

// TestDefinitionThatCannotBeEncrypted: it stays as it is, and the others are encrypted.
func TestDefinitionThatCannotBeEncrypted(t *testing.T) {
	log := newLog()
	e, _ := opened(t, log.broker(true))
	large, headers := secretive("a"), map[string]string{}
	for i := range 60 { // more than a webhook may have
		headers[fmt.Sprint("h", i)] = strings.Repeat("x", 4<<10)
	}
	large.Deliver, _ = json.Marshal(map[string]any{"headers": headers})
	mustPut(t, e, large)
	for _, id := range []string{"b", "c"} {
		mustPut(t, e, secretive(id))
	}
	_ = e.Close()
	e, logs := opened(t, log.broker(true), sealing(ringOf(t, secrets.NewKey())))
	sebtest.Eventually(t, "encryption", func() bool { return secretsOf(e).Sealed == 2 })
	if s := secretsOf(e); s.Readable != 1 || !logs.Contains("secrets of a trigger not rewritten") {
		t.Errorf("state %+v\n%s", s, logs)
	}
	if _, below := e.Unpurged(); below != 0 {
		t.Errorf("a purge below %d beside readable secrets", below)
	}
}
