package sim

import (
	"strings"
	"time"

	"github.com/sebbroker/seb/internal/log/core"
	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/record"
)

const (
	// restSilence is how long nobody may have written anything for the log to be at rest.
	restSilence = 60 * time.Second
	// restMost is how long it may take to get there, once nothing new is asked of it.
	restMost = 10 * time.Minute
)

// rest goes on until nobody writes, deletes or looks for garbage any more (I14).
func (w *world) rest() {
	for end := w.now + int64(restMost); w.err == nil && !w.over; {
		before := w.check.writes
		w.runUntil(w.now + int64(restSilence))
		if w.check.writes == before {
			return
		}
		if w.now >= end {
			w.fail("I14: the log does not come to rest: %d writes and listings in the last minute", w.check.writes-before)
		}
	}
}

// nothingLeft: I14, what held records and is needed by nobody has been deleted, though nobody writes any more. What came
// back after its DELETE, since a PUT took effect late, is left for whoever leads next.
func (c *checker) nothingLeft() {
	for _, key := range c.w.store.keys {
		if c.gone[key] || strings.HasPrefix(key, core.SnapPrefix(0)) {
			continue
		}
		o, err := record.DecodeObject(c.w.store.objects[key])
		if err != nil || len(o.Index) == 0 {
			continue
		}
		h := &o.Head
		pack := h.Kind == record.KindPack
		if pack && !c.packs[key] || !pack && !c.on[key] {
			continue // never part of the log: found by who leads next
		}
		used := false
		for i := range o.Index {
			used = used || c.references(&o.Index[i], state.Source{Epoch: h.Epoch, Slot: h.Slot, Pack: pack})
		}
		if !used {
			c.w.fail("I14: %s is needed by nobody, and still there", key)
		}
	}
}
