package broker_test

import (
	"testing"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/state"
)

// TestIndexIsBounded: the index evicts whole ranges, the oldest first, and keeps the others.
func TestIndexIsBounded(t *testing.T) {
	x := broker.NewSegments(10)
	key := func(slot int) state.Source { return state.Source{Epoch: 1, Slot: uint64(slot), Pos: 200} }
	for slot := range 8 {
		var all []broker.Segment
		for i := range int64(3) {
			all = append(all, broker.Segment{Pos: 100 * i, Size: 100, Base: 5 * i, End: 5*i + 5})
		}
		x.Add(key(slot), all)
		x.Add(key(slot), all) // known already
	}
	for slot := range 8 {
		known, near := x.Find(key(slot), 0, 15, 7, 200)
		if here := slot >= 5; here != (len(known) == 2) || here != (near.Pos == 100) {
			t.Errorf("range %d: %+v, near %+v", slot, known, near)
		}
	}
}

// TestIndexWithGaps: segments before an offset tell where reading begins. With a gap after the
// offset, find returns no segments, because it cannot know what is wanted there.
func TestIndexWithGaps(t *testing.T) {
	x := broker.NewSegments(10)
	at := state.Source{Slot: 1}
	x.Add(at, []broker.Segment{{Pos: 0, Size: 100, Base: 0, End: 5}, {Pos: 100, Size: 100, Base: 5, End: 10}})
	x.Add(at, []broker.Segment{{Pos: 300, Size: 100, Base: 15, End: 20}})
	x.Add(at, []broker.Segment{{Pos: 150, Size: 200, Base: 7, End: 17}}) // overlaps two
	for _, c := range []struct {
		offset, max int64
		known       int
		near        int64
	}{
		{0, 1, 1, 0}, {0, 199, 1, 0}, {0, 201, 0, 0}, {6, 1, 0, 100}, {12, 1, 0, 200}, {16, 1, 1, 300}, {16, 101, 1, 300}, {21, 1, 0, 400},
	} {
		known, near := x.Find(at, 0, 20, c.offset, c.max)
		if len(known) != c.known || near.Pos != c.near {
			t.Errorf("from offset %d %d bytes: %+v, near %+v", c.offset, c.max, known, near)
		}
	}
}
