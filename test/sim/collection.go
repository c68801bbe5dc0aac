package sim

import (
	"sort"
	"strings"

	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// collection is one pass of a leader over the names of slots and snapshots (rule R7).
type collection struct {
	r       *run
	op      core.OpID
	judge   *core.Collector
	garbage []string
	listed  int64
	deleted int64
	more    bool // it was incomplete
}

const listedAtOnce = 100

// list processes a page of names and continues. Any error ends the pass, because another one
// follows.
func (c *collection) list(prefix, after string) {
	var names []string
	s := c.r.n.w.store
	c.r.n.w.check.writes++
	s.call(c.r.n, false, func() core.Outcome {
		names = s.list(prefix, after, listedAtOnce)
		for _, name := range names {
			c.add(name, s.objects[name])
		}
		return core.OutcomeOK
	}, func(o core.Outcome) {
		c.r.deliver(func() {
			switch {
			case o != core.OutcomeOK:
				c.more = true
				c.sweep()
			case len(names) == listedAtOnce:
				c.list(prefix, names[len(names)-1])
			case prefix == core.WALPrefix(0):
				c.garbage = append(c.garbage, c.judge.Settle()...)
				if b := c.judge.Branch(); len(b) > 0 && c.r.n.w.loss == nil {
					c.r.n.w.fail("R7: node %d finds %s, which is in no epoch of the log", c.r.n.id, b[0])
				}
				c.list(state.PackPrefix(0), "")
			case prefix == state.PackPrefix(0):
				c.list(core.SnapPrefix(0), "")
			default:
				c.sweep()
			}
		})
	})
}

// add records a garbage name. Objects never change, so it may read the head immediately.
func (c *collection) add(name string, body []byte) {
	c.listed++
	v := c.judge.Judge(name)
	if v == core.AskHead {
		h, err := record.DecodeHead(body)
		if err != nil {
			return
		}
		v = c.judge.Head(name, &h)
	}
	if v == core.Delete {
		c.garbage = append(c.garbage, name)
	}
}

// sweep deletes the garbage. A DELETE may be lost or late, like any other request.
func (c *collection) sweep() {
	w := c.r.n.w
	left := len(c.garbage)
	finish := func() {
		c.r.step(&core.Event{
			Kind: core.EvCollected, Op: c.op, Outcome: core.OutcomeOK,
			Listed: c.listed, Deleted: c.deleted, More: c.more,
		})
	}
	if left == 0 {
		finish()
		return
	}
	for _, name := range c.garbage {
		w.check.mayDelete(c.r, name)
		w.store.call(c.r.n, true, func() core.Outcome { return w.store.remove(name) }, func(o core.Outcome) {
			c.r.deliver(func() {
				if o == core.OutcomeOK {
					c.deleted++
				} else {
					c.more = true
				}
				if left--; left == 0 {
					finish()
				}
			})
		})
	}
}

// mayDelete checks R7: names of a higher epoch are never deleted.
func (c *checker) mayDelete(r *run, key string) {
	c.w.loss.mayDelete(r, key)
	h, err := record.DecodeHead(c.w.store.objects[key])
	if err == nil && h.Epoch > r.core.Epoch() {
		c.w.fail("R7: node %d in epoch %d deletes %s", r.n.id, r.core.Epoch(), key)
	}
}

// deleted checks each DELETE when it takes effect, even if that is late.
func (c *checker) deleted(key string, body []byte) {
	c.w.stats.Deleted++
	c.deletedOnce[key] = true
	if strings.HasPrefix(key, core.SnapPrefix(0)) {
		if !c.snapshotAbove(c.snapAt[key]) {
			c.w.fail("R7: %s is deleted, but no newer one exists", key)
		}
		return
	}
	o, err := record.DecodeObject(body)
	if err != nil {
		c.w.fail("R7: %s is deleted, but cannot be decoded: %v", key, err)
		return
	}
	if o.Head.Kind == record.KindPack {
		c.packDeleted(key, o)
		return
	}
	if o.Head.Kind != record.KindData {
		// A delayed candidate may put a SEAL into the name of a deleted DATA, and start again by R5
		// (4). A late DELETE of that DATA, or a later sweep, may delete the SEAL, which sealed
		// nothing.
		if !c.on[key] || string(c.archive[key]) == string(body) {
			c.w.fail("R7: SEAL %s is deleted", key)
		}
		return
	}
	if !c.on[key] {
		return
	}
	if !c.snapshotAbove(state.Position{Epoch: o.Head.Epoch, Slot: o.Head.Slot}) {
		c.w.fail("R7: %s is deleted, but no snapshot above it exists", key)
	}
	for i := range o.Index {
		if e := &o.Index[i]; c.references(e, state.Source{Epoch: o.Head.Epoch, Slot: o.Head.Slot}) {
			c.w.fail("I1: %s is deleted, but holds offset %d of %s/%d", key, e.Base, e.Topic, e.Partition)
		}
	}
}

// snapshotAbove reports whether the store has a snapshot of a later position. Names sort newest
// first.
func (c *checker) snapshotAbove(pos state.Position) bool {
	s := c.w.store
	i := sort.SearchStrings(s.keys, core.SnapPrefix(0))
	return i < len(s.keys) && strings.HasPrefix(s.keys[i], core.SnapPrefix(0)) && pos.Less(c.snapAt[s.keys[i]])
}
