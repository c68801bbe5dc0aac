package broker_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// TestPiecesMatchTheStore: for random offsets and sizes, from memory, file sections and shared
// reads, each piece is the stored batches from the one that holds its offset.
func TestPiecesMatchTheStore(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for _, share := range []bool{false, true} {
		t.Run(fmt.Sprintf("share %v", share), func(t *testing.T) {
			rangesStores(t, func(t *testing.T, s objstore.Store) {
				rnd := rand.New(rand.NewPCG(seed, 1))
				var all []*run
				for slot := range uint64(sebtest.Runs(4, 2)) {
					var runs []*run
					for range 1 + rnd.IntN(4) {
						sizes := make([]int, 1+rnd.IntN(20))
						for i := range sizes {
							sizes[i] = []int{3, 300, 3000, 30_000, 150_000}[rnd.IntN(5)]
						}
						runs = append(runs, newRun(t, rnd.Int64N(1000), sizes...))
					}
					put(t, s, slot, runs...)
					all = append(all, runs...)
				}
				sections := readRandom(t, rangesOpen(t, s, 256<<20, share), all, rnd)
				if _, files := s.(*objstore.Disk); (sections > 0) != (files && !share) {
					t.Errorf("%d sections of files", sections)
				}
			})
		})
	}
}

func readRandom(t *testing.T, g *rig, all []*run, rnd *rand.Rand) (sections int) {
	for range sebtest.Runs(150, 50) {
		var pieces []broker.Piece
		var of []*run
		for part := range 1 + rnd.IntN(5) {
			r := all[rnd.IntN(len(all))]
			of = append(of, r)
			if rnd.IntN(3) == 0 {
				pieces = append(pieces, r.whole(part))
				continue
			}
			most := []int64{0, 1, 500, 50_000, 300_000, 10 << 20}[rnd.IntN(6)]
			pieces = append(pieces, r.from(part, r.at.Base+rnd.Int64N(int64(r.at.Span)), most))
		}
		for i, p := range g.read(t, pieces...) {
			of[i].check(t, &p)
			if p.Chunk.Section != nil {
				sections++
			}
		}
		for i := range pieces {
			pieces[i].Release()
		}
	}
	return sections
}

// TestAdjacentRangesAreOneRequest: small adjacent ranges are read together, whatever their part;
// others are not.
func TestAdjacentRangesAreOneRequest(t *testing.T) {
	s := &rangesHooked{Store: objstore.NewMemory()}
	g := rangesOpen(t, s, 64<<20, false)
	var runs []*run
	for i := range 6 {
		runs = append(runs, newRun(t, int64(100*i), 1000, 2000))
	}
	large := newRun(t, 0, 50_000) // better read as a section of a file
	put(t, s, 1, runs[0], runs[1], runs[2], large, runs[3])
	put(t, s, 2, runs[4], runs[5])
	for _, c := range []struct {
		name   string
		pieces []broker.Piece
		gets   int64
	}{
		{"two objects, in any order", []broker.Piece{
			runs[5].whole(0), runs[2].whole(1), runs[0].whole(2), runs[4].whole(3), runs[1].whole(4),
		}, 2},
		{"a gap between them", []broker.Piece{runs[0].whole(0), runs[2].whole(1)}, 2},
		{"a large one between them", []broker.Piece{runs[2].whole(0), large.whole(1), runs[3].whole(2)}, 3},
		{"the second from its middle", []broker.Piece{runs[0].whole(0), runs[1].from(1, 103, 1<<20)}, 2},
		{"only the beginning of the first", []broker.Piece{runs[0].from(0, 0, 1), runs[1].whole(1)}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := s.gets.Load()
			for i, p := range g.read(t, c.pieces...) {
				for _, r := range append(runs, large) {
					if r.at == p.Range {
						r.check(t, &c.pieces[i])
					}
				}
			}
			check.Equalf(t, s.gets.Load()-before, c.gets, "requests")
			for _, p := range c.pieces { // each piece keeps the shared memory
				p.Release()
			}
		})
	}
}

