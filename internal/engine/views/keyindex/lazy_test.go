package keyindex

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/views/localdb"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
)

// blockDamages change all blocks of runs, and nothing else.
var blockDamages = map[string]string{
	"a byte":       "UPDATE blocks SET data = CAST(substr(data, 1, 20) || X'55' || substr(data, 22) AS BLOB)",
	"a cut":        "UPDATE blocks SET data = substr(data, 1, length(data) / 2)",
	"empty blocks": "UPDATE blocks SET data = X''",
	"no blocks":    "DELETE FROM blocks",
	"a neighbor":   "UPDATE blocks SET data = (SELECT b.data FROM blocks b WHERE b.id <> blocks.id ORDER BY abs(b.id - blocks.id) LIMIT 1)",
}

// lazyKeys fill three runs, which are not merged yet.
const lazyKeys = 1800

func lazyKey(i int) string { return fmt.Sprintf("k%05d", i) }

// damagedBlocks returns a log of one record per key, and the closed file of its index with damaged
// blocks.
func damagedBlocks(t *testing.T, how string) (*fakeLog, record.ID, string) {
	l := newLog()
	topic := l.create(1)
	for i := 0; i < lazyKeys; i += 100 {
		var recs []record.Record
		for j := range 100 {
			recs = append(recs, rec(lazyKey((i+j)*7%lazyKeys), "v", int64(i)))
		}
		l.append(topic, 0, recs...)
	}
	v := openSized(t, "", l, &small)
	v.caughtUp(l)
	v.Close()
	db := must.Get(localdb.Open(v.path, 1, nil))(t)
	must.Get(db.Exec(how))(t)
	must.NoError(t, db.Close())
	return l, topic, v.path
}

// TestDamagedBlocksAreFoundWhenTheyAreRead checks that a start does not read the blocks of runs, and
// that the first query or merge that does so has the index rebuilt. No key is missing then.
func TestDamagedBlocksAreFoundWhenTheyAreRead(t *testing.T) {
	t.Parallel()
	asks := []struct {
		reader string
		ask    func(t *testing.T, v *testView, l *fakeLog, topic record.ID)
	}{
		{"lookup", func(*testing.T, *testView, *fakeLog, record.ID) {}},
		{"lookup of no key", func(t *testing.T, v *testView, _ *fakeLog, topic record.ID) {
			if got := v.get(topic, "none", -1); got != "none" {
				t.Error(got)
			}
		}},
		{"list", func(t *testing.T, v *testView, _ *fakeLog, topic record.ID) {
			if list := must.Get(v.List(t.Context(), topic, ListQuery{Limit: LimitMax}))(t); len(list) != lazyKeys {
				t.Errorf("%d keys", len(list))
			}
		}},
		{"history", func(t *testing.T, v *testView, _ *fakeLog, topic record.ID) {
			if list := must.Get(v.History(t.Context(), topic, []byte(lazyKey(5)), HistoryQuery{Partition: -1, Limit: 10}))(t); len(list) != 1 {
				t.Errorf("%d records", len(list))
			}
		}},
		{"forget", func(t *testing.T, v *testView, _ *fakeLog, topic record.ID) {
			must.NoError(t, v.Forget(t.Context(), topic, []Entry{{Key: []byte(lazyKey(5)), Offset: 1 << 40}}))
		}},
		{"merge", func(t *testing.T, v *testView, l *fakeLog, topic record.ID) {
			for range 20 { // becomes new runs, which are merged with a damaged one
				l.append(topic, 0, slices.Repeat([]record.Record{rec(lazyKey(1), "v", 1)}, 200)...)
				v.caughtUp(l)
			}
			until(t, func() bool { return v.rebuilds() > 0 })
		}},
	}
	for name, how := range blockDamages {
		l, topic, path := damagedBlocks(t, how)
		file := must.Get(os.ReadFile(path))(t)
		for _, a := range asks { // the last one changes the log
			t.Run(name+"/"+a.reader, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "keys.db")
				must.NoError(t, os.WriteFile(path, file, 0o600))
				v := openSized(t, path, l, &small)
				v.caughtUp(l)
				if n := v.rebuilds(); n != 0 {
					t.Fatalf("rebuilt %d times by the start: %s", n, v.log.String())
				}
				a.ask(t, v, l, topic)
				for i := 3; i < lazyKeys; i += 97 {
					if got := v.get(topic, lazyKey(i), 0); !strings.HasPrefix(got, lazyKey(i)+"@0/") {
						t.Fatalf("key %d is %s", i, got)
					}
				}
				if n := v.rebuilds(); n != 1 {
					t.Errorf("rebuilt %d times: %s", n, v.log.String())
				}
				v.Close()
			})
		}
	}
}

// TestQueriesDuringARebuild checks that queries of a topic whose damaged index is rebuilt get an
// error after a while, and never an answer without a key that the damaged index had.
func TestQueriesDuringARebuild(t *testing.T) {
	t.Parallel()
	l, topic, path := damagedBlocks(t, blockDamages["a byte"])
	short := small
	short.rebuildWait = time.Millisecond
	v := openSized(t, path, l, &short)
	v.caughtUp(l)
	l.failing(topic, errors.New("the store is down"))
	for range 3 {
		e, ok, err := v.Get(t.Context(), topic, []byte(lazyKey(5)), -1)
		if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), fmt.Sprint(lazyKeys, " records")) {
			t.Errorf("%+v, %v, %v", e, ok, err)
		}
	}
	if _, err := v.List(t.Context(), topic, ListQuery{Limit: 1}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("list: %v", err)
	}
	other := l.create(1)
	l.append(other, 0, rec("a", "v", 1))
	must.NoError(t, v.WaitFor(t.Context(), other, 0, 0))
	if got := v.get(other, "a", -1); got != "a@0/0" {
		t.Errorf("another topic: %s", got)
	}
	l.failing(record.ID{}, nil)
	v.caughtUp(l)
	if got := v.get(topic, lazyKey(5), -1); !strings.HasPrefix(got, lazyKey(5)+"@0/") || v.rebuilds() != 1 {
		t.Errorf("%s after %d rebuilds", got, v.rebuilds())
	}
}
