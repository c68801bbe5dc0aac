package broker_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// rangesHooked is a store whose reads a test can intercept.
type rangesHooked struct {
	objstore.Store
	// if not nil; set before the reads begin
	onGet func(ctx context.Context, key string, r objstore.Range) error
	gets  atomic.Int64 // that reached the store
}

func (h *rangesHooked) Get(ctx context.Context, key string, r objstore.Range) (objstore.Object, error) {
	if h.onGet != nil {
		if err := h.onGet(ctx, key, r); err != nil {
			return objstore.Object{}, err
		}
	}
	h.gets.Add(1)
	return h.Store.Get(ctx, key, r)
}

// rangesStores runs a test on a store that returns memory and on one that returns file sections.
func rangesStores(t *testing.T, test func(t *testing.T, s objstore.Store)) {
	t.Run("memory", func(t *testing.T) { test(t, objstore.NewMemory()) })
	t.Run("disk", func(t *testing.T) { test(t, rangesDisk(t)) })
}

func rangesDisk(t testing.TB) objstore.Store {
	t.Helper()
	d := must.Get(objstore.OpenDisk(t.TempDir(), objstore.DiskOptions{NoSync: true}))(t)
	t.Cleanup(func() { d.Close() })
	return d
}

// rig is a reader with its budget and its catalog.
type rig struct {
	*broker.Reader
	budget *budget.Budget
	asked  catalog
}

// rangesOpen returns a reader of s with limit bytes in the whole budget. At the end of the test no
// memory may be reserved.
func rangesOpen(t testing.TB, s objstore.Store, limit int64, share bool) *rig {
	t.Helper()
	g := &rig{budget: budget.New(limit)}
	g.budget.Buffers().Poison()
	g.Reader = broker.OpenRanges(broker.RangesOptions{
		Store: s, Budget: g.budget, Timeout: time.Minute, PerMiB: time.Second, Share: share, Metrics: metrics.NewSet(),
	})
	t.Cleanup(func() {
		g.Close()
		check.Equalf(t, g.budget.Class(budget.Fetch).Used(), 0, "bytes are still reserved")
	})
	return g
}

// read reads pieces. The caller checks and releases those with a chunk.
func (g *rig) read(t testing.TB, pieces ...broker.Piece) []broker.Piece {
	t.Helper()
	g.Read(t.Context(), &g.asked, pieces)
	for i := range pieces {
		if p := &pieces[i]; (p.Release == nil) == (p.Err == nil) {
			t.Fatalf("piece %d has neither or both: chunk %v, error %v", i, p.Release != nil, p.Err)
		}
	}
	return pieces
}

// catalog returns the test's answers, and counts the calls.
type catalog struct {
	missing          func(p *broker.Piece) (bool, error) // nil: the data should be there
	misses, damagees atomic.Int32
}

func (c *catalog) Missing(_ context.Context, p *broker.Piece) (bool, error) {
	c.misses.Add(1)
	if c.missing == nil {
		return false, nil
	}
	return c.missing(p)
}

// damageError is this catalog's error for damage.
type damageError struct {
	part int
	err  error
}

func (e *damageError) Error() string { return fmt.Sprintf("damage in part %d: %v", e.part, e.err) }

func (c *catalog) Damaged(p *broker.Piece, err error) error {
	c.damagees.Add(1)
	return &damageError{p.Part, err}
}

// batch is one stored batch: its offsets, and its position in its run.
type batch struct {
	base, end int64
	pos, size int
}

// run is a partition's part of an object: its expected bytes.
type run struct {
	at      state.Range
	key     string
	bytes   []byte
	batches []batch
}

const epoch = 7

// newRun makes batches of about the given sizes: three records each, or one if that exceeds a MiB.
func newRun(t testing.TB, base int64, sizes ...int) *run {
	t.Helper()
	r := &run{at: state.Range{Base: base, Epoch: epoch}}
	next := base
	for i, size := range sizes {
		recs := make([]record.Record, 3)
		if size > record.BatchTarget*9/10 {
			recs = recs[:1]
		}
		for j := range recs {
			recs[j] = record.Record{Timestamp: 1000, Value: []byte(strings.Repeat(string(rune('a'+(i+j)%26)), size/len(recs)))}
		}
		b, sum, err := record.Append(nil, recs, record.EncodeOptions{})
		if err != nil || sum.Batches != 1 {
			t.Fatalf("%+v, %v", sum, err)
		}
		end := record.Patch(b, next, epoch)
		r.batches = append(r.batches, batch{next, end, len(r.bytes), len(b)})
		r.bytes = append(r.bytes, b...)
		next = end
	}
	r.at.Span, r.at.Records = uint32(next-base), uint32(next-base)
	return r
}

// put stores an object of adjacent runs, after other data.
func put(t testing.TB, s objstore.Store, slot uint64, runs ...*run) {
	t.Helper()
	key := fmt.Sprintf("object-%d", slot)
	parts := [][]byte{bytes.Repeat([]byte("head"), 50)}
	pos := len(parts[0])
	for _, r := range runs {
		r.key, r.at.Slot, r.at.Pos, r.at.Len = key, slot, uint32(pos), uint32(len(r.bytes))
		parts = append(parts, r.bytes)
		pos += len(r.bytes)
	}
	must.NoError(t, s.Put(context.Background(), key, objstore.NewBody(parts...)))
}

// whole returns a piece for all of a run.
func (r *run) whole(part int) broker.Piece { return r.from(part, r.at.Base, int64(r.at.Len)) }

// from returns a piece for a run from an offset on.
func (r *run) from(part int, offset, most int64) broker.Piece {
	return broker.Piece{Part: part, Range: r.at, Key: r.key, Offset: offset, Max: most}
}

// check compares a chunk with the stored data and returns its number of batches. The first batch
// must hold the wanted offset.
func (r *run) check(t testing.TB, p *broker.Piece) (n int) {
	t.Helper()
	must.NoErrorf(t, p.Err, "from offset %d", p.Offset)
	c := &p.Chunk
	first := -1
	for i, b := range r.batches {
		if b.base <= p.Offset && p.Offset < b.end && c.Section == nil || b.base == c.Base && c.Section != nil {
			first = i
		}
		if b.base >= c.Base && b.end <= c.End {
			n++
		}
	}
	if first < 0 || c.Base != r.batches[first].base || c.Base > p.Offset || c.End <= p.Offset || n == 0 {
		t.Fatalf("from offset %d: offsets [%d,%d)", p.Offset, c.Base, c.End)
	}
	last := r.batches[first+n-1]
	want := r.bytes[r.batches[first].pos : last.pos+last.size]
	got := content(t, c)
	if last.end != c.End || !bytes.Equal(got, want) || c.Size != int64(len(want)) || c.Records != c.End-c.Base || !c.Verified {
		t.Fatalf("from offset %d: %d bytes [%d,%d), size %d, %d records, want %d bytes to offset %d",
			p.Offset, len(got), c.Base, c.End, c.Size, c.Records, len(want), last.end)
	}
	if size := int64(r.batches[first].size); c.Section == nil && c.Size > max(p.Max, size) {
		t.Fatalf("%d bytes, limit %d, first batch %d", c.Size, p.Max, size)
	}
	return n
}

func content(t testing.TB, c *broker.Chunk) []byte {
	t.Helper()
	if c.Section == nil {
		return bytes.Join(c.Parts, nil)
	}
	b := must.Get(io.ReadAll(c.Section))(t)
	return b
}
