package sim

import (
	"time"

	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
)

// atEnd checks the result of the calm phase: I13, and that every snapshot equals the applied chain
// (rule R12).
func (c *checker) atEnd() {
	w := c.w
	for _, p := range w.clients {
		if p.under > 0 {
			w.fail("I13: producer %d waits for %d answers", p.id, p.under)
		}
	}
	c.atomicsAtEnd()
	c.txsAtEnd()
	c.calls()
	leads := 0
	for _, n := range w.nodes {
		r := n.run
		if r == nil {
			continue
		}
		if c.leads(r) {
			leads++
			c.clockAtEnd(r)
		}
		if r.follower() && (r.core.State() == nil || r.core.State().Pos != c.fold.Pos) {
			w.fail("I13: follower %d is not at the end of the log", n.id)
		}
		if len(r.out) > 0 && r.core.Role() == core.RoleLeader {
			w.fail("I13: node %d has %d unanswered ops", n.id, len(r.out))
		}
		if len(r.bodies) > 0 && r.core.Role() == core.RoleLeader {
			w.fail("I10: node %d holds %d bodies", n.id, len(r.bodies))
		}
	}
	c.eventsAtEnd()
	if leads != 1 {
		w.fail("I13: %d leaders of the newest epoch at the end", leads)
	}
	// In less time two brokers may still replace each other.
	if calm := begin + int64(w.cfg.Chaos); c.lastAck < calm && w.cfg.Calm >= time.Minute && w.cfg.Slow == 0 {
		w.fail("I13: no append was acknowledged in the calm")
	}
	for _, n := range w.nodes {
		if r := n.run; r != nil && w.err == nil && (r.follower() || c.leads(r)) {
			c.readAll(r)
		}
	}
	if c.w.loss == nil { // without a SEAL garbage may not be recognized
		c.nothingLeft()
	}
	c.refold()
}

// readAll checks I13: a consumer at the leader or at a follower reaches the end of each partition
// and finds every record.
func (c *checker) readAll(r *run) {
	for _, t := range r.core.State().Topics() {
		for i, p := range t.Partitions.All() {
			k := partKey{t.Name, uint32(i)}
			if p.Next != int64(len(c.log[k])) {
				c.w.fail("I13: node %d ends at offset %d of %v, want %d", r.n.id, p.Next, k, len(c.log[k]))
			}
			for o := p.Start; o < p.Next && c.w.err == nil; o++ {
				c.readAt(r, k, p, o)
			}
		}
	}
}

// refold applies the chain again and compares the state with every third snapshot.
func (c *checker) refold() {
	s := state.Genesis(c.fold.Cluster, 0)
	left := len(c.snaps)
	for {
		if key, ok := c.snaps[s.Pos]; ok {
			left--
			if left%3 == 0 && string(state.EncodeMessage(s)) != string(c.images[key]) {
				c.w.fail("R12: %s differs from the applied chain", key)
			}
		}
		body, ok := c.archive[s.Key(s.Pos.Epoch, s.Pos.Slot)]
		if !ok {
			break
		}
		slot, err := decodeSlot(body)
		if err != nil {
			c.w.fail("I4: refold: %v", err)
			return
		}
		if err := s.Apply(&slot.Head, slot.Records, slot.Index); err != nil {
			c.w.fail("I4: refold: %v", err)
			return
		}
	}
	if left != 0 {
		c.w.fail("R5: %d snapshots are not on the chain", left)
	}
}
