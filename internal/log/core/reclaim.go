package core

import (
	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/record"
)

// reclaiming gives space back on a log to which nobody writes any more. Rule R7 asks for two snapshots of this leader
// after the moment in which something became garbage; a thousand slots bring one each, but an idle log has no slots.
//
// While garbage is pending, a leader takes a snapshot whenever none came for GarbageWait, and repeats a pass that was
// not finished. Where the position has not moved since the last snapshot it commits an empty slot first: the name of a
// snapshot is its position, and two of them bear the deletion, not one. When a pass over everything is through, nothing
// is pending, and an idle log makes no request at all.
type reclaiming struct {
	freed  uint64 // grows with each committed slot that freed something
	clean  uint64 // what was freed up to here is gone
	dueAt  int64  // no snapshot and no pass for garbage's sake before
	listed int64  // names in the last pass
	vain   uint   // passes in a row that were not finished and deleted nothing
}

// ownSnapshot is one that this leader wrote and knows durable.
type ownSnapshot struct {
	view  *state.State
	freed uint64 // of reclaiming, when it was taken
}

const (
	// garbagePage: for each so many names in a pass the next one waits a tenth of GarbageWait longer. So passes of their own
	// accord never list more than ten pages in that time, however large the log.
	garbagePage = 1000
	// vainMost bounds how often the wait is doubled when passes get nothing done.
	vainMost = 6
)

// startReclaiming: a leader does not know what those before it have left, so there its first pass is due; the first
// leader of all has nothing to look for.
func (c *Core) startReclaiming() {
	c.reclaimed = reclaiming{dueAt: c.now + int64(c.cfg.GarbageWait)}
	if c.committed.Pos.Epoch > 1 {
		c.reclaimed.freed = 1
	}
}

// frees says whether records, about to be applied, leave something that nobody references any more. They may do so
// without an object becoming garbage, if others of its ranges stay.
func frees(s *state.State, records []state.Record) bool {
	for i := range records {
		switch r := &records[i]; r.Kind {
		case state.PackInstall:
			return true
		case state.TopicDelete:
			for _, p := range partitionsOf(s, r.Topic).Written() {
				if len(p.Ranges) > 0 {
					return true
				}
			}
		case state.TopicTrim:
			of := partitionsOf(s, r.Topic)
			if int(r.Partition) >= of.Len() {
				continue
			}
			if p := of.At(int(r.Partition)); len(p.Ranges) > 0 && p.Ranges[0].End() <= r.Offset {
				return true
			}
		}
	}
	return false
}

func partitionsOf(s *state.State, topic record.ID) *state.Partitions {
	if t := s.Topic(topic); t != nil {
		return &t.Partitions
	}
	return &state.Partitions{} // made by the same slot: it holds nothing
}

// noteFreed is told before a slot is applied. What comes in one go, as retention does, is worth one wait.
func (c *Core) noteFreed(records []state.Record) {
	g := &c.reclaimed
	if !frees(c.committed, records) {
		return
	}
	if g.freed == g.clean {
		g.dueAt = max(g.dueAt, c.now+int64(c.cfg.GarbageWait))
	}
	g.freed++
}

// garbagePending says whether a leader has something to do for garbage's sake, now or later, other than to wait for
// answers.
func (c *Core) garbagePending() bool {
	s, g := &c.snap, &c.reclaimed
	return c.role == RoleLeader && g.freed > g.clean && !s.running && !s.collecting
}

// passDue: the older of two snapshots already covers what is pending, only its pass was not finished.
func (c *Core) passDue() bool { return c.snap.older != nil && c.snap.older.freed > c.reclaimed.clean }

// moved says whether the log has grown since the last snapshot.
func (c *Core) moved() bool { return c.snap.newer == nil || c.snap.newer.view.Pos != c.committed.Pos }

// reclaim does what garbage asks for, if it is time.
func (c *Core) reclaim() {
	switch {
	case !c.garbagePending() || c.now < c.reclaimed.dueAt:
	case c.passDue():
		c.collect()
	case c.moved():
		c.takeSnapshot()
	case len(c.lead.slots) == 0:
		// Its append time is the next microsecond, for the core has no clock on the wall.
		c.freezeSlot(&Proposal{}, nil, 0)
	}
}

// reclaimAt says when a tick is wanted for it; 0: not before something else happens.
func (c *Core) reclaimAt() int64 {
	if !c.garbagePending() || !c.passDue() && !c.moved() && len(c.lead.slots) > 0 {
		return 0
	}
	return c.reclaimed.dueAt
}

// snapshotStored: a snapshot of ours is durable. With two of them there is something to collect by.
func (c *Core) snapshotStored(taken *ownSnapshot) {
	c.snap.older, c.snap.newer = c.snap.newer, taken
	c.reclaimWaits()
	if c.snap.older != nil && !c.snap.collecting {
		c.collect()
	}
}

// collect starts a pass by the older of the two newest snapshots (rule R7).
func (c *Core) collect() {
	c.snap.collecting = true
	a := c.snap.older
	c.request(Effect{Kind: EffCollect, View: a.view}, func(ev *Event) {
		g := &c.reclaimed
		c.snap.collecting = false
		g.listed = ev.Listed
		switch {
		case !ev.More:
			g.clean, g.vain = max(g.clean, a.freed), 0
		case ev.Deleted > 0:
			g.vain = 0
		default:
			g.vain = min(g.vain+1, vainMost)
		}
		c.reclaimWaits()
	})
}

// reclaimWaits says how long what garbage asks for has to wait from now on.
func (c *Core) reclaimWaits() {
	g := &c.reclaimed
	wait := int64(c.cfg.GarbageWait)
	wait += wait / 10 * (g.listed / garbagePage)
	g.dueAt = c.now + wait<<g.vain // sooner than it was, if a pass has got on again
}
