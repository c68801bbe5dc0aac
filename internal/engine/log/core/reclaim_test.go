package core_test

import (
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/sebtest"
)

// reclaimer is a bench that counts a leader's snapshots, slots and passes.
type reclaimer struct {
	*bench
	pass                     core.Event // result of each pass
	snapshots, slots, passes int
	last                     *state.State // state of the last pass
}

// watch advances time in steps of ten seconds and sends a tick whenever one is due.
func (r *reclaimer) watch(d time.Duration) {
	r.t.Helper()
	r.snapshots, r.slots, r.passes = 0, 0, 0
	for end := r.now + int64(d); r.now < end; r.now += int64(10 * time.Second) {
		r.step(&core.Event{Kind: core.EvTick})
		for len(r.open) > 0 || r.collecting() {
			if len(r.open) == 0 {
				continue
			}
			e := r.next()
			switch e.Kind {
			case core.EffPutSnapshot:
				r.snapshots++
			case core.EffPutData:
				r.slots++
			}
			r.answer(e)
		}
	}
}

// collecting answers a requested pass.
func (r *reclaimer) collecting() bool {
	for i, e := range r.emitted {
		if e.Kind == core.EffCollect {
			r.emitted = append(r.emitted[:i], r.emitted[i+1:]...)
			r.passes++
			r.last = e.View
			ev := r.pass
			ev.Kind, ev.Op, ev.Outcome = core.EvCollected, e.Op, core.OutcomeOK
			r.step(&ev)
			return true
		}
	}
	return false
}

func (r *reclaimer) trim(to int64) {
	r.t.Helper()
	r.freeze([]core.Op{{Record: state.Record{Kind: state.TopicTrim, Topic: topicID, Offset: to}}})
	r.settle()
}

// TestIdleLogWithoutGarbageDoesNothing: an idle log without garbage makes no requests; a trim below
// the start frees nothing.
func TestIdleLogWithoutGarbageDoesNothing(t *testing.T) {
	r := &reclaimer{bench: leader(t, core.Config{})}
	for range 3 {
		r.freeze(nil, one(-1))
		r.settle()
	}
	r.trim(0)
	if r.watch(time.Hour); r.snapshots+r.slots+r.passes > 0 {
		t.Fatalf("%d snapshots, %d slots, %d passes", r.snapshots, r.slots, r.passes)
	}
}

// TestUnfinishedPassIsRepeated: an unfinished pass is repeated with the existing snapshots until it
// is complete.
func TestUnfinishedPassIsRepeated(t *testing.T) {
	r := &reclaimer{bench: leader(t, core.Config{}), pass: core.Event{More: true, Deleted: 1}}
	r.freeze(nil, one(-1))
	r.settle()
	r.trim(1)
	if r.watch(time.Hour); r.snapshots != 2 || r.slots != 1 || r.passes < 9 {
		t.Errorf("%d snapshots, %d slots, %d passes", r.snapshots, r.slots, r.passes)
	}
	r.pass = core.Event{}
	if r.watch(time.Hour); r.snapshots != 0 || r.slots != 0 || r.passes != 1 {
		t.Errorf("after completing: %d snapshots, %d slots, %d passes", r.snapshots, r.slots, r.passes)
	}
	check.Equalf(t, r.last.TopicByName("t").Partitions.At(0).Start, 1, "the last pass used a snapshot from before the trim")
}

// TestGarbageWaitsForRequests: while requests are short, the steps for garbage are six times as rare.
func TestGarbageWaitsForRequests(t *testing.T) {
	r := &reclaimer{bench: leader(t, core.Config{})}
	r.freeze(nil, one(-1))
	r.settle()
	r.step(&core.Event{Kind: core.EvFrugal, On: true})
	r.trim(1)
	if r.watch(29 * time.Minute); r.snapshots+r.slots+r.passes > 0 {
		t.Errorf("after 29 minutes: %d snapshots, %d slots, %d passes", r.snapshots, r.slots, r.passes)
	}
	if r.watch(2 * time.Minute); r.snapshots != 1 {
		t.Errorf("after 31 minutes: %d snapshots, want 1", r.snapshots)
	}
	r.step(&core.Event{Kind: core.EvFrugal})
	if r.watch(time.Hour); r.snapshots != 1 || r.slots != 1 || r.passes != 1 {
		t.Errorf("an hour later: %d snapshots, %d slots, %d passes", r.snapshots, r.slots, r.passes)
	}
}

// TestBackoffOfFutilePassesIsReset: after a pass that deletes something, garbage waits no longer
// than usual.
func TestBackoffOfFutilePassesIsReset(t *testing.T) {
	r := &reclaimer{bench: leader(t, core.Config{SnapshotSlots: 4}), pass: core.Event{More: true}}
	busy := func() {
		for range 20 {
			r.freeze(nil, one(-1))
			r.settle()
			r.watch(time.Second)
		}
	}
	busy()
	r.trim(5)
	busy() // passes that delete nothing
	r.pass = core.Event{Deleted: 1}
	busy()
	r.trim(30)
	if r.watch(11 * time.Minute); r.passes == 0 || r.last.TopicByName("t").Partitions.At(0).Start != 30 {
		t.Errorf("%d passes; the last one's snapshot has start offset %d", r.passes, r.last.TopicByName("t").Partitions.At(0).Start)
	}
}

// TestListingOfLargeLogsIsBounded: whatever the number of names, passes for garbage list at most
// ten pages in five minutes and run at most once in five minutes.
func TestListingOfLargeLogsIsBounded(t *testing.T) {
	sebtest.Long(t, "TestBackoffOfFutilePassesIsReset remains")
	for _, c := range []struct {
		names        int64
		least, most  int   // passes in a day of trims
		pagesPerHour int64 // including the passes after every thousand slots
	}{{500, 250, 288, 12}, {100_000, 24, 27, 120}, {1_000_000, 2, 5, 210}} {
		r := &reclaimer{bench: leader(t, core.Config{}), pass: core.Event{Listed: c.names, Deleted: 1}}
		passes := 0
		for i := range int64(24 * 60) {
			r.freeze(nil, one(-1))
			r.settle()
			r.trim(i + 1)
			r.watch(time.Minute)
			passes += r.passes
		}
		if passes < c.least || passes > c.most || int64(passes)*((c.names+999)/1000) > 24*c.pagesPerHour {
			t.Errorf("%d names: %d passes in a day", c.names, passes)
		}
	}
}
