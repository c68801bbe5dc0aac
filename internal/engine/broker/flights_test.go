package broker_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/check"
)

// held returns a store whose reads wait until the test closes proceed, or their context ends.
func held(s objstore.Store) (h *rangesHooked, proceed chan struct{}) {
	proceed = make(chan struct{})
	return &rangesHooked{Store: s, onGet: func(ctx context.Context, _ string, _ objstore.Range) error {
		select {
		case <-proceed:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}}, proceed
}

// TestEqualReadsAreOneRequest: a reader that leaves does not end the request of the others, and
// each reader holds the memory until it releases it.
func TestEqualReadsAreOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, proceed := held(objstore.NewMemory())
		g := rangesOpen(t, s, 64<<20, true)
		r := newRun(t, 0, 1000, 1000)
		put(t, s, 1, r)
		first, leave := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		pieces := make([][]broker.Piece, 20)
		for i := range pieces {
			pieces[i] = []broker.Piece{r.from(0, 4, 5000)}
			ctx := t.Context()
			if i%4 == 0 {
				ctx = first
			}
			wg.Go(func() { g.Read(ctx, &g.asked, pieces[i]) })
		}
		synctest.Wait()
		leave()
		synctest.Wait()
		close(proceed)
		wg.Wait()
		check.Equalf(t, s.gets.Load(), 1, "requests")
		for i := range pieces {
			p := &pieces[i][0]
			if i%4 == 0 {
				check.ErrorIsf(t, p.Err, context.Canceled, "a reader that left")
				continue
			}
			r.check(t, p)
			p.Release()
		}
	})
}

// TestDifferentReadsAreNotShared: another offset or another size is another request.
func TestDifferentReadsAreNotShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, proceed := held(objstore.NewMemory())
		g := rangesOpen(t, s, 64<<20, true)
		r := newRun(t, 0, 1000, 1000)
		put(t, s, 1, r)
		pieces := [][]broker.Piece{{r.from(0, 0, 5000)}, {r.from(0, 4, 5000)}, {r.from(0, 0, 1)}}
		var wg sync.WaitGroup
		for i := range pieces {
			wg.Go(func() { g.Read(t.Context(), &g.asked, pieces[i]) })
		}
		synctest.Wait()
		close(proceed)
		wg.Wait()
		for i, batches := range []int{2, 1, 1} {
			p := &pieces[i][0]
			if n := r.check(t, p); n != batches {
				t.Errorf("read %d has %d batches, want %d", i, n, batches)
			}
			p.Release()
		}
		check.Equalf(t, s.gets.Load(), 3, "requests")
	})
}

// TestRequestWithoutReadersIsCanceled: a later reader makes another request.
func TestRequestWithoutReadersIsCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, proceed := held(objstore.NewMemory())
		g := rangesOpen(t, s, 64<<20, true)
		r := newRun(t, 0, 1000)
		put(t, s, 1, r)
		ctx, leave := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				pieces := []broker.Piece{r.whole(0)}
				if g.Read(ctx, &g.asked, pieces); !errors.Is(pieces[0].Err, context.Canceled) {
					t.Errorf("%v", pieces[0].Err)
				}
			})
		}
		synctest.Wait()
		leave()
		wg.Wait()
		synctest.Wait()
		check.Equalf(t, g.budget.Class(budget.Fetch).Used(), 0, "bytes are still reserved")
		close(proceed)
		p := g.read(t, r.whole(0))[0]
		r.check(t, &p)
		p.Release()
	})
}

// TestRangesClose: Close ends reads under way, and later reads fail.
func TestRangesClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := held(objstore.NewMemory())
		g := rangesOpen(t, s, 64<<20, true)
		r := newRun(t, 0, 1000)
		put(t, s, 1, r)
		pieces := []broker.Piece{r.whole(0)}
		var wg sync.WaitGroup
		wg.Go(func() { g.Read(t.Context(), &g.asked, pieces) })
		synctest.Wait()
		g.Close()
		g.Close()
		wg.Wait()
		check.ErrorIsf(t, pieces[0].Err, broker.ErrClosed, "a waiting reader")
		check.ErrorIsf(t, g.read(t, r.whole(0))[0].Err, broker.ErrClosed, "after Close")
		check.Equalf(t, s.gets.Load(), 0, "requests")
	})
}

// TestReaderLeavesAsItsFlightFinishes: a reader that leaves after the flight has finished releases
// its share of the memory.
func TestReaderLeavesAsItsFlightFinishes(t *testing.T) {
	for range 100 { // select chooses randomly
		synctest.Test(t, func(t *testing.T) {
			s, proceed := held(objstore.NewMemory())
			g := rangesOpen(t, s, 16<<20, true)
			r := newRun(t, 0, 100)
			put(t, s, 1, r)
			ctx, leave := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			for i := range 4 {
				wg.Go(func() {
					pieces := []broker.Piece{r.whole(0)}
					if i == 0 {
						g.Read(t.Context(), &g.asked, pieces)
						r.check(t, &pieces[0])
					} else {
						g.Read(ctx, &g.asked, pieces)
					}
					if p := &pieces[0]; p.Err == nil {
						p.Release()
					} else if !errors.Is(p.Err, context.Canceled) {
						t.Errorf("%v", p.Err)
					}
				})
			}
			synctest.Wait()
			close(proceed)
			leave()
			wg.Wait()
		})
	}
}
