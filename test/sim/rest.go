package sim

import (
	"strings"
	"time"

	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

const (
	// restSilence is how long no broker may have written anything for the log to be idle.
	restSilence = 60 * time.Second
	// restMost bounds the time until then, after the last request.
	restMost = 10 * time.Minute
)

// rest continues until no broker writes, deletes or looks for garbage any more (I14).
func (w *simulation) rest() {
	for end := w.now + int64(w.units(restMost)); w.err == nil && !w.over; {
		before := w.check.writes
		w.runUntil(w.now + int64(w.units(restSilence)))
		if w.check.writes == before {
			return
		}
		if w.now >= end {
			w.fail("I14: the log does not become idle: %d writes and listings in the last minute", w.check.writes-before)
		}
	}
}

// nothingLeft checks I14: objects of records that are not needed have been deleted, although no
// broker writes any more. Objects that reappear after their DELETE, because a PUT took effect late,
// are left to the next leader.
func (c *checker) nothingLeft() {
	for _, key := range c.w.store.keys {
		if c.deletedOnce[key] || strings.HasPrefix(key, core.SnapPrefix(0)) {
			continue
		}
		o, err := record.DecodeObject(c.w.store.objects[key])
		if err != nil || len(o.Index) == 0 {
			continue
		}
		h := &o.Head
		pack := h.Kind == record.KindPack
		if pack && !c.packs[key] || !pack && !c.on[key] {
			continue // never part of the log: left to the next leader
		}
		used := false
		for i := range o.Index {
			used = used || c.references(&o.Index[i], state.Source{Epoch: h.Epoch, Slot: h.Slot, Pack: pack})
		}
		if !used {
			c.w.fail("I14: %s is not needed, but was not deleted", key)
		}
	}
}