// TestRunSizeIsBounded: one request for several pieces has a maximum size, because all its memory
// is reserved at once.
func TestRunSizeIsBounded(t *testing.T) {
	s := &rangesHooked{Store: objstore.NewMemory()}
	g := rangesOpen(t, s, 256<<20, false)
	var runs []*run
	var pieces []broker.Piece
	for range 300 { // 6 MB
		runs = append(runs, newRun(t, 0, 20_000))
	}
	put(t, s, 1, runs...)
	for i, r := range runs {
		pieces = append(pieces, r.whole(i))
	}
	for i, p := range g.read(t, pieces...) {
		runs[i].check(t, &p)
		p.Release()
	}
	check.Equalf(t, s.gets.Load(), 2, "requests for 6 MB")
}

// TestSettledPiecesAreNotRead: pieces that have a chunk or an error are not read.
func TestSettledPiecesAreNotRead(t *testing.T) {
	s := &rangesHooked{Store: objstore.NewMemory()}
	g := rangesOpen(t, s, 64<<20, false)
	a, b, c := newRun(t, 0, 100), newRun(t, 50, 100), newRun(t, 90, 100)
	put(t, s, 1, a, b, c)
	pieces := []broker.Piece{a.whole(0), b.whole(1), c.whole(2)}
	released := 0
	pieces[0].Finish(broker.Chunk{Base: 0, End: 3, Size: 1}, func() { released++ })
	gone := errors.New("gone")
	pieces[1].Err = gone
	g.read(t, pieces...)
	if n := s.gets.Load(); n != 1 || !errors.Is(pieces[1].Err, gone) || pieces[0].Chunk.Size != 1 || released != 0 {
		t.Errorf("%d requests, %v, %+v", n, pieces[1].Err, pieces[0].Chunk)
	}
	c.check(t, &pieces[2])
	pieces[2].Release()
}

// TestFarBatchTakesFewRequests: batch boundaries of a large range are unknown before the first
// read. A batch at its end is found in few, growing steps; the second read goes there directly.
func TestFarBatchTakesFewRequests(t *testing.T) {
	rangesStores(t, func(t *testing.T, inner objstore.Store) {
		s := &rangesHooked{Store: inner}
		g := rangesOpen(t, s, 64<<20, false)
		sizes := make([]int, 500)
		for i := range sizes {
			sizes[i] = 16 << 10
		}
		r := newRun(t, 0, sizes...)
		put(t, s, 1, r)
		for i, most := range []int64{8, 1} {
			before := s.gets.Load()
			p := g.read(t, r.from(0, r.at.End()-1, 1))[0]
			r.check(t, &p)
			p.Release()
			if n := s.gets.Load() - before; n > most {
				t.Errorf("read %d of the last of 500 batches: %d requests, want at most %d", i+1, n, most)
			}
		}
	})
}

// TestSectionsEndAtBatches: a section holds only verified and wanted batches, plus the rest of its
// first segment. It stays valid until it is released.
func TestSectionsEndAtBatches(t *testing.T) {
	s := rangesDisk(t)
	g := rangesOpen(t, s, 64<<20, false)
	r := newRun(t, 10, 40_000, 40_000, 40_000, 100_000, 40_000)
	put(t, s, 1, r)
	p := g.read(t, r.whole(0))[0]
	if n := r.check(t, &p); n != 5 || p.Chunk.Section != nil {
		t.Fatalf("the first read: %d batches, section %v", n, p.Chunk.Section)
	}
	p.Release()
	sections(t, g, r)
}

