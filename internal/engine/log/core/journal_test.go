package core_test

import (
	"slices"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// TestSnapshotsByBytes counts the slots between two snapshots. The bytes that a start would read
// decide: a slot of a journal counts a quarter of a file, and a remote object whole, up to a block of
// the cache. On a remote store the slots and the size of the newest snapshot count too.
func TestSnapshotsByBytes(t *testing.T) {
	const bytes = 16 * 4096
	for name, c := range map[string]struct {
		cfg    core.Config
		object int // bytes of its records, at least
		want   int
	}{
		"files":             {core.Config{Local: true, SnapshotBytes: bytes}, 9000, 16},
		"journal":           {core.Config{Local: true, SnapshotBytes: bytes, Journals: true}, 9000, 64},
		"small objects":     {core.Config{SnapshotBytes: bytes}, 1, 16},
		"objects":           {core.Config{SnapshotBytes: bytes}, 3*4096 - 300, 6},
		"large objects":     {core.Config{SnapshotBytes: 2 << 20}, 1 << 20, 2},
		"slots":             {core.Config{SnapshotBytes: bytes, SnapshotSlots: 7}, 1, 7},
		"files, not slots":  {core.Config{Local: true, SnapshotBytes: bytes, SnapshotSlots: 7}, 1, 16},
		"8 times its bytes": {core.Config{SnapshotBytes: 1, SnapshotSlots: 99}, 1, -1},
	} {
		t.Run(name, func(t *testing.T) {
			b := leader(t, c.cfg)
			var at []int
			var size int64
			for slot := 1; len(at) < 3; slot++ { // the creation of the topic was slot 0
				b.freeze(nil, slices.Repeat([]core.Append{one(-1)}, (c.object+len(payload)-1)/len(payload))...)
				for len(b.open) > 0 {
					e := b.next()
					if e.Kind == core.EffPutSnapshot {
						at = append(at, slot)
						size = int64(len(b.body(e)))
					}
					b.answer(e)
				}
				if slot > 1000 {
					t.Fatal("no snapshots")
				}
			}
			if c.want < 0 {
				c.want = int((8*size + 4095) / 4096)
			}
			check.Equalf(t, at[2]-at[1], c.want, "slots between two snapshots, the last of %d bytes", size)
		})
	}
}

// TestEarlySnapshotsShareAPass: each pass over the bucket LISTs, so snapshots that follow each other
// quickly because of their bytes start one in the time between two steps for garbage.
func TestEarlySnapshotsShareAPass(t *testing.T) {
	b := leader(t, core.Config{SnapshotBytes: 4 * 4096, GarbageWait: core.Duration(5 * time.Minute)})
	var passes []core.Effect
	answered := 0
	b.onEffect = func(e core.Effect) {
		if e.Kind == core.EffCollect {
			passes = append(passes, e)
		}
	}
	for i, want := range []int{0, 1, 1, 2} { // a leader waits before its first pass
		for snapshots := 0; snapshots < 6; {
			b.freeze(nil, one(-1))
			for len(b.open) > 0 {
				e := b.next()
				if e.Kind == core.EffPutSnapshot {
					snapshots++
				}
				b.answer(e)
			}
			for _, e := range passes[answered:] {
				answered++
				b.step(&core.Event{Kind: core.EvCollected, Op: e.Op, Outcome: core.OutcomeOK})
			}
		}
		check.Equalf(t, answered, want, "passes in part %d", i)
		if i != 1 {
			b.passes(6 * time.Minute)
		}
	}
}

// TestPromptSlots fills the state of a journaled log. Slots must not be prompt any more while
// appends are still accepted.
func TestPromptSlots(t *testing.T) {
	if leader(t, core.Config{StateMax: 1 << 20}).core.Prompt() {
		t.Error("prompt without a journal")
	}
	if !leader(t, core.Config{Journals: true}).core.Prompt() {
		t.Error("not prompt without a bound of the state")
	}
	b := leader(t, core.Config{Journals: true, StateMax: 32 << 10})
	for accepted := 0; b.core.Prompt(); accepted++ {
		p := b.freeze(nil, one(-1))
		b.settle()
		must.NoErrorf(t, p.Appends[0].Err, "prompt until append %d is rejected", accepted)
	}
	for more := range 30 {
		p := b.freeze(nil, one(-1))
		b.settle()
		must.NoErrorf(t, p.Appends[0].Err, "the state is full %d slots after the last prompt one", more)
	}
	held := b.core.State().Memory()
	if b.core.Prompt() || held.Sum() < 20<<10 {
		t.Errorf("prompt %v with a state of %+v", b.core.Prompt(), held)
	}
}
