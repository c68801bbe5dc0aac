package broker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// TestDamageIsNotReturned: each kind of damage is detected, read again and reported, in a request
// of its own or together with another range. Batches before it and other ranges are unaffected.
func TestDamageIsNotReturned(t *testing.T) {
	for _, size := range []int{5000, 100_000} { // adjacent ranges in one request, and separate ones
		for _, c := range []struct {
			name string
			// second: start of the first run's second batch
			change func(b []byte, second int) []byte
			bad    [2]bool // runs
			// readable batches of the first run
			before int
		}{
			{"bit in a value", func(b []byte, _ int) []byte { b[400] ^= 4; return b }, [2]bool{true, false}, 0},
			{"bit in the second batch", func(b []byte, n int) []byte { b[n+200] ^= 4; return b }, [2]bool{true, false}, 1},
			{"base offset of the second", func(b []byte, n int) []byte { b[n+7] ^= 1; return b }, [2]bool{true, false}, 1},
			{"epoch of the second", func(b []byte, n int) []byte { b[n+15] ^= 8; return b }, [2]bool{true, false}, 1},
			{"second batch is longer", func(b []byte, n int) []byte { b[n+9] ^= 1; return b }, [2]bool{true, false}, 0},
			{"second batch has the largest length", func(b []byte, n int) []byte { b[n+8] = 0x7f; return b }, [2]bool{true, false}, 0},
			{"second batch has length 0", func(b []byte, n int) []byte { clear(b[n+8 : n+12]); return b }, [2]bool{true, false}, 0},
			{"truncated in the last batch", func(b []byte, _ int) []byte { return b[:len(b)-1] }, [2]bool{false, true}, 0},
			{"truncated in the second batch", func(b []byte, n int) []byte { return b[:n+100] }, [2]bool{true, true}, 0},
			{"empty", func([]byte, int) []byte { return []byte{} }, [2]bool{true, true}, 0},
			{"missing", func([]byte, int) []byte { return nil }, [2]bool{true, true}, 0},
		} {
			t.Run(fmt.Sprintf("%d/%s", size, c.name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := objstore.NewMemory()
					first, other := newRun(t, 0, size, size, size), newRun(t, 500, size, size)
					put(t, s, 1, first, other)
					replace(t, s, first.key, func(b []byte) []byte { return c.change(b, int(first.at.Pos)+first.batches[1].pos) })
					g := rangesOpen(t, s, 64<<20, false)
					for i, p := range g.read(t, first.whole(0), other.whole(1)) {
						expectDamage(t, []*run{first, other}[i], &p, c.bad[i])
					}
					check.Equalf(t, int(g.asked.damagees.Load()), count(c.bad), "reports")
					if c.before > 0 {
						p := g.read(t, first.from(0, 0, 1))[0]
						check.Equalf(t, first.check(t, &p), c.before, "batches before the damage")
						p.Release()
					}
				})
			})
		}
	}
}

func count(bad [2]bool) (n int) {
	for _, b := range bad {
		if b {
			n++
		}
	}
	return n
}

func expectDamage(t *testing.T, r *run, p *broker.Piece, bad bool) {
	t.Helper()
	var d *damageError
	switch {
	case !bad:
		r.check(t, p)
		p.Release()
	case !errors.As(p.Err, &d) || d.part != p.Part || d.err.Error() == "":
		t.Errorf("part %d: %v", p.Part, p.Err)
	}
}

// replace replaces an object's bytes; nil deletes it.
func replace(t testing.TB, s objstore.Store, key string, change func([]byte) []byte) {
	t.Helper()
	ctx := context.Background()
	o := must.Get(s.Get(ctx, key, objstore.Range{Length: -1}))(t)
	b, err := io.ReadAll(o.Body)
	o.Body.Close()
	if err == nil {
		err = s.Delete(ctx, key)
	}
	if b = change(b); b != nil && err == nil {
		err = s.Put(ctx, key, objstore.NewBody(b))
	}
	must.NoError(t, err)
}

