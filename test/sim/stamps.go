package sim

import (
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// retypes changes the timestamp-type of random topics.
func (w *simulation) retypes() {
	if w.cfg.RetypeEvery == 0 || w.late() {
		return
	}
	w.after(w.around(w.typeRand, w.cfg.RetypeEvery), w.retypes)
	t := *w.topics[w.typeRand.IntN(len(w.topics))]
	r := w.nodes[w.typeRand.IntN(w.cfg.Nodes)].run
	if r == nil || r.paused || r.core.Role() != core.RoleLeader {
		return
	}
	t.stamped = w.typeRand.IntN(2) == 0
	o := &op{w: w, key: partKey{topic: t.name}, id: 1 << 58, rec: &state.Record{Kind: state.TopicChange, Settings: t.settings()}}
	o.done = func(o *op) {
		if o.outcome == acked {
			w.stats.Retypes++
		}
	}
	r.deliver(func() { r.submit(o) })
}

// timed checks I16: if the topic requires it at that slot, a record has the append time of its
// slot, so that times never decrease with offsets.
func (c *checker) timed(h *record.Head, e *record.IndexEntry, k partKey, r *record.Record) {
	if c.fold.Topic(e.Topic).LogAppendTime() {
		if r.Timestamp != h.Time/1000 || r.Timestamp < c.stamps[k] {
			c.w.fail("I16: %v offset %d has time %d, its slot was appended at %d us, the previous time was %d", k, r.Offset, r.Timestamp, h.Time, c.stamps[k])
		}
		c.stamps[k] = r.Timestamp
		c.w.stats.Stamped++
	}
	c.times[k] = append(c.times[k], r.Timestamp)
	c.sameTime(k, r, "the slot", e.MinTime, e.MaxTime)
}

// sameTime checks I16: a record keeps its timestamp wherever it is stored, and the time ranges of
// indexes include it.
func (c *checker) sameTime(k partKey, r *record.Record, where string, low, high int64) {
	if want := c.times[k][r.Offset]; r.Timestamp != want || want < low || want > high {
		c.w.fail("I16: offset %d of %v has time %d in %s, which covers %d to %d; it was %d", r.Offset, k, r.Timestamp, where, low, high, want)
	}
}
