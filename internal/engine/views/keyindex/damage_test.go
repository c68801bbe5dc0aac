package keyindex

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/engine/views/localdb"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// damages are the ways to damage a file.
var damages = []struct {
	name string
	do   func(r *rand.Rand, b []byte) []byte
}{
	{"a bit", func(r *rand.Rand, b []byte) []byte { b[r.IntN(len(b))] ^= 1 << r.IntN(8); return b }},
	{"a byte of the first page", func(r *rand.Rand, b []byte) []byte {
		b[r.IntN(min(len(b), localdb.PageSize))] ^= byte(1 + r.IntN(255))
		return b
	}},
	{"some bytes", func(r *rand.Rand, b []byte) []byte {
		for range 1 + r.IntN(50) {
			b[r.IntN(len(b))] = byte(r.Uint32())
		}
		return b
	}},
	{"a run of bytes", func(r *rand.Rand, b []byte) []byte {
		at := r.IntN(len(b))
		for i := at; i < min(len(b), at+1+r.IntN(10_000)); i++ {
			b[i] = byte(r.Uint32())
		}
		return b
	}},
	{"a page of zeros", func(r *rand.Rand, b []byte) []byte {
		at := r.IntN(1+len(b)/localdb.PageSize) * localdb.PageSize
		clear(b[min(at, len(b)):min(at+localdb.PageSize, len(b))])
		return b
	}},
	{"a page copied over another", func(r *rand.Rand, b []byte) []byte {
		n := len(b) / localdb.PageSize
		copy(b[r.IntN(n)*localdb.PageSize:], b[r.IntN(n)*localdb.PageSize:][:localdb.PageSize])
		return b
	}},
	{"a truncated file", func(r *rand.Rand, b []byte) []byte { return b[:r.IntN(len(b))] }},
	{"an appended part", func(r *rand.Rand, b []byte) []byte { return append(b, b[:r.IntN(len(b))]...) }},
	{"an empty file", func(*rand.Rand, []byte) []byte { return nil }},
	{"another file", func(*rand.Rand, []byte) []byte { return []byte(strings.Repeat("This is no database.\n", 1000)) }},
}

// TestDamageIsDetected damages the closed file in every way. All results of queries then still
// match the log.
func TestDamageIsDetected(t *testing.T) {
	t.Parallel()
	m := newModel(t, 0)
	for range sebtest.Runs(150, 20) {
		m.append(m.topics[0], m.rand.IntN(len(m.log.topics[0].parts)))
	}
	m.check()
	m.view.Close()
	whole := must.Get(os.ReadFile(m.view.path))(t)
	damaged := 0
	m.few = sebtest.Runs(20, 3)
	for _, d := range damages {
		path := filepath.Join(t.TempDir(), "keys.db")
		must.NoError(t, os.WriteFile(path, d.do(m.rand, append([]byte{}, whole...)), 0o600))
		m.view = openSized(t, path, m.log, &small)
		m.check()
		if m.view.rebuilds() > 0 {
			damaged++
		}
		m.view.Close()
	}
	// Much of such a file is free space; at least a fifth is not.
	if files := len(damages); damaged*5 < files {
		t.Errorf("only %d of %d damaged files were rebuilt", damaged, files)
	}
}

// TestDamageAfterCrashIsDetected is the same for the leftovers of a crash: a file and a write-ahead
// log.
func TestDamageAfterCrashIsDetected(t *testing.T) {
	sebtest.Long(t, "TestDamageIsDetected and TestDamageWhileOpen remain")
	t.Parallel()
	m := newModel(t, 0)
	for range sebtest.Runs(100, 40) {
		m.append(m.topics[0], m.rand.IntN(len(m.log.topics[0].parts)))
	}
	m.check()
	dir := filepath.Dir(m.view.copy())
	m.few = sebtest.Runs(20, 5)
	for _, d := range damages {
		path := filepath.Join(t.TempDir(), "keys.db")
		for i, name := range []string{"keys.db", "keys.db-wal"} {
			b := must.Get(os.ReadFile(filepath.Join(dir, name)))(t)
			if m.rand.IntN(3) != i { // mostly the log
				b = d.do(m.rand, b)
			}
			must.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(path), name), b, 0o600))
		}
		if m.rand.IntN(10) == 0 {
			os.Remove(path + "-wal")
		}
		v := m.view
		m.view = openSized(t, path, m.log, &small)
		m.check()
		m.view.Close()
		m.view = v
	}
}

