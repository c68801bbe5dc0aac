package core

import (
	"fmt"
	"maps"

	"github.com/sebbroker/seb/internal/engine/log/state"
)

// A core is one attempt. A broker that remains on the log after one makes the next core from it:
//
//	New: candidate ──────────────▶ leader ──────▶ fenced    by a SEAL, or EvStepDown
//	                                 ▲              │
//	                                 │         Follow (new core)
//	                              durable SEAL      │
//	                                 │              ▼
//	                             candidate ◀──── follower
//	                                 │    Stand     ▲
//	                                 │  (new core)  │
//	                                 ▼              │
//	                               fenced ──────────┘
//
// The state, the sent SEALs and the callers of EvConfirm pass to the new core. The old one must not
// be used afterwards. The numbers of requests continue, so answers to the old core's requests reach
// no request of the new one.

// ErrOvertaken: a candidate stood against one epoch, and the end of the log was not where it stood:
// the leader writes, or another broker ended the epoch.
var ErrOvertaken = fmt.Errorf("%w: another broker writes the log", state.ErrNotLeader)

// attempt is how a core began, if another core of this process was there before.
type attempt struct {
	follows  bool // it follows until Stand
	once     bool // it stands against one epoch, from the state of a follower
	gone     bool // with once: the leader of the epoch has ended
	outdated bool // the state may be off the chain: begin with the newest snapshot
	fresh    bool // with once: the log was not there yet
}

// next returns a core with what c knows of the log.
func (c *Core) next(a attempt) *Core {
	n := New(c.cfg)
	n.attempt = a
	n.now, n.lastOp = c.now, c.lastOp
	n.cluster, n.committed, n.load = c.cluster, c.committed, c.load
	n.seals, n.waiting, n.heard = c.seals, c.waiting, c.heard
	n.life, n.hint, n.fed = c.life, c.hint, c.fed
	n.confirms = append(c.confirms, c.follow.queuedConfirms...)
	c.ops, c.walk, c.committed = nil, nil, nil
	return n
}

// Follow returns a core that follows the log with the state of a fenced one, and refuses proposals
// with state.ErrNotLeader. It waits for EvStart.
func (c *Core) Follow() *Core {
	if c.role != RoleFenced {
		panic("core: follow after the role " + c.role.String())
	}
	n := c.next(attempt{follows: true, outdated: c.attempt.outdated})
	if c.endErr != ErrOvertaken {
		n.life = c.now // of a leader that another one deposed
	}
	// A committed position does not go back by so many epochs, so the names of older SEALs are not
	// used again (rule R1).
	maps.DeleteFunc(n.seals, func(_ string, s *ownSeal) bool { return s.head.Epoch+sealsKept < n.committed.Pos.Epoch })
	return n
}

// sealsKept is for how many epochs a broker remembers its SEALs.
const sealsKept = 64

// CanStand reports whether Stand may be called: this core follows, and is not loading a snapshot.
func (c *Core) CanStand() bool {
	return c.role == RoleFollower && !c.cfg.ReadOnly && !c.follow.reloading
}

// Stand returns a core that stands against the epoch in which a follower is, with its state. It
// waits for EvStart. It never ends a later epoch: if another broker writes at the end of the log
// first, the attempt ends as RoleFenced with ErrOvertaken, and Follow continues.
//
// gone: the leader of the epoch has ended. Then slots that it left at the end of the log are no sign
// that it lives. The attempt applies them, and ends the epoch behind them. This is rule R5 (2) and
// (3) from the position that the look has proven, so it needs no further rule.
func (c *Core) Stand(gone bool) *Core {
	if !c.CanStand() {
		panic("core: stand in the role " + c.role.String())
	}
	return c.next(attempt{once: true, gone: gone})
}

// follows reports whether this core never becomes leader.
func (c *Core) follows() bool { return c.cfg.ReadOnly || c.attempt.follows }

// resume begins the work of a core that has a state.
func (c *Core) resume() {
	if c.attempt.once {
		c.standAtEnd()
		return
	}
	c.follow.busy = true
	c.followsIn()
	if c.attempt.outdated {
		c.reload()
		return
	}
	c.catchUp()
}

// overtaken ends an attempt against one epoch.
func (c *Core) overtaken(outdated bool) {
	clear(c.ops)
	c.walk = nil
	c.attempt.outdated = outdated || c.attempt.fresh
	c.role = RoleFenced
	c.endErr = ErrOvertaken
	c.emit(Effect{Kind: EffRole, Role: RoleFenced, Epoch: c.Epoch(), Err: ErrOvertaken})
}