// TestEveryBitCounts: a flipped bit of a range is always detected. The only exception is a bit that
// makes a batch's epoch older than its object's, because a batch that was stored again has an older
// epoch.
func TestEveryBitCounts(t *testing.T) {
	r := newRun(t, 3, 30, 30)
	for bit := range len(r.bytes) * 8 {
		synctest.Test(t, func(t *testing.T) {
			s := objstore.NewMemory()
			bad := *r
			bad.bytes = slices.Clone(r.bytes)
			bad.bytes[bit/8] ^= 1 << (bit % 8)
			put(t, s, 1, &bad)
			g := rangesOpen(t, s, 16<<20, false)
			p := g.read(t, bad.whole(0))[0]
			if p.Err != nil {
				return
			}
			defer p.Release()
			at := bit / 8
			if at >= r.batches[1].pos {
				at -= r.batches[1].pos
			}
			if at < 12 || at > 15 || !bytes.Equal(content(t, &p.Chunk), bad.bytes) {
				t.Errorf("bit %d of byte %d of a batch: not detected", bit%8, at)
			}
		})
	}
}

// TestTransferDamageIsReadAgain: bytes that are wrong only once are not damage, alone or in a run
// of ranges.
func TestTransferDamageIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &flipping{Store: objstore.NewMemory()}
		a, b, large := newRun(t, 0, 1000), newRun(t, 0, 1000), newRun(t, 0, 100_000, 100_000)
		put(t, s, 1, a, b)
		put(t, s, 2, large)
		g := rangesOpen(t, s, 64<<20, false)
		runs := []*run{a, b, large}
		for i, p := range g.read(t, a.whole(0), b.whole(1), large.whole(2)) {
			runs[i].check(t, &p)
			p.Release()
		}
		check.Equalf(t, g.asked.damagees.Load(), 0, "reports of damage")
	})
}

// flipping damages the last byte of the first response for each object.
type flipping struct {
	objstore.Store
	mu   sync.Mutex
	seen map[string]bool
}

func (s *flipping) Get(ctx context.Context, key string, r objstore.Range) (objstore.Object, error) {
	obj, err := s.Store.Get(ctx, key, r)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil || s.seen[key] {
		return obj, err
	}
	if s.seen == nil {
		s.seen = map[string]bool{}
	}
	s.seen[key] = true
	b, err := io.ReadAll(obj.Body)
	if err != nil {
		return obj, err
	}
	b[len(b)-1] ^= 1
	obj.Body = io.NopCloser(bytes.NewReader(b))
	return obj, nil
}

// TestRefusedRangeBeyondTheEnd: some stores refuse a range beyond the end like a request without
// access. The object's size shows that it is damage.
func TestRefusedRangeBeyondTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &rangesHooked{Store: objstore.NewMemory()}
		r := newRun(t, 0, 1000)
		put(t, s, 1, r)
		replace(t, s, r.key, func(b []byte) []byte { return b[:20] })
		stranger := false
		s.onGet = func(_ context.Context, _ string, at objstore.Range) error {
			if at.Offset > 0 || stranger {
				return objstore.ErrRefused
			}
			return nil
		}
		g := rangesOpen(t, s, 64<<20, false)
		var d *damageError
		if p := g.read(t, r.whole(0))[0]; !errors.As(p.Err, &d) {
			t.Errorf("an object that is too short: %v", p.Err)
		}
		stranger = true
		var e *broker.StoreError
		if p := g.read(t, r.whole(0))[0]; !errors.As(p.Err, &e) || !errors.Is(p.Err, objstore.ErrRefused) {
			t.Errorf("a store that refuses all: %v", p.Err)
		}
	})
}

