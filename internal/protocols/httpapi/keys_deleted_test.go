package httpapi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/engine/views/keyindex"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

func TestKeysOfACompactedTopic(t *testing.T) {
	for name, store := range map[string]func() objstore.Store{
		"memory": func() objstore.Store { return objstore.NewMemory() },
		"disk": func() objstore.Store {
			d := must.Get(objstore.OpenDisk(t.TempDir(), objstore.DiskOptions{}))(t)
			return d
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := gapped(t, store(), 1<<20, 100, func(c *setup) { c.keys = true })
			newest := map[string]int64{"a": 26, "b": 28, "c": 29, "d": 30, "e": 31, "f": 12, "g": 19, "h": 25}
			for key, offset := range newest {
				a := g.get("/key?topic-name=c&read=latest&key=" + key)
				if a.status != 200 || string(a.body) != g.values[offset] || a.header.Get("Seb-Offset") != fmt.Sprint(offset) {
					t.Errorf("%s: %s %v, want offset %d", key, a, a.header, offset)
				}
				var h api.KeyHistory
				g.must(200, g.get("/key/history?topic-name=c&key="+key), &h)
				if len(h.Records) != 1 || h.Records[0].Offset != offset || *h.Records[0].Value != g.values[offset] {
					t.Errorf("history of %s: %+v", key, h)
				}
			}
			for _, key := range []string{"x", "y", "z", ""} {
				if p := g.get("/key?topic-name=c&key=" + key).problem(t); p.Code != api.KeyNotFound {
					t.Errorf("%q: %+v", key, p)
				}
				var h api.KeyHistory
				if g.must(200, g.get("/key/history?topic-name=c&key="+key), &h); len(h.Records) != 0 {
					t.Errorf("history of %q: %+v", key, h)
				}
			}
			var list api.Keys
			g.must(200, g.get("/keys?topic-name=c"), &list)
			var got []string
			for _, k := range list.Keys {
				got = append(got, *k.Key)
				check.Equalf(t, k.Offset, newest[*k.Key], "%+v", k)
			}
			check.EqualSlices(t, got, []string{"a", "b", "c", "d", "e", "f", "g", "h"})
		})
	}
}

// behind is an index that returns removed records, like one that has not yet seen their
// replacements.
type behind struct {
	KeyIndex

	mu           sync.Mutex // guards the fields below
	stale        []keyindex.Entry
	until        int // how often Get returns the first of stale; negative: until Forget
	forgets      []keyindex.Entry
	ignoreForget bool  // it ignores Forget
	fault        error // returned by every query, if not nil
}

func (b *behind) Get(ctx context.Context, topic record.ID, key []byte, partition int) (keyindex.Entry, bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fault != nil {
		return keyindex.Entry{}, false, b.fault
	}
	if b.until != 0 && len(b.stale) > 0 {
		b.until--
		return b.stale[0], true, nil
	}
	return b.KeyIndex.Get(ctx, topic, key, partition)
}

func (b *behind) History(ctx context.Context, topic record.ID, key []byte, q keyindex.HistoryQuery) ([]keyindex.Entry, error) {
	list, err := b.KeyIndex.History(ctx, topic, key, q)
	b.mu.Lock()
	defer b.mu.Unlock()
	return append(slices.Clone(b.stale), list...), err
}

func (b *behind) Forget(ctx context.Context, topic record.ID, gone []keyindex.Entry) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.forgets = append(b.forgets, gone...); b.ignoreForget {
		return nil
	}
	b.stale = slices.DeleteFunc(b.stale, func(e keyindex.Entry) bool {
		return slices.ContainsFunc(gone, func(g keyindex.Entry) bool { return g.Partition == e.Partition && g.Offset == e.Offset })
	})
	return nil
}

func TestStaleIndexEntries(t *testing.T) {
	var b *behind
	g := gapped(t, objstore.NewMemory(), 1<<20, 0, func(c *setup) {
		c.keys = true
		c.wrap = func(k KeyIndex) KeyIndex { b = &behind{KeyIndex: k}; return b }
	})
	gone := func(offset int64) keyindex.Entry {
		return keyindex.Entry{Key: []byte("a"), Offset: offset, Timestamp: testNow}
	}
	set := func(until int, offsets ...int64) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.stale, b.until, b.forgets = nil, until, nil
		for _, o := range offsets {
			b.stale = append(b.stale, gone(o))
		}
	}
	for _, kind := range []string{api.OctetStream, api.JSON} {
		// The request waits for the replacement, and does not forget entries that the index will
		// replace.
		set(1, 5)
		if a := g.get("/key?topic-name=c&key=a", kind); a.status != 200 || a.header.Get("Seb-Offset") != "26" || len(b.forgets) != 0 {
			t.Errorf("%s, forgot %v", a, b.forgets)
		}
		// Entries that stay stale are forgotten.
		set(-1, 0, 5, 11)
		if a := g.get("/key?topic-name=c&key=a", kind); a.status != 200 || a.header.Get("Seb-Offset") != "26" || len(b.forgets) != 3 {
			t.Errorf("%s, forgot %v", a, b.forgets)
		}
		// If stale entries remain, the key counts as absent.
		set(-1, 5)
		b.ignoreForget = true
		if p := g.get("/key?topic-name=c&key=a", kind).problem(t); p.Code != api.KeyNotFound || len(b.forgets) != staleMax-1 {
			t.Errorf("%+v, forgot %v", p, b.forgets)
		}
		b.ignoreForget = false
	}
	set(0, 0, 5, 11)
	var h api.KeyHistory
	g.must(200, g.get("/key/history?topic-name=c&key=a&limit=1"), &h)
	if len(h.Records) != 1 || h.Records[0].Offset != 26 || len(b.forgets) != 3 {
		t.Errorf("%+v, forgot %v", h, b.forgets)
	}
	// Trimmed records are skipped because of the partition's start alone.
	g.must(200, g.send("POST", "/topic/trim?topic-name=c&partition=0&offset=26", ""), nil)
	set(0, 0, 5, 11)
	g.must(200, g.get("/key/history?topic-name=c&key=a"), &h)
	if len(h.Records) != 1 || len(b.forgets) != 0 {
		t.Errorf("%+v, forgot %v", h, b.forgets)
	}
	for fault, want := range map[error]api.Code{
		keyindex.ErrUnavailable: api.KeyIndexUnavailable, keyindex.ErrClosed: api.ShuttingDown, keyindex.ErrNotIndexed: api.KeyIndexOff,
		keyindex.ErrInvalid: api.BadRequest, errors.New("anything else"): api.Internal,
	} {
		b.fault = fmt.Errorf("get: %w", fault)
		if p := g.get("/key?topic-name=c&key=a").problem(t); p.Code != want {
			t.Errorf("%v: %+v", fault, p)
		}
	}
}
