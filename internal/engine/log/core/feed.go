package core

import (
	"slices"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// A follower that is not polled learns of the log from the leader: it gets the slots (EvFeed), or is
// told how far the log reaches (EvReach). Both are hints. A slot that does not follow the state is
// read from the bucket, and the bucket alone shows where the log continues.

// reach lets a follower read the log until it has applied everything before pos.
func (c *Core) reach(pos state.Position) {
	f := &c.follow
	if !c.follows() || f.reloading {
		return
	}
	if c.committed != nil && !c.committed.Pos.Less(pos) {
		if c.role == RoleFollower && !f.busy && c.offPath(pos) {
			c.checkPath()
		}
		return
	}
	if f.target.Less(pos) {
		f.target = pos
	}
	if c.role != RoleFollower || f.busy {
		f.stale = true // the running poll may be older than pos
		return
	}
	c.pollNow()
	if c.walk != nil {
		c.walk.to = f.target
	}
}

// readEnd lets a follower read the log to its end. It reads as many slots in one round trip as a leader
// may have in flight.
func (c *Core) readEnd() {
	if c.role != RoleFollower || c.follow.busy || c.committed == nil {
		return
	}
	c.pollNow()
	if w := c.walk; w != nil {
		w.least = uint64(c.cfg.Window)
		c.fill(w)
	}
}

// reached ends a walk to the target.
func (c *Core) reached() {
	c.follow.busy = false
	if c.told != c.Epoch() {
		c.followsIn()
	}
	c.atEnd()
}

// offPath reports whether our path ended an epoch before a position of it that the log has reached. A
// late SEAL in a slot that was collected leads a follower to such a path.
func (c *Core) offPath(pos state.Position) bool {
	epochs := c.committed.Epochs
	return slices.ContainsFunc(epochs[:len(epochs)-1], func(e state.Epoch) bool {
		return e.Number == pos.Epoch && e.Seal < pos.Slot
	})
}

// belowTarget continues at a missing slot although the log reaches beyond it. Either it was stored
// since, or it was collected. Otherwise the target is not on the log.
func (c *Core) belowTarget() {
	if f := &c.follow; f.stale {
		f.busy, f.stale = true, false
		c.catchUp()
		return
	}
	c.checkPath()
}

// checkPath loads the newest snapshot if that is not on our path: our next slot was collected, or our
// path is not the log.
func (c *Core) checkPath() {
	f := &c.follow
	f.busy, f.stale = true, false
	onPath := func() {
		if !f.stale { // nothing was told since
			f.target = state.Position{}
		}
		c.atMissing()
	}
	c.listSnaps(func(names []snapName) {
		names = c.onLog(names)
		if len(names) == 0 || c.passed(names[0]) {
			onPath()
			return
		}
		c.findPosition(names[0], onPath, c.reload)
	})
}

// feed applies a slot that the leader has committed, if it is the next one. Only a follower that waits
// does that, because the answers to a poll would not follow the state any more.
func (c *Core) feed(s *Slot) {
	h := &s.Head
	if h.Cluster != c.cluster || h.Shard != c.cfg.Shard {
		return
	}
	waits := c.role == RoleFollower && !c.follow.busy && c.committed != nil
	if !waits || c.committed.Apply(h, s.Records, s.Index) != nil {
		c.reach(After(h))
		return
	}
	c.fed = true
	c.grew(s)
	c.follow.pollAt = c.now + int64(c.cfg.FollowPoll)
	if c.told != c.Epoch() {
		c.followsIn()
	}
}

// After is the position behind a commit object.
func After(h *record.Head) state.Position {
	if h.Kind == record.KindSeal {
		return state.Position{Epoch: h.NextEpoch}
	}
	return state.Position{Epoch: h.Epoch, Slot: h.Slot + 1}
}