// TestMissingObject: the reader uses the catalog's answer for a missing object.
func TestMissingObject(t *testing.T) {
	gone := errors.New("below the start")
	for _, share := range []bool{false, true} {
		for _, c := range []struct {
			name    string
			moves   int   // how often the data moves
			err     error // the catalog's error after the moves
			want    error // nil: the data
			misses  int32
			reports int32
		}{
			{name: "moved once", moves: 1, misses: 1},
			{name: "moved three times", moves: 3, misses: 3},
			{name: "moves permanently", moves: 1000, want: &broker.StoreError{}, misses: 3},
			{name: "gone", err: gone, want: gone, misses: 1},
			{name: "moved, then gone", moves: 1, err: gone, want: gone, misses: 2},
			{name: "should be there", want: &damageError{}, misses: 1, reports: 1},
		} {
			t.Run(fmt.Sprintf("%s, share %v", c.name, share), func(t *testing.T) {
				s := objstore.NewMemory()
				g := rangesOpen(t, s, 64<<20, share)
				r := newRun(t, 0, 1000)
				put(t, s, 9, newRun(t, 0, 200), r) // at another position in its new object
				p := r.whole(0)
				p.Range.Pos, p.Range.Slot, p.Key = 3, 0, "moved-0"
				moves := 0
				g.asked.missing = func(p *broker.Piece) (bool, error) {
					if p.Key != fmt.Sprintf("moved-%d", moves) {
						t.Errorf("asked about %s after %d moves", p.Key, moves)
					}
					if moves++; moves > c.moves || c.moves == 0 {
						return false, c.err
					}
					p.Range.Slot, p.Key = uint64(moves), fmt.Sprintf("moved-%d", moves)
					if moves == c.moves && c.err == nil {
						p.Range, p.Key = r.at, r.key
					}
					return true, nil
				}
				p = g.read(t, p)[0]
				if c.want == nil {
					r.check(t, &p)
					p.Release()
				} else if !sameKind(p.Err, c.want) {
					t.Errorf("%v, want %T", p.Err, c.want)
				}
				if m, d := g.asked.misses.Load(), g.asked.damagees.Load(); m != c.misses || d != c.reports {
					t.Errorf("asked %d times, %d reports; want %d and %d", m, d, c.misses, c.reports)
				}
			})
		}
	}
}

// sameKind reports whether err is want, or has its type.
func sameKind(err, want error) bool {
	switch want.(type) {
	case *broker.StoreError:
		var e *broker.StoreError
		return errors.As(err, &e)
	case *damageError:
		var e *damageError
		return errors.As(err, &e)
	}
	return errors.Is(err, want)
}

// truncating truncates bodies, and does not return sizes.
type truncating struct {
	objstore.Store
	end  error // instead of io.EOF, if not nil
	left int   // responses to truncate
}

func (s *truncating) Get(ctx context.Context, key string, r objstore.Range) (objstore.Object, error) {
	obj, err := s.Store.Get(ctx, key, r)
	obj.Size = -1
	if s.left--; err != nil || s.left < 0 {
		return obj, err
	}
	defer obj.Body.Close()
	b, err := io.ReadAll(obj.Body)
	end := io.MultiReader()
	if s.end != nil {
		end = iotest.ErrReader(s.end)
	}
	obj.Body = io.NopCloser(io.MultiReader(bytes.NewReader(b[:len(b)/2]), end))
	return obj, err
}

// TestTruncatedBodies: a plain end is damage, an error is a store error; both are read again.
func TestTruncatedBodies(t *testing.T) {
	lost := fmt.Errorf("%w: %w", objstore.ErrNoVerdict, io.ErrUnexpectedEOF)
	for _, c := range []struct {
		name   string
		end    error
		left   int
		damage bool // else an error of the store
	}{
		{"twice", nil, 2, false},
		{"always", nil, 1 << 30, true},
		{"error twice", lost, 2, false},
		{"error always", lost, 1 << 30, false},
	} {
		for _, ranged := range []int{1, 2} { // alone, and first in a run
			t.Run(fmt.Sprintf("%s, %d", c.name, ranged), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := &truncating{Store: objstore.NewMemory(), end: c.end, left: c.left}
					runs := []*run{newRun(t, 0, 1000), newRun(t, 0, 1000)}
					put(t, s, 1, runs...)
					g := rangesOpen(t, s, 64<<20, false)
					for i, p := range g.read(t, []broker.Piece{runs[0].whole(0), runs[1].whole(1)}[:ranged]...) {
						var e *broker.StoreError
						switch {
						case c.left == 2:
							runs[i].check(t, &p)
							p.Release()
						case c.damage:
							expectDamage(t, runs[i], &p, true)
						case !errors.As(p.Err, &e) || !errors.Is(p.Err, objstore.ErrNoVerdict):
							t.Errorf("%v", p.Err)
						}
					}
				})
			})
		}
	}
}

