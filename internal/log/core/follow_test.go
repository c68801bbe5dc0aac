package core_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/log/core"
)

// TestAFollowerConfirmsItsEndWithoutItsSnapshot: the snapshot that a follower has loaded is lost, and all slots are there. The
// follower shows its end all the time while it confirms it: a start over from nothing would show less.
func TestAFollowerConfirmsItsEndWithoutItsSnapshot(t *testing.T) {
	a := leader(t, core.Config{SnapshotSlots: 3})
	const records = 5
	for range records {
		a.freeze(nil, one(-1))
		a.settle()
	}
	b := newBench(t, core.Config{ReadOnly: true})
	b.objects = a.objects
	b.settle()
	lost := 0
	for key := range b.objects {
		if strings.HasPrefix(key, core.SnapPrefix(0)) {
			delete(b.objects, key)
			lost++
		}
	}
	if lost == 0 {
		t.Fatal("there is no snapshot")
	}
	b.now += int64(time.Hour)
	b.told = nil
	b.step(&core.Event{Kind: core.EvConfirm, Tag: 7})
	for len(b.open) > 0 {
		b.answer(b.next())
		if topic := b.core.State().Topic(topicID); topic == nil || topic.Partitions.At(0).Next != records {
			t.Fatalf("the follower shows %v, it has shown %d records", topic, records)
		}
	}
	b.wantTold(core.EffConfirmed)
}