// TestDamageWhileOpen checks that a query detects blocks that cannot be read any more.
func TestDamageWhileOpen(t *testing.T) {
	m := newModel(t, 0)
	for range sebtest.Runs(150, 25) {
		m.append(m.topics[0], 0)
	}
	m.check()
	files := map[*os.File]int64{} // files and the offsets from which they are damaged
	for name, from := range map[string]int64{m.view.path: localdb.PageSize, m.view.path + "-wal": 32} {
		f := must.Get(os.OpenFile(name, os.O_RDWR, 0))(t)
		defer f.Close() // after the view, because closing a file releases SQLite's locks on it
		files[f] = from
	}
	// once both are open, because the view may delete them when one is damaged
	for f, from := range files {
		info := must.Get(f.Stat())(t)
		for at := from; at < info.Size(); at += 200 {
			must.Get(f.WriteAt([]byte{0xaa, 0x55}, at))(t)
		}
	}
	there := m.records(m.topics[0])
	for tries := 0; m.view.rebuilds() == 0 && tries < 20; tries++ {
		for _, key := range m.some(there) {
			must.Get(m.view.History(t.Context(), m.topics[0], []byte(key), HistoryQuery{Partition: -1, Limit: 1}))(t)
		}
		m.view.caughtUp(m.log)
	}
	if m.check(); m.view.rebuilds() != 1 {
		t.Errorf("the file was rebuilt %d times", m.view.rebuilds())
	}
	m.view.Close()
}

// TestForeignFiles checks that a file of another cluster or another version is rebuilt.
func TestForeignFiles(t *testing.T) {
	l := newLog()
	topic := l.create(1)
	l.append(topic, 0, rec("a", "1", 1), rec("b", "1", 1))
	v := open(t, "", l)
	v.caughtUp(l)
	v.Close()

	other := newLog()
	other.topics = []*fakeTopic{{id: topic, indexed: true, parts: []*fakePartition{{}}}}
	other.append(topic, 0, rec("a", "1", 1))
	v = open(t, v.path, other)
	v.caughtUp(other)
	if got := v.get(topic, "b", -1); got != "none" || v.rebuilds() != 1 || !strings.Contains(v.log.String(), "cluster") {
		t.Errorf("file of another cluster: %s, rebuilt %d times: %s", got, v.rebuilds(), v.log.String())
	}
	v.Close()

	b := must.Get(os.ReadFile(v.path))(t)
	b[63]++ // the version
	must.NoError(t, os.WriteFile(v.path, b, 0o600))
	v = open(t, v.path, other)
	v.caughtUp(other)
	if got := v.get(topic, "a", -1); got != "a@0/0" || v.rebuilds() != 1 || !strings.Contains(v.log.String(), "version 3") {
		t.Errorf("file of another version: %s, rebuilt %d times: %s", got, v.rebuilds(), v.log.String())
	}
}

// TestFileThatCannotBeCreated checks that queries get the error, and that the view retries.
func TestFileThatCannotBeCreated(t *testing.T) {
	l := newLog()
	topic := l.create(1)
	l.append(topic, 0, rec("a", "1", 1))
	path := filepath.Join(t.TempDir(), "keys.db")
	must.NoError(t, os.MkdirAll(filepath.Join(path, "in the way"), 0o700))
	v := openSized(t, path, l, &small)
	if _, _, err := v.Get(t.Context(), topic, []byte("a"), -1); !errors.Is(err, ErrUnavailable) {
		t.Errorf("Get: %v", err)
	}
	if err := v.WaitFor(t.Context(), topic, 0, 0); !errors.Is(err, ErrUnavailable) {
		t.Errorf("WaitFor: %v", err)
	}
	if n := v.Lag(topic); n != 1 {
		t.Errorf("lags by %d", n)
	}
	if _, err := os.Stat(filepath.Join(path, "in the way")); err != nil {
		t.Error("a folder was used as a file")
	}
	must.NoError(t, os.RemoveAll(path))
	until(t, func() bool {
		_, ok, err := v.Get(t.Context(), topic, []byte("a"), -1)
		return err == nil && ok
	})
}

