package core

import (
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// following is the state of a read-only core at the end of the log. The missing slot there is a
// provisional end (rule R11).
type following struct {
	since          int64 // everything that was on the chain at this time is applied
	known          bool  // since is set
	missed         int64 // send time of the request that found the slot at our position missing
	pollAt         int64
	busy           bool     // a poll or a confirmation is running
	lost           bool     // a referenced object is missing: the position must be confirmed
	reloading      bool     // the newest snapshot is not loaded yet: load does not belong to the state
	queuedConfirms []uint64 // tags of EvConfirm that came while busy
	confirmed      string   // newest snapshot whose chain contains our position

	target state.Position // the log reaches up to it, as the leader says
	stale  bool           // the running poll began before target was known
}

// followEnd handles the first missing slot.
func (c *Core) followEnd() {
	if c.role == RoleStarting {
		c.follow.busy = true
		c.proveEnd(c.atMissing)
		return
	}
	c.atMissing()
}

// atMissing waits at the first missing slot.
func (c *Core) atMissing() {
	f := &c.follow
	if c.role == RoleStarting || c.told != c.Epoch() {
		c.followsIn()
	}
	f.busy = false
	if c.committed.Pos.Less(f.target) {
		c.belowTarget()
		return
	}
	asked := c.waiting || len(c.confirms) > 0
	if asked && (f.lost || !f.known || c.since(f.since, c.cfg.IdleCheck)) {
		c.confirmPosition()
		return
	}
	c.atEnd()
}

// followsIn reports that this core follows, in the epoch of its state.
func (c *Core) followsIn() {
	c.role, c.told = RoleFollower, c.Epoch()
	c.emit(Effect{Kind: EffRole, Role: RoleFollower, Epoch: c.told})
}

// atEnd answers the callers that asked for the end, and waits.
func (c *Core) atEnd() {
	f := &c.follow
	c.confirmed()
	f.pollAt = c.now + int64(c.cfg.FollowPoll)
	if len(f.queuedConfirms) > 0 {
		c.confirms, f.queuedConfirms = f.queuedConfirms, nil
		c.pollNow()
		return
	}
	c.reach(f.target)
}

// poll looks for the next slot, or for a log, if that is due. For the next slot readers must wait that
// the leader does not feed.
func (c *Core) poll() {
	wanted := c.unmade() || c.waiting && !c.heard
	if wanted && c.now >= c.follow.pollAt {
		c.pollNow()
	}
}

// unmade reports whether no epoch has begun, as far as this core knows. A standby polls for the first.
func (c *Core) unmade() bool {
	return c.committed == nil || c.Epoch() == 0 && !c.cfg.ReadOnly
}

func (c *Core) pollNow() {
	if c.follow.busy {
		return
	}
	c.follow.busy, c.follow.stale = true, false
	if c.committed == nil {
		c.start()
		return
	}
	c.catchUp()
}

// awaitLog waits in a bucket without a log, until another broker makes one or Stand does. The callers
// that asked for the end wait for the log.
func (c *Core) awaitLog() {
	f := &c.follow
	if c.role != RoleFollower {
		c.followsIn()
	}
	f.busy, f.pollAt = false, c.now+int64(c.cfg.FollowPoll)
	f.queuedConfirms = append(f.queuedConfirms, c.confirms...)
	c.confirms = nil
}

// confirmPosition is R5 (4) for our own position: it lies behind the newest snapshot on our path, or
// the snapshot's chain contains it. Otherwise we wait at a slot that was collected, or on a branch
// that is not the log.
func (c *Core) confirmPosition() {
	c.follow.busy = true
	c.listSnaps(func(names []snapName) {
		names = c.onLog(names)
		switch {
		case len(names) == 0 && c.load.base == "":
			c.onChain("")
		case len(names) == 0: // the loaded snapshot is lost
			c.findPosition(snapName{nonce: c.cluster}, func() { c.onChain("") }, c.reload)
		case names[0].key == c.follow.confirmed, c.passed(names[0]):
			c.onChain(names[0].key)
		default:
			c.findPosition(names[0], func() { c.onChain(names[0].key) }, c.reload)
		}
	})
}

// findPosition follows the log from a snapshot by heads, and calls found if it comes to our position.
func (c *Core) findPosition(from snapName, found, lost func()) {
	ours, nonce := c.committed.Pos, c.committed.Nonce
	if ours.Less(from.pos) {
		lost()
		return
	}
	c.startWalk(from.pos, from.nonce, true, func(s *Slot) bool {
		n := s.Head.Nonce
		if s.Head.Kind == record.KindSeal {
			n = s.Head.NextNonce
		}
		if After(&s.Head) == ours && n == nonce {
			found()
			return false
		}
		return true
	}, lost)
}

// onChain continues when the position is on the chain. The other half of the proof is that no
// object refers to the log behind it.
func (c *Core) onChain(newest string) {
	c.follow.confirmed = newest
	c.proveEnd(func() { c.positionConfirmed(newest) })
}

// positionConfirmed ends a confirmation. When the LIST began no snapshot was beyond our position,
// so the slot there was not collected before. When the slot was found missing it had therefore
// never been stored, and everything before it was applied. A LIST that began earlier would prove
// nothing: the slot may have been collected between the two requests.
func (c *Core) positionConfirmed(newest string) {
	f := &c.follow
	f.confirmed = newest
	f.since, f.known = f.missed, true
	f.busy, f.lost = false, false
	if c.since(f.since, c.cfg.IdleCheck) {
		c.pollNow() // the confirmation took too long
		return
	}
	c.atEnd()
}

// reload starts over from the newest snapshot. Until that is loaded the old committed prefix is
// served.
func (c *Core) reload() {
	c.follow = following{busy: true, reloading: true, pollAt: c.now + int64(second), queuedConfirms: c.follow.queuedConfirms}
	c.loadNewest()
}