// sections reads a run of batches of 40, 40, 40, 100 and 40 KB from offset 10 on, all as sections.
func sections(t *testing.T, g *rig, r *run) {
	t.Helper()
	for _, c := range []struct {
		offset, most int64
		batches      int
	}{{10, 1 << 20, 5}, {10, 100_000, 2}, {14, 1, 1}, {18, 140_000, 1}, {19, 200_000, 2}} {
		p := g.read(t, r.from(0, c.offset, c.most))[0]
		if n := r.check(t, &p); n != c.batches || p.Chunk.Section == nil {
			t.Errorf("from offset %d %d bytes: %d batches, want %d; section %v", c.offset, c.most, n, c.batches, p.Chunk.Section != nil)
		}
		p.Release()
	}
	check.Equalf(t, g.budget.Class(budget.Fetch).Used(), 0, "bytes are reserved for sections")
}

// TestWrittenRangesNeedNoCheck: the first read of a range that this process has stored is a
// section, with the same ends. A range that is too small for a section is not added to the index,
// and a reader with Share returns no sections.
func TestWrittenRangesNeedNoCheck(t *testing.T) {
	s := rangesDisk(t)
	r, little := newRun(t, 10, 40_000, 40_000, 40_000, 100_000, 40_000), newRun(t, 0, 1000)
	put(t, s, 1, r, little)
	cut := r.batches[3].pos
	tell := func(g *rig) {
		at := broker.ObjectRange{Source: r.at.Source(), Base: r.at.Base, Len: r.at.Len}
		g.Written(at, func() [][]byte { return [][]byte{r.bytes[:cut], r.bytes[cut:]} })
		g.Written(broker.ObjectRange{Source: little.at.Source(), Base: 0, Len: little.at.Len}, func() [][]byte { return [][]byte{little.bytes} })
	}
	g := rangesOpen(t, s, 64<<20, false)
	tell(g)
	sections(t, g, r)
	shared := rangesOpen(t, s, 64<<20, true)
	tell(shared)
	for _, p := range []broker.Piece{g.read(t, little.whole(0))[0], shared.read(t, r.whole(0))[0]} {
		if p.Chunk.Section != nil || !p.Chunk.Verified {
			t.Errorf("%+v", p.Chunk)
		}
		p.Release()
	}
}

// TestMemoryIsBounded: pieces that do not fit get ErrOverBudget. A part's first piece is never
// refused in favor of a later one of that part, and not all pieces are refused.
func TestMemoryIsBounded(t *testing.T) {
	s := objstore.NewMemory()
	g := rangesOpen(t, s, 20<<20, false)
	class := g.budget.Class(budget.Fetch) // 2.6 MiB
	var runs []*run
	for i := range 12 {
		runs = append(runs, newRun(t, int64(6*i), 900_000, 900_000))
		put(t, s, uint64(i), runs[i])
	}
	for range sebtest.Runs(20, 5) {
		var pieces []broker.Piece
		for i := range runs {
			pieces = append(pieces, runs[i].whole(i/6)) // two parts
		}
		refused := 0
		for i, p := range g.read(t, pieces...) {
			switch {
			case p.Err == nil:
				runs[i].check(t, &p)
				p.Release()
			case !errors.Is(p.Err, state.ErrOverBudget) || !errors.Is(p.Err, budget.ErrOver):
				t.Fatalf("piece %d: %v", i, p.Err)
			default:
				refused++
			}
		}
		if refused == 0 || refused == len(pieces) {
			t.Fatalf("%d of %d refused", refused, len(pieces))
		}
		for first := range 2 {
			for i, p := range pieces[6*first : 6*first+6] {
				if p.Err == nil && pieces[6*first].Err != nil {
					t.Fatalf("piece %d of part %d was read, but its first piece: %v", i, first, pieces[6*first].Err)
				}
			}
		}
	}
	if class.Peak() > class.Limit() {
		t.Errorf("%d bytes of %d were reserved", class.Peak(), class.Limit())
	}
	huge := newRun(t, 0, 3<<20)
	put(t, s, 100, huge)
	check.ErrorIsf(t, g.read(t, huge.whole(0))[0].Err, state.ErrOverBudget, "a batch larger than all memory")
}

