package broker

import (
	"container/list"
	"slices"
	"sync"

	"github.com/sebbroker/seb/internal/engine/log/state"
)

// Segment is a run of whole batches of a range whose checksums were verified.
type Segment struct {
	Pos, Size int64 // relative to the range's beginning
	Base, End int64 // offsets
}

// Segments records which parts of ranges were read and verified, and so where batches begin in
// them. Entries never become stale, because objects never change. Over its limit it evicts the
// ranges that were added first.
type Segments struct {
	max int

	mu     sync.Mutex // guards the fields below
	count  int
	ranges map[state.Source]*indexed
	order  list.List // of *indexed, oldest first
}

type indexed struct {
	key      state.Source
	segments []Segment // ascending, none overlaps another
}

// NewSegments returns an index with a limit, in segments.
func NewSegments(max int) *Segments {
	return &Segments{max: max, ranges: map[state.Source]*indexed{}}
}

// Find returns the adjacent verified segments from the one that holds offset on, until max bytes
// are reached or the range ends at end. It returns none if one of them is not known. near is then
// the known start of a batch at or before offset, where reading begins.
func (x *Segments) Find(key state.Source, base, end, offset, max int64) (known []Segment, near Segment) {
	x.mu.Lock()
	defer x.mu.Unlock()
	near = Segment{Base: base, End: base}
	r := x.ranges[key]
	if r == nil {
		return nil, near
	}
	i, _ := slices.BinarySearchFunc(r.segments, offset, func(s Segment, o int64) int {
		if s.End <= o {
			return -1
		}
		return 1
	})
	// r.segments[i] is the first that ends after offset.
	if i > 0 {
		last := r.segments[i-1]
		near = Segment{Pos: last.Pos + last.Size, Base: last.End, End: last.End}
	}
	if i == len(r.segments) || r.segments[i].Base > offset {
		return nil, near
	}
	near = Segment{Pos: r.segments[i].Pos, Base: r.segments[i].Base, End: r.segments[i].Base}
	var bytes int64
	for next := near.Base; next < end; i++ {
		if i == len(r.segments) || r.segments[i].Base != next {
			return nil, near
		}
		s := r.segments[i]
		if len(known) > 0 && bytes+s.Size > max {
			break
		}
		known = append(known, s)
		bytes += s.Size
		next = s.End
	}
	return known, near
}

// Add records verified segments, except those that overlap known ones.
func (x *Segments) Add(key state.Source, segments []Segment) {
	x.mu.Lock()
	defer x.mu.Unlock()
	r := x.ranges[key]
	if r == nil {
		r = &indexed{key: key}
		x.ranges[key] = r
		x.order.PushBack(r)
	}
	for _, s := range segments {
		i, found := slices.BinarySearchFunc(r.segments, s.Pos, func(s Segment, pos int64) int { return int(s.Pos - pos) })
		if found || i > 0 && r.segments[i-1].End > s.Base || i < len(r.segments) && r.segments[i].Base < s.End {
			continue
		}
		r.segments = slices.Insert(r.segments, i, s)
		x.count++
	}
	for x.count > x.max {
		oldest := x.order.Remove(x.order.Front()).(*indexed)
		delete(x.ranges, oldest.key)
		x.count -= len(oldest.segments)
	}
}
