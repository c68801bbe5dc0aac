package core_test

import (
	"fmt"
	"testing"

	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// TestSnapshotsOfAJournal counts the slots between two snapshots that the bytes to replay decide:
// a slot of a journal counts a quarter of a file.
func TestSnapshotsOfAJournal(t *testing.T) {
	for journals, want := range map[bool]int{false: 16, true: 64} {
		t.Run(fmt.Sprintf("journals %v", journals), func(t *testing.T) {
			b := leader(t, core.Config{Journals: journals, SnapshotBytes: 16 * 4096})
			var at []int
			for slot := 1; len(at) < 2; slot++ { // the creation of the topic was slot 0
				b.freeze(nil, one(-1))
				for len(b.open) > 0 {
					e := b.next()
					if e.Kind == core.EffPutSnapshot {
						at = append(at, slot)
					}
					b.answer(e)
				}
				if slot > 1000 {
					t.Fatal("no snapshots")
				}
			}
			check.Equalf(t, at[1]-at[0], want, "slots between two snapshots")
		})
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