// TestRangeThatDiffersFromTheState: batches and range must end at the same position, and the offset
// must be in one of the batches.
func TestRangeThatDiffersFromTheState(t *testing.T) {
	for name, change := range map[string]func(p *broker.Piece, r *run){
		"more offsets":      func(p *broker.Piece, _ *run) { p.Range.Span++ },
		"fewer offsets":     func(p *broker.Piece, _ *run) { p.Range.Span-- },
		"another beginning": func(p *broker.Piece, _ *run) { p.Range.Base++; p.Range.Span-- },
		"fewer bytes":       func(p *broker.Piece, _ *run) { p.Range.Len-- },
		"fewer batches":     func(p *broker.Piece, r *run) { p.Range.Len -= uint32(r.batches[2].size) },
		"an older epoch":    func(p *broker.Piece, _ *run) { p.Range.Epoch-- },
		"another place":     func(p *broker.Piece, _ *run) { p.Range.Pos-- },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := objstore.NewMemory()
				r := newRun(t, 10, 100, 100, 100)
				put(t, s, 1, r)
				g := rangesOpen(t, s, 16<<20, false)
				p := r.from(0, 18, 1<<20)
				change(&p, r)
				p = g.read(t, p)[0]
				expectDamage(t, r, &p, true)
			})
		})
	}
}

// TestRangeThatEndsInAHeader: a remainder that is shorter than a batch header is damage. It does
// not cause endless reads.
func TestRangeThatEndsInAHeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &rangesHooked{Store: objstore.NewMemory()}
		s.onGet = func(context.Context, string, objstore.Range) error {
			if s.gets.Load() >= 100 {
				return objstore.ErrNoVerdict
			}
			return nil
		}
		r := newRun(t, 10, 100, 100)
		put(t, s, 1, r)
		g := rangesOpen(t, s, 16<<20, false)
		p := r.from(0, 13, 1<<20)
		p.Range.Len = uint32(r.batches[0].size + record.BatchHeadSize - 1)
		p = g.read(t, p)[0]
		expectDamage(t, r, &p, true)
	})
}

// FuzzRead: no input causes a panic or leaks memory. Every result is whole consecutive batches of
// the range with valid checksums, and the first holds the offset.
func FuzzRead(f *testing.F) {
	r := newRun(f, 5, 30, 300, 90)
	f.Add(r.bytes, uint32(9), int64(8), int64(1000))
	f.Add(r.bytes, uint32(9), int64(5), int64(1))
	f.Add(r.bytes[r.batches[0].size:], uint32(6), int64(13), int64(50))
	f.Add(r.bytes[:70], uint32(3), int64(6), int64(0))
	f.Fuzz(func(t *testing.T, b []byte, span uint32, offset, most int64) {
		if len(b) == 0 || offset < 5 || offset >= 5+int64(span) {
			return
		}
		synctest.Test(t, func(t *testing.T) {
			s := objstore.NewMemory()
			put(t, s, 1, &run{bytes: b})
			g := rangesOpen(t, s, 16<<20, false)
			stored := run{at: state.Range{Base: 5, Span: span, Records: span, Epoch: epoch, Slot: 1, Pos: 200, Len: uint32(len(b))}, key: "object-1"}
			p := g.read(t, stored.from(0, offset, most))[0]
			if p.Err != nil {
				return
			}
			defer p.Release()
			got := content(t, &p.Chunk)
			sum, err := record.Verify(got)
			c := &p.Chunk
			if err != nil || sum.Span != c.End-c.Base || int64(len(got)) != c.Size || record.Batch(got).BaseOffset() != c.Base ||
				c.Base < 5 || c.Base > offset || c.End <= offset || c.End > 5+int64(span) || !bytes.Contains(b, got) {
				t.Fatalf("%+v: %+v, %v", c, sum, err)
			}
		})
	})
}
