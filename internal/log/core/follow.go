package core

import (
	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/record"
)

// following is a read-only core's state at the end of the log: the missing slot there is provisional (rule R11).
type following struct {
	since     int64 // that old the end we know may be: all that was on the chain then was applied
	known     bool  // since is
	missed    int64 // when the request was sent that found the slot at our position missing
	pollAt    int64
	busy      bool     // a poll or a confirmation is under way
	lost      bool     // a referenced object is missing: the position must be confirmed
	askedBusy []uint64 // tags of EvConfirm that came while busy
	confirmed string   // the newest snapshot whose chain led through our position
}

// followEnd is reached at the first missing slot.
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
	if c.role == RoleStarting {
		c.role = RoleFollower
		c.emit(Effect{Kind: EffRole, Role: RoleFollower, Epoch: c.Epoch()})
	}
	f.busy = false
	asked := c.waiting || len(c.confirms) > 0
	if asked && (f.lost || !f.known || c.since(f.since, c.cfg.IdleCheck)) {
		c.confirmPosition()
		return
	}
	c.atEnd()
}

// atEnd answers who asked for the end, and waits.
func (c *Core) atEnd() {
	f := &c.follow
	c.confirmed()
	f.pollAt = c.now + int64(c.cfg.FollowPoll)
	if len(f.askedBusy) > 0 {
		c.confirms, f.askedBusy = f.askedBusy, nil
		c.pollNow()
	}
}

// poll looks for the next slot if readers wait and it is time.
func (c *Core) poll() {
	if c.waiting && c.now >= c.follow.pollAt {
		c.pollNow()
	}
}

func (c *Core) pollNow() {
	if c.follow.busy {
		return
	}
	c.follow.busy = true
	c.walkOn()
}

// confirmPosition does R5 (4) for our own position: the newest snapshot's chain must lead through it, else we wait at a
// slot that was collected, or on a branch that is none.
func (c *Core) confirmPosition() {
	c.follow.busy = true
	ours, nonce := c.committed.Pos, c.committed.Nonce
	c.listSnaps(func(names []snapName) {
		names = c.onLog(names)
		switch {
		case len(names) == 0 && c.load.base == "":
			c.onChain("")
		case len(names) == 0: // the snapshot that was loaded is lost: our position shows more than any other start would
			c.walkToPosition(snapName{nonce: c.cluster}, ours, nonce)
		case names[0].key == c.load.base || names[0].key == c.follow.confirmed:
			c.onChain(names[0].key)
		case names[0].pos == ours && names[0].nonce == nonce:
			c.onChain(names[0].key)
		default:
			c.walkToPosition(names[0], ours, nonce)
		}
	})
}

func (c *Core) walkToPosition(from snapName, ours state.Position, nonce record.ID) {
	c.startWalk(from.pos, from.nonce, true, func(s *Slot) bool {
		next, n := state.Position{Epoch: s.Head.Epoch, Slot: s.Head.Slot + 1}, s.Head.Nonce
		if s.Head.Kind == record.KindSeal {
			next, n = state.Position{Epoch: s.Head.NextEpoch}, s.Head.NextNonce
		}
		if next == ours && n == nonce {
			c.onChain(from.key)
			return false
		}
		return true
	}, c.reload)
}

// onChain: the position is on the chain. That no object refers to the log behind it is the other half of the proof.
func (c *Core) onChain(newest string) {
	c.follow.confirmed = newest
	c.proveEnd(func() { c.positionConfirmed(newest) })
}

// positionConfirmed: no snapshot was beyond our position when the LIST began, so the slot there was not collected before:
// when it was found missing it had never been put, and everything before it was applied. (A LIST that began earlier proves
// nothing: the slot may have been collected between the two.)
func (c *Core) positionConfirmed(newest string) {
	f := &c.follow
	f.confirmed = newest
	f.since, f.known = f.missed, true
	f.busy, f.lost = false, false
	if c.since(f.since, c.cfg.IdleCheck) {
		c.pollNow() // it took too long
		return
	}
	c.atEnd()
}

// reload starts over from the newest snapshot; until it is loaded the old committed prefix is served.
func (c *Core) reload() {
	c.follow = following{busy: true, pollAt: c.now + int64(second), askedBusy: c.follow.askedBusy}
	c.loadNewest()
}
