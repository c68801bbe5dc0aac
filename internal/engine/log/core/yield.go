package core

import (
	"fmt"

	"github.com/sebbroker/seb/internal/engine/log/state"
)

// ErrSteppedDown: this leader has ended its epoch by itself (EvStepDown).
var ErrSteppedDown = fmt.Errorf("%w: this broker stopped leading", state.ErrNotLeader)

// stepDown ends a leadership without a SEAL. That is always safe: to the log it is a leader that
// crashed. Slots in flight are unknown, and may still be stored.
func (c *Core) stepDown() {
	if c.role != RoleLeader {
		return
	}
	c.role, c.endErr = RoleFenced, ErrSteppedDown
	c.abandon()
	c.emit(Effect{Kind: EffRole, Role: RoleFenced, Epoch: c.Epoch(), Err: ErrSteppedDown})
}

// parking is a leader's part in a hand-over: it freezes nothing, because another broker may seal its
// epoch at the committed position.
//
//	EvPark ──▶ parked ──EvUnpark──▶ empty slot in flight ──commit──▶ freezes
//
// The empty slot comes first, so that the outcome of no member is unknown if the SEAL of the other
// broker came in time.
type parking struct {
	parked bool
	gap    bool  // an empty slot comes before all members
	slot   *slot // that slot, once it is frozen
}

// freezes reports whether members may be frozen.
func (p *parking) freezes() bool { return !p.parked && !p.gap }

func (c *Core) park() {
	if c.role == RoleLeader {
		c.lead.park.parked = true
	}
}

func (c *Core) unpark() {
	if p := &c.lead.park; c.role == RoleLeader && p.parked {
		p.parked, p.gap = false, true
		c.fillGap()
	}
}

// fillGap freezes the empty slot after EvUnpark, if the window has room.
func (c *Core) fillGap() {
	if p := &c.lead.park; p.gap && !p.parked && p.slot == nil && c.windowOpen() {
		p.slot = c.freezeSlot(&Proposal{}, nil, 0)
	}
}

// gapFilled notes a committed slot.
func (c *Core) gapFilled(s *slot) {
	p := &c.lead.park
	if p.slot == s {
		p.slot, p.gap = nil, false
	}
	c.fillGap()
}

// Parked reports whether this leader freezes nothing because of EvPark.
func (c *Core) Parked() bool { return c.role == RoleLeader && c.lead.park.parked }