// TestUnreadablePartition checks that reading a partition is retried after an error and does not
// delay other partitions.
func TestUnreadablePartition(t *testing.T) {
	l := newLog()
	bad, good := l.create(1), l.create(1)
	l.append(bad, 0, rec("a", "1", 1))
	l.append(good, 0, rec("a", "1", 1))
	l.failing(bad, errors.New("damaged"))
	v := openSized(t, "", l, &small)
	if err := v.WaitFor(t.Context(), good, 0, 0); err != nil {
		t.Error(err)
	}
	if v.Lag(bad) != 1 || v.get(bad, "a", -1) != "none" {
		t.Errorf("lags by %d", v.Lag(bad))
	}
	l.failing(record.ID{}, nil)
	if err := v.WaitFor(t.Context(), bad, 0, 0); err != nil {
		t.Error(err)
	}
}

// TestFullDisk checks that records that do not fit are missing, which Lag shows, and that earlier
// ones are found. Once there is space again nothing was lost.
func TestFullDisk(t *testing.T) {
	m := newModel(t, 0)
	m.view.Close()
	little := small
	little.pagesMax = sebtest.Runs(40, 24)
	m.view = openSized(t, "", m.log, &little)
	topic := m.topics[0]
	m.append(topic, 0)
	m.view.caughtUp(m.log)
	m.log.append(topic, 0, rec("early", "1", 1))
	m.view.caughtUp(m.log)
	for range sebtest.Runs(300, 60) {
		m.append(topic, 0)
	}
	until(t, func() bool { return strings.Contains(m.view.log.String(), "level=ERROR") })
	if got := m.view.get(topic, "early", 0); !strings.HasPrefix(got, "early@0/") {
		t.Errorf("the newest record of an indexed key is %s", got)
	}
	if m.view.Lag(topic) == 0 || m.view.rebuilds() > 0 {
		t.Errorf("lags by %d, was rebuilt %d times", m.view.Lag(topic), m.view.rebuilds())
	}
	m.view.Close()
	if n := strings.Count(m.view.log.String(), "level=ERROR"); n > 1 {
		t.Errorf("logged %d times: %s", n, m.view.log.String())
	}
	m.view = openSized(t, m.view.path, m.log, &small)
	if m.check(); m.view.rebuilds() > 0 {
		t.Errorf("was rebuilt: %s", m.view.log.String())
	}
}

// TestLongKeys: keys may be as long as records.
func TestLongKeys(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("writes 36 MiB of keys")
	}
	l := newLog()
	topic := l.create(1)
	var keys []string
	for i := range 6 {
		keys = append(keys, strings.Repeat("k", 3<<20)+string(rune('a'+i)))
	}
	v := openSized(t, "", l, &small)
	for range 2 {
		for _, key := range keys {
			l.append(topic, 0, rec(key, "1", 1))
		}
	}
	v.caughtUp(l)
	list, err := v.List(t.Context(), topic, ListQuery{Limit: 100})
	if err != nil || len(list) != 2 { // the maximum of one result
		t.Fatalf("%d keys, %v", len(list), err)
	}
	for q := (ListQuery{Limit: 100, After: list[1].Key}); len(list) < len(keys); q.After = list[len(list)-1].Key {
		more, err := v.List(t.Context(), topic, q)
		if err != nil || len(more) == 0 {
			t.Fatalf("%d keys, then %d: %v", len(list), len(more), err)
		}
		list = append(list, more...)
	}
	for i, e := range list {
		if string(e.Key) != keys[i] || e.Offset != int64(len(keys)+i) {
			t.Fatalf("key %d differs, at offset %d", i, e.Offset)
		}
	}
	v.Close()
	v = openSized(t, v.path, l, &small)
	v.caughtUp(l)
	if e, ok, err := v.Get(t.Context(), topic, []byte(keys[5]), -1); err != nil || !ok || e.Offset != 11 || v.rebuilds() > 0 {
		t.Errorf("after a restart: %d, %v, %v", e.Offset, ok, err)
	}
}
