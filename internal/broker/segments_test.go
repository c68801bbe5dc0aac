package broker

import (
	"testing"

	"github.com/sebbroker/seb/internal/log/state"
)

// TestIndexIsBounded: the index evicts whole ranges, the oldest first, and keeps the others.
func TestIndexIsBounded(t *testing.T) {
	x := newSegmentIndex(10)
	key := func(slot int) state.Source { return state.Source{Epoch: 1, Slot: uint64(slot), Pos: 200} }
	for slot := range 8 {
		var segments []segment
		for i := range int64(3) {
			segments = append(segments, segment{pos: 100 * i, size: 100, base: 5 * i, end: 5*i + 5})
		}
		x.add(key(slot), segments)
		x.add(key(slot), segments) // known already
		if x.count > 10 || x.count != 3*len(x.ranges) || x.order.Len() != len(x.ranges) {
			t.Fatalf("%d segments of %d ranges, %d in order", x.count, len(x.ranges), x.order.Len())
		}
	}
	for slot := range 8 {
		known, near := x.find(key(slot), 0, 15, 7, 200)
		if here := slot >= 5; here != (len(known) == 2) || here != (near.pos == 100) {
			t.Errorf("range %d: %+v, near %+v", slot, known, near)
		}
	}
}

// TestIndexWithGaps: segments before an offset tell where reading begins. With a gap after the
// offset, find returns no segments, because it cannot know what is wanted there.
func TestIndexWithGaps(t *testing.T) {
	x := newSegmentIndex(10)
	at := state.Source{Slot: 1}
	x.add(at, []segment{{pos: 0, size: 100, base: 0, end: 5}, {pos: 100, size: 100, base: 5, end: 10}})
	x.add(at, []segment{{pos: 300, size: 100, base: 15, end: 20}})
	x.add(at, []segment{{pos: 150, size: 200, base: 7, end: 17}}) // overlaps two
	for _, c := range []struct {
		offset, max int64
		known       int
		near        int64
	}{
		{0, 1, 1, 0}, {0, 199, 1, 0}, {0, 201, 0, 0}, {6, 1, 0, 100}, {12, 1, 0, 200}, {16, 1, 1, 300}, {16, 101, 1, 300}, {21, 1, 0, 400},
	} {
		known, near := x.find(at, 0, 20, c.offset, c.max)
		if len(known) != c.known || near.pos != c.near {
			t.Errorf("from offset %d %d bytes: %+v, near %+v", c.offset, c.max, known, near)
		}
	}
}
