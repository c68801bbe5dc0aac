package cache

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// part is the extent of n blocks of 1,000 bytes from block first on.
func part(key string, first, n int64) objstore.Extent {
	return objstore.Extent{Key: key, Range: objstore.Range{Offset: first * 1000, Length: n * 1000}}
}

// settled waits until no request reads ahead.
func settled(c *Cache) {
	for running := true; running; runtime.Gosched() {
		c.mu.Lock()
		running = c.ahead > 0
		c.mu.Unlock()
	}
}

// TestAheadIsFewLargeRequests: the blocks of the window come in large requests, once. Reads then need
// no request.
func TestAheadIsFewLargeRequests(t *testing.T) {
	b, data := newBucket(), pattern(29_500, 1)
	b.fill(t, "a", data)
	c := mustTune(t, t.TempDir(), b, options(), tuning{block: 1000, openMax: openMax})
	next := []objstore.Extent{part("a", 2, 27)}
	next[0].Range.Length += 500
	for i, step := range []struct {
		wanted, window int64
		local          bool
		gets           []string
	}{
		{2000, 0, false, nil},
		{1000, 1000, false, []string{"a 2000+3000"}},
		{2000, 0, true, nil},
		{3000, 14_000, false, []string{"a 5000+12000"}}, // blocks 17 to 19 are fewer than a quarter of the window
		{3000, 17_000, true, []string{"a 17000+6000"}},  // up to block 22
		{3000, 20_000, true, nil},                       // 23 to 25 wait
		{3000, 99_000, true, []string{"a 23000+7000"}},  // the end of the extent
		{27_000, 99_000, true, nil},
	} {
		check.Equalf(t, c.FetchAhead(next, step.wanted, step.window), step.local, "step %d: local", i)
		settled(c)
		check.EqualSlicesf(t, b.asked(), step.gets, "step %d: requests", i)
	}
	got, _, err := read(t.Context(), c, "a", objstore.Range{Offset: 2000, Length: 27_500})
	if err != nil || string(got) != string(data[2000:]) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if gets := b.asked(); len(gets) > 0 {
		t.Errorf("reads of what was fetched ahead sent %q", gets)
	}
	if s := c.Stats(); s.Ahead != 4 || s.Requests != 4 || s.Filled != 28 {
		t.Errorf("%+v", s)
	}
}

// TestAheadIsBounded: requests that read ahead take an eighth of a class, leave a quarter of it free,
// and leave three quarters of the cache to what was read before.
func TestAheadIsBounded(t *testing.T) {
	b := newBucket()
	b.fill(t, "a", pattern(190_000, 1))
	class := budget.New(64 << 20).Class(budget.Fetch)
	o := options()
	o.Ahead = class
	var inFlight, most atomic.Int64
	gate := make(chan struct{})
	b.before = func(context.Context, string) error {
		most.Store(max(most.Load(), inFlight.Add(1)))
		<-gate
		inFlight.Add(-1)
		return nil
	}
	c := mustTune(t, t.TempDir(), b, o, tuning{block: 1000, openMax: openMax})
	all := []objstore.Extent{part("a", 0, 190)}
	c.FetchAhead(all, 1000, 1<<20)
	want := class.Limit() / aheadShare / aheadBytes
	if used := class.Used(); used != want*aheadBytes || want < 4 {
		t.Errorf("%d bytes reserved, want %d requests", used, want)
	}
	c.FetchAhead(all, 1000, 1<<20)
	close(gate)
	settled(c)
	if n := len(b.asked()); n != int(want) || class.Used() != 0 {
		t.Errorf("%d requests, want %d; then %d bytes reserved", n, want, class.Used())
	}

	readers := must.Get(class.Reserve(class.Limit() / 4 * 3))(t)
	c.FetchAhead(all, 1000, 1<<20)
	check.Equalf(t, len(b.asked()), 0, "requests while readers hold three quarters of the memory")
	if got, _, err := read(t.Context(), c, "a", objstore.Range{Offset: 150_000, Length: 10}); err != nil || len(got) != 10 {
		t.Errorf("a read without read-ahead: %d bytes, %v", len(got), err)
	}
	readers.Release()
	b.asked()

	o.Bytes = 40 * pageBytes // a block takes a page
	c = mustTune(t, t.TempDir(), b, o, tuning{block: pageBytes, openMax: openMax})
	c.FetchAhead(all, 1000, 1<<20)
	settled(c)
	if s := c.Stats(); s.Filled != 10 || s.Evicted != 0 {
		t.Errorf("%d blocks of a cache of 40 were fetched ahead, %d evicted", s.Filled, s.Evicted)
	}
}

// TestCloseCancelsAhead: Close does not wait for the store.
func TestCloseCancelsAhead(t *testing.T) {
	b := newBucket()
	b.fill(t, "a", pattern(50_000, 1))
	b.before = func(ctx context.Context, _ string) error {
		<-ctx.Done()
		return fmt.Errorf("%w: %w", objstore.ErrNoVerdict, ctx.Err())
	}
	class := budget.New(64 << 20).Class(budget.Fetch)
	o := options()
	o.Ahead = class
	c := mustTune(t, t.TempDir(), b, o, tuning{block: 1000, openMax: openMax})
	c.FetchAhead([]objstore.Extent{part("a", 0, 50)}, 1000, 1<<20)
	mustClose(t, c)
	check.Equalf(t, class.Used(), 0, "bytes are reserved after Close")
	c.FetchAhead([]objstore.Extent{part("a", 0, 50)}, 1000, 1<<20)
	if class.Used() != 0 {
		t.Errorf("a closed cache reserves %d bytes", class.Used())
	}
}

// TestFailedAheadDoesNotFailReads: a reader that waits for a request that fails asks the store.
func TestFailedAheadDoesNotFailReads(t *testing.T) {
	b, data := newBucket(), pattern(5000, 1)
	b.fill(t, "a", data)
	waits, first := make(chan struct{}), true
	b.before = func(context.Context, string) error {
		if !first {
			return nil
		}
		first = false
		<-waits
		return fmt.Errorf("%w: reset", objstore.ErrNoVerdict)
	}
	c := mustTune(t, t.TempDir(), b, options(), tuning{block: 1000, openMax: openMax})
	c.FetchAhead([]objstore.Extent{part("a", 0, 5)}, 1000, 4000)
	done := make(chan error)
	go func() {
		got, _, err := read(context.Background(), c, "a", objstore.Whole)
		if err == nil && string(got) != string(data) {
			err = fmt.Errorf("%d bytes with other content", len(got))
		}
		done <- err
	}()
	for c.Stats().Misses == 0 {
		runtime.Gosched() // until the reader has joined the request
	}
	close(waits)
	check.NoError(t, <-done)
}

// TestAheadStopsWithABrokenDisk: bytes that cannot be kept are not fetched ahead, because a reader
// would have to ask for them again.
func TestAheadStopsWithABrokenDisk(t *testing.T) {
	b, data := newBucket(), pattern(50_000, 1)
	b.fill(t, "a", data)
	c := mustTune(t, t.TempDir(), b, options(), tuning{block: 1000, openMax: openMax, hook: func(step string) error {
		if step == "create" {
			return errors.New("no space")
		}
		return nil
	}})
	for range 3 {
		c.FetchAhead([]objstore.Extent{part("a", 0, 10)}, 1000, 9000)
		settled(c)
	}
	if gets := b.asked(); len(gets) != 1 {
		t.Errorf("requests %q, want 1", gets)
	}
	want(t, c, "a", data)
}