// TestLessMemoryReturnsLess: with little memory, a piece returns its beginning.
func TestLessMemoryReturnsLess(t *testing.T) {
	s := objstore.NewMemory()
	g := rangesOpen(t, s, 16<<20, false)
	r := newRun(t, 0, 50_000, 50_000, 50_000, 50_000, 50_000, 50_000, 50_000, 50_000)
	put(t, s, 1, r)
	class := g.budget.Class(budget.Fetch)
	others := must.Get(class.Reserve(class.Limit() - 200_000))(t)
	p := g.read(t, r.whole(0))[0]
	if n := r.check(t, &p); n >= 8 {
		t.Errorf("%d batches in 200 kB", n)
	}
	p.Release()
	others.Release()
}

// TestStoreErrorIsRetried: a store error is retried, and then returned with the request.
func TestStoreErrorIsRetried(t *testing.T) {
	broken := fmt.Errorf("%w: reset", objstore.ErrNoVerdict)
	for name, failures := range map[string]int{"twice": 2, "always": 1 << 30} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				left := failures
				s := &rangesHooked{Store: objstore.NewMemory(), onGet: func(context.Context, string, objstore.Range) error {
					if left--; left >= 0 {
						return broken
					}
					return nil
				}}
				g := rangesOpen(t, s, 64<<20, false)
				r := newRun(t, 0, 1000)
				put(t, s, 1, r)
				p := g.read(t, r.whole(0))[0]
				if failures == 2 {
					r.check(t, &p)
					p.Release()
					return
				}
				var e *broker.StoreError
				if !errors.As(p.Err, &e) || !errors.Is(p.Err, broken) || !strings.HasPrefix(p.Err.Error(), "store unavailable: get object-1: ") {
					t.Errorf("%v", p.Err)
				}
				if g.asked.damagees.Load() != 0 || failures-left != 3 {
					t.Errorf("%d tries, %d reported as damaged", failures-left, g.asked.damagees.Load())
				}
			})
		})
	}
}

// TestEndOfContext: neither a hanging store nor a retry delays a reader whose context has ended.
func TestEndOfContext(t *testing.T) {
	for name, onGet := range map[string]func(context.Context, string, objstore.Range) error{
		"a store that hangs": func(ctx context.Context, _ string, _ objstore.Range) error {
			<-ctx.Done()
			return context.Cause(ctx)
		},
		"a store that fails": func(context.Context, string, objstore.Range) error { return objstore.ErrNoVerdict },
	} {
		for _, share := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, share %v", name, share), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := &rangesHooked{Store: objstore.NewMemory(), onGet: onGet}
					g := rangesOpen(t, s, 64<<20, share)
					r := newRun(t, 0, 1000)
					put(t, s, 1, r)
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
					defer cancel()
					begin := time.Now()
					pieces := []broker.Piece{r.whole(0)}
					g.Read(ctx, &g.asked, pieces)
					if took := time.Since(begin); pieces[0].Err == nil || took > 10*time.Millisecond {
						t.Errorf("%v after %s", pieces[0].Err, took)
					}
				})
			})
		}
	}
}

// TestBlocksThatEndAnywhere: a block that is read before batch boundaries are known may end inside
// a batch or its header.
func TestBlocksThatEndAnywhere(t *testing.T) {
	s := objstore.NewMemory()
	size := len(newRun(t, 0, 60_000).bytes)
	for d := 0; d < 80; d += sebtest.Runs(1, 3) {
		r := newRun(t, 0, 3*((60_000+broker.BlockMin-size-d)/3), 3*d, 110_000, 100)
		put(t, s, uint64(d), r)
		for offset := int64(2); offset < r.at.End(); offset += 3 { // in each batch
			g := rangesOpen(t, s, 64<<20, false) // with an empty index
			p := g.read(t, r.from(0, offset, 1))[0]
			r.check(t, &p)
			p.Release()
		}
	}
}
