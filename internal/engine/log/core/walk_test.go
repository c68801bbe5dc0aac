package core_test

import (
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/log/core"
)

// TestWalkReadsLittleBeyondTheEnd checks that a start requests at most half as many slots beyond
// the end as it found, at most 32, and still takes few round trips.
func TestWalkReadsLittleBeyondTheEnd(t *testing.T) {
	const trip = 60 * time.Millisecond
	for _, c := range []struct {
		slots, wasted int
		took          time.Duration // of the whole start
	}{
		{1, 1, 700 * time.Millisecond},
		{10, 6, time.Second},
		{100, 32, 1500 * time.Millisecond},
		{1000, 32, 3 * time.Second},
	} {
		a := leader(t, core.Config{SnapshotSlots: 1 << 30})
		for range c.slots - 1 { // and the slot with the topic
			a.freeze(nil, one(-1))
			a.settle()
		}
		b := newBench(t, core.Config{SnapshotSlots: 1 << 30})
		b.objects, b.nonces = a.objects, 100
		found, missing, trips := 0, 0, 0
		for ; len(b.open) > 0; trips++ {
			for range len(b.open) { // concurrent requests are answered together
				e := b.next()
				if e.Kind == core.EffGetSlot {
					if b.objects[e.Key] != nil {
						found++
					} else {
						missing++
					}
				}
				b.answer(e)
			}
		}
		took := time.Duration(trips) * trip
		t.Logf("%d slots: %d reads, %d beyond the end, %d round trips, %v at %v each", c.slots, found, missing, trips, took, trip)
		if b.core.Role() != core.RoleLeader || found != c.slots+1 { // and the SEAL of epoch 0
			t.Errorf("%d slots: %v after %d reads", c.slots, b.core.Role(), found)
		}
		if missing > c.wasted || took > c.took {
			t.Errorf("%d slots: %d reads beyond the end, at most %d, and %v, at most %v", c.slots, missing, c.wasted, took, c.took)
		}
	}
}
