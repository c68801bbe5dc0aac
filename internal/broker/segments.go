package broker

import (
	"cmp"
	"container/list"
	"context"
	"slices"
	"sync"

	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/internal/sorting"
)

const (
	// segmentBytes is the granularity of the index. A reader that begins inside a segment gets it
	// from its beginning, and a section ends at the end of a segment.
	segmentBytes = 64 << 10
	// segmentsMax is the limit of the index, in segments: about 3 MiB.
	segmentsMax = 64 << 10
)

// segment is a run of whole batches of a range whose checksums were verified.
type segment struct {
	pos, size int64 // relative to the range's beginning
	base, end int64 // offsets
}

// segmentIndex records which parts of ranges were read and verified, and so where batches begin in
// them. Entries never become stale, because objects never change. Over its limit it evicts the
// ranges that were added first.
type segmentIndex struct {
	max int

	mu     sync.Mutex // guards the fields below
	count  int
	ranges map[state.Source]*rangeSegments
	order  list.List // of *rangeSegments, oldest first
}

type rangeSegments struct {
	key      state.Source
	segments []segment // ascending, none overlaps another
}

func newSegmentIndex(max int) *segmentIndex {
	return &segmentIndex{max: max, ranges: map[state.Source]*rangeSegments{}}
}

// find returns the adjacent verified segments from the one that holds offset on, until max bytes
// are reached or the range ends at end. It returns none if one of them is not known. near is then
// the known start of a batch at or before offset, where reading begins.
func (x *segmentIndex) find(key state.Source, base, end, offset, max int64) (known []segment, near segment) {
	x.mu.Lock()
	defer x.mu.Unlock()
	near = segment{base: base, end: base}
	r := x.ranges[key]
	if r == nil {
		return nil, near
	}
	i, _ := slices.BinarySearchFunc(r.segments, offset, func(s segment, o int64) int {
		if s.end <= o {
			return -1
		}
		return 1
	})
	// r.segments[i] is the first that ends after offset.
	if i > 0 {
		last := r.segments[i-1]
		near = segment{pos: last.pos + last.size, base: last.end, end: last.end}
	}
	if i == len(r.segments) || r.segments[i].base > offset {
		return nil, near
	}
	near = segment{pos: r.segments[i].pos, base: r.segments[i].base, end: r.segments[i].base}
	var bytes int64
	for next := near.base; next < end; i++ {
		if i == len(r.segments) || r.segments[i].base != next {
			return nil, near
		}
		s := r.segments[i]
		if len(known) > 0 && bytes+s.size > max {
			break
		}
		known = append(known, s)
		bytes += s.size
		next = s.end
	}
	return known, near
}

// add records verified segments, except those that overlap known ones.
func (x *segmentIndex) add(key state.Source, segments []segment) {
	x.mu.Lock()
	defer x.mu.Unlock()
	r := x.ranges[key]
	if r == nil {
		r = &rangeSegments{key: key}
		x.ranges[key] = r
		x.order.PushBack(r)
	}
	for _, s := range segments {
		i, found := slices.BinarySearchFunc(r.segments, s.pos, func(s segment, pos int64) int { return int(s.pos - pos) })
		if found || i > 0 && r.segments[i-1].end > s.base || i < len(r.segments) && r.segments[i].base < s.end {
			continue
		}
		r.segments = slices.Insert(r.segments, i, s)
		x.count++
	}
	for x.count > x.max {
		oldest := x.order.Remove(x.order.Front()).(*rangeSegments)
		delete(x.ranges, oldest.key)
		x.count -= len(oldest.segments)
	}
}

// runMax is the largest request for several pieces.
const runMax = 4 << 20

// runs groups pieces that are adjacent in one object and wanted as a whole, as those of a topic's
// partitions often are. Each group is read with one request.
func runs(pieces []*Piece) [][]*Piece {
	order := slices.Clone(pieces)
	slices.SortStableFunc(order, func(a, b *Piece) int {
		return cmp.Or(cmp.Compare(a.Range.Epoch, b.Range.Epoch), cmp.Compare(a.Range.Slot, b.Range.Slot), cmp.Compare(a.Range.Pos, b.Range.Pos))
	})
	var out [][]*Piece
	var bytes int64
	for i, p := range order {
		n := len(out) - 1
		if i > 0 && follows(order[i-1], p) && bytes+int64(p.Range.Len) <= runMax {
			out[n] = append(out[n], p)
			bytes += int64(p.Range.Len)
			continue
		}
		out = append(out, []*Piece{p})
		bytes = int64(p.Range.Len)
	}
	sorting.Stable(out, func(a, b []*Piece) int { return cmp.Compare(a[0].Part, b[0].Part) })
	return out
}

func follows(a, b *Piece) bool {
	return a.Key == b.Key && a.Range.Pos+a.Range.Len == b.Range.Pos && a.whole() && b.whole()
}

// whole reports whether all of a range is wanted, and is too small for a section of a file.
func (p *Piece) whole() bool {
	return p.Offset == p.Range.Base && p.Max >= int64(p.Range.Len) && p.Range.Len < sectionMin
}

// readRun reads the pieces of a run with one request. If that fails, it reads each piece
// separately.
func (r *Reader) readRun(ctx context.Context, where Catalog, run []*Piece) {
	if len(run) > 1 {
		if mem := r.readAdjacent(ctx, run); mem != nil {
			at := uint32(0)
			for _, p := range run {
				p.useBuffer(mem, mem.buf[at:at+p.Range.Len])
				at += p.Range.Len
			}
			mem.release()
		}
	}
	for _, p := range run {
		if p.Release == nil {
			r.readPiece(ctx, where, p)
		}
	}
}

// readAdjacent reads all pieces of a run into one buffer; nil on any error.
func (r *Reader) readAdjacent(ctx context.Context, run []*Piece) *memory {
	all := *run[0]
	all.Range.Len = 0
	for _, p := range run {
		all.Range.Len += p.Range.Len
	}
	size := int64(all.Range.Len)
	mem, err := r.reserve(size, size)
	if err != nil {
		return nil
	}
	ctx, cancel := r.timeout(ctx, size)
	defer cancel()
	body, err := r.get(ctx, &all, 0, size)
	if err == nil {
		defer body.Close()
		err = all.fill(body, mem.buf)
	}
	if err != nil {
		mem.release()
		return nil
	}
	return mem
}

// useBuffer makes a piece's chunk from its part of a buffer, if that verifies as the whole range.
func (p *Piece) useBuffer(mem *memory, buf []byte) {
	v := verifier{Piece: p, base: p.Range.Base}
	found, err := v.verify(buf)
	if err != nil || found.End != p.Range.End() {
		return
	}
	mem.retain(1)
	p.Finish(found, mem.release)
}
