package broker

import (
	"container/list"
	"slices"
	"sync"

	"github.com/sebbroker/seb/internal/log/state"
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
