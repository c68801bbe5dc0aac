package core

import (
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// reclaiming frees space on a log without writers. Rule R7 needs two snapshots of this leader after
// the moment in which an object became garbage. A busy log takes one every thousand slots; an idle
// log has no slots.
//
// While garbage is pending, a leader takes a snapshot whenever none was taken for GarbageWait, and
// repeats a pass that was not finished. If the position has not moved since the last snapshot it
// commits an empty slot first: the name of a snapshot is its position, and the deletion needs two
// snapshots. After a complete pass nothing is pending, and an idle log makes no requests.
type reclaiming struct {
	freed  uint64 // incremented by each committed slot that freed something
	clean  uint64 // garbage up to this value of freed is deleted
	dueAt  int64  // time of the next snapshot or pass for garbage
	listed int64  // names listed in the last pass
	futile uint   // consecutive unfinished passes that deleted nothing
	frugal bool   // requests are short: the steps are frugalFactor times as rare
}

// ownSnapshot is a durable snapshot of this leader.
type ownSnapshot struct {
	view  *state.State
	freed uint64 // value of reclaiming.freed when it was taken
	early bool   // the bytes of a few slots made it due
}

const (
	// garbagePage: for every garbagePage names in a pass the next one waits a tenth of GarbageWait
	// longer. Passes for garbage therefore list at most ten pages in that time, whatever the size
	// of the log.
	garbagePage = 1000
	// futileMax bounds how often the wait is doubled after futile passes.
	futileMax = 6
	// frugalFactor multiplies GarbageWait while requests are short. Garbage does no harm.
	frugalFactor = 6
)

// startReclaiming schedules the first pass, because a leader does not know the garbage of its
// predecessors. The first leader of a log has none.
func (c *Core) startReclaiming() {
	c.reclaimed = reclaiming{dueAt: c.now + c.garbageWait(), frugal: c.reclaimed.frugal}
	if c.committed.Pos.Epoch > 1 {
		c.reclaimed.freed = 1
	}
}

// frees reports whether records that are about to be applied remove references to objects. The
// objects may still be referenced by other ranges.
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
	return &state.Partitions{} // created by the same slot: it holds nothing
}

// countFreed is called before a slot is applied. Several slots that free something in a row, as
// retention produces them, share one wait.
func (c *Core) countFreed(records []state.Record) {
	g := &c.reclaimed
	if !frees(c.committed, records) {
		return
	}
	if g.freed == g.clean {
		g.dueAt = max(g.dueAt, c.now+c.garbageWait())
	}
	g.freed++
}

// garbagePending reports whether a leader has work for garbage, now or later, and is not already
// doing it.
func (c *Core) garbagePending() bool {
	s, g := &c.snap, &c.reclaimed
	return c.role == RoleLeader && g.freed > g.clean && !s.running && !s.collecting
}

// passDue reports whether the older of two snapshots already covers the pending garbage, so that
// only the pass is missing.
func (c *Core) passDue() bool { return c.snap.older != nil && c.snap.older.freed > c.reclaimed.clean }

// moved reports whether the log has grown since the last snapshot.
func (c *Core) moved() bool { return c.snap.newer == nil || c.snap.newer.view.Pos != c.committed.Pos }

// reclaim runs the next step for pending garbage if it is due.
func (c *Core) reclaim() {
	switch {
	case !c.garbagePending() || c.now < c.reclaimed.dueAt:
	case c.passDue():
		c.collect()
	case c.moved():
		c.takeSnapshot()
	case len(c.lead.slots) == 0 && c.lead.park.freezes():
		// Wall 0 makes its append time the next microsecond, because the core has no wall clock.
		c.freezeSlot(&Proposal{}, nil, 0)
	}
}

// reclaimAt is when reclaim needs a tick; 0: not before another event.
func (c *Core) reclaimAt() int64 {
	if !c.garbagePending() || !c.passDue() && !c.moved() && (len(c.lead.slots) > 0 || !c.lead.park.freezes()) {
		return 0
	}
	return c.reclaimed.dueAt
}

// snapshotStored continues when a snapshot of ours is durable. Collecting needs two of them. After
// early snapshots there is one pass in the time between two steps for garbage, because each LISTs.
func (c *Core) snapshotStored(taken *ownSnapshot) {
	c.snap.older, c.snap.newer = c.snap.newer, taken
	if taken.early && c.now < c.reclaimed.dueAt {
		return
	}
	c.delayReclaim()
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
			g.clean, g.futile = max(g.clean, a.freed), 0
		case ev.Deleted > 0:
			g.futile = 0
		default:
			g.futile = min(g.futile+1, futileMax)
		}
		c.delayReclaim()
	})
}

// garbageWait is the time between two steps for garbage.
func (c *Core) garbageWait() int64 {
	wait := int64(c.cfg.GarbageWait)
	if c.reclaimed.frugal {
		wait *= frugalFactor
	}
	return wait
}

// delayReclaim sets when the next step for garbage is due.
func (c *Core) delayReclaim() {
	g := &c.reclaimed
	wait := c.garbageWait()
	wait += wait / 10 * (g.listed / garbagePage)
	// may be earlier than before, after a pass that deleted something
	g.dueAt = c.now + wait<<g.futile
}
