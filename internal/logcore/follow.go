package logcore

import (
	"github.com/sebbroker/seb/internal/state"
	"github.com/sebbroker/seb/record"
)

// following is a read-only core's state at the end of the log: the missing slot there is provisional (rule R11).
type following struct {
	at        state.Position // where it waits
	since     int64          // since when it waits there, or was last confirmed there
	pollAt    int64
	busy      bool     // a poll or a confirmation is under way
	askedBusy []uint64 // tags of EvConfirm that came while busy
	confirmed string   // the newest snapshot whose chain led through our position
}

// followEnd is reached at the first missing slot.
func (c *Core) followEnd() {
	f := &c.follow
	if c.role == RoleStarting {
		c.role = RoleFollower
		c.emit(Effect{Kind: EffRole, Role: RoleFollower, Epoch: c.Epoch()})
	}
	if f.at != c.committed.Pos || f.since == 0 {
		f.at, f.since = c.committed.Pos, c.now
	}
	f.busy = false
	c.confirmed()
	if len(f.askedBusy) > 0 {
		c.confirms, f.askedBusy = f.askedBusy, nil
		c.pollNow()
		return
	}
	if c.waiting && c.since(f.since, c.cfg.IdleCheck) {
		c.confirmPosition()
		return
	}
	f.pollAt = c.now + int64(c.cfg.FollowPoll)
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
		switch {
		case len(names) == 0 && c.load.base == "":
			c.positionConfirmed("")
		case len(names) == 0:
			c.reload()
		case names[0].key == c.load.base || names[0].key == c.follow.confirmed:
			c.positionConfirmed(names[0].key)
		case names[0].pos == ours && names[0].nonce == nonce:
			c.positionConfirmed(names[0].key)
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
			c.positionConfirmed(from.key)
			return false
		}
		return true
	}, c.reload)
}

func (c *Core) positionConfirmed(newest string) {
	c.follow.confirmed = newest
	c.follow.since = c.now
	c.follow.busy = false
	c.follow.pollAt = c.now + int64(c.cfg.FollowPoll)
	if len(c.follow.askedBusy) > 0 {
		c.confirms, c.follow.askedBusy = c.follow.askedBusy, nil
		c.pollNow()
	}
}

// reload starts over from the newest snapshot; until it is loaded the old committed prefix is served.
func (c *Core) reload() {
	c.follow = following{busy: true, pollAt: c.now + int64(second), askedBusy: c.follow.askedBusy}
	c.loadNewest()
}
