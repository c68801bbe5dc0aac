package sim

import (
	"sort"
	"strings"

	"github.com/sebbroker/seb/internal/log/core"
	"github.com/sebbroker/seb/internal/log/state"
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
	more    bool // it came to no end
}

const listedAtOnce = 100

// list judges a page of names and goes on; on any trouble the pass ends early, another one comes.
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
					c.r.n.w.fail("R7: node %d finds %s on no epoch of the log", c.r.n.id, b[0])
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

// add keeps a name that is garbage. Objects never change, so its head may as well be read now.
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

// sweep deletes; a DELETE may be lost, or come late, like any other request.
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

// mayDelete: R7, names of a higher epoch are never touched.
func (c *checker) mayDelete(r *run, key string) {
	c.w.loss.mayDelete(r, key)
	h, err := record.DecodeHead(c.w.store.objects[key])
	if err == nil && h.Epoch > r.core.Epoch() {
		c.w.fail("R7: node %d in epoch %d deletes %s", r.n.id, r.core.Epoch(), key)
	}
}

// deleted checks each DELETE when it takes effect, however late that is.
func (c *checker) deleted(key string, body []byte) {
	c.w.stats.Deleted++
	c.gone[key] = true
	if strings.HasPrefix(key, core.SnapPrefix(0)) {
		if !c.snapshotAbove(c.snapAt[key]) {
			c.w.fail("R7: %s is deleted, and no newer one is there", key)
		}
		return
	}
	o, err := record.DecodeObject(body)
	if err != nil {
		c.w.fail("R7: %s, which does not decode, is deleted: %v", key, err)
		return
	}
	if o.Head.Kind == record.KindPack {
		c.packDeleted(key, o)
		return
	}
	if o.Head.Kind != record.KindData {
		// A candidate that fell asleep may put a SEAL into the name of a DATA that was deleted, and start over by R5 (4).
		// A DELETE of that DATA that is still on its way, or a later sweep, may take it: it sealed nothing.
		if !c.on[key] || string(c.archive[key]) == string(body) {
			c.w.fail("R7: %s, a SEAL, is deleted", key)
		}
		return
	}
	if !c.on[key] {
		return
	}
	if !c.snapshotAbove(state.Position{Epoch: o.Head.Epoch, Slot: o.Head.Slot}) {
		c.w.fail("R7: %s is deleted, and no snapshot above it is there", key)
	}
	for i := range o.Index {
		if e := &o.Index[i]; c.references(e, state.Source{Epoch: o.Head.Epoch, Slot: o.Head.Slot}) {
			c.w.fail("I1: %s is deleted and holds offset %d of %s/%d", key, e.Base, e.Topic, e.Partition)
		}
	}
}

// snapshotAbove says whether the store holds a snapshot of a later position. Names sort newest first.
func (c *checker) snapshotAbove(pos state.Position) bool {
	s := c.w.store
	i := sort.SearchStrings(s.keys, core.SnapPrefix(0))
	return i < len(s.keys) && strings.HasPrefix(s.keys[i], core.SnapPrefix(0)) && pos.Less(c.snapAt[s.keys[i]])
}
