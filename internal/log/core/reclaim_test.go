package core_test

import (
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/log/core"
	"github.com/sebbroker/seb/internal/log/state"
)

// reclaimer is a bench that counts what a leader does for garbage's sake.
type reclaimer struct {
	*bench
	pass                     core.Event // what each pass came to
	snapshots, slots, passes int
	last                     *state.State // what the last pass went by
}

// watch lets time go by in steps of ten seconds, with a tick whenever one is wanted.
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

// collecting answers a pass that was asked for.
func (r *reclaimer) collecting() bool {
	for i, e := range r.told {
		if e.Kind == core.EffCollect {
			r.told = append(r.told[:i], r.told[i+1:]...)
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

// TestNothingFreedNothingDone: an idle log on which nothing was freed stays as it is; a trim below the start frees nothing.
func TestNothingFreedNothingDone(t *testing.T) {
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

// TestUnfinishedPassIsRepeated: by the snapshots that are there, and until it is through.
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
		t.Errorf("then %d snapshots, %d slots, %d passes", r.snapshots, r.slots, r.passes)
	}
	if r.last.TopicByName("t").Partitions.At(0).Start != 1 {
		t.Error("the last pass went by a snapshot that does not know of the trim")
	}
}

// TestVainPassesAreForgotten: when a pass gets on again, garbage waits no longer than ever.
func TestVainPassesAreForgotten(t *testing.T) {
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
	busy() // passes that get nothing done
	r.pass = core.Event{Deleted: 1}
	busy()
	r.trim(30)
	if r.watch(11 * time.Minute); r.passes == 0 || r.last.TopicByName("t").Partitions.At(0).Start != 30 {
		t.Errorf("%d passes, the last by a snapshot that begins at offset %d", r.passes, r.last.TopicByName("t").Partitions.At(0).Start)
	}
}

// TestLargeLogsAreListedSeldom: however many names there are, passes for garbage's sake list no more than ten pages in
// five minutes, nor more often than that.
func TestLargeLogsAreListedSeldom(t *testing.T) {
	for _, c := range []struct {
		names        int64
		least, most  int   // passes in a day of trims
		pagesPerHour int64 // with the passes that a thousand slots bring
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
