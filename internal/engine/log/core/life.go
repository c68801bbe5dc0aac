package core

import "github.com/sebbroker/seb/internal/engine/log/state"

// A leader that a standby may not see shows in the log that it leads: it commits an empty slot when
// nothing else was committed for a while, and each slot promises when the next one comes. A candidate
// that finds neither may end the epoch.
//
// Empty slots free nothing, so they are no reason for a snapshot. They count as slots to replay.
type showing struct {
	pace    int64  // 0: none
	promise uint32 // ms; 0: none
}

// show sets the pace and the promise.
func (c *Core) show(ev *Event) {
	if c.role == RoleLeader && c.lead.show.promise != state.Ends {
		c.lead.show = showing{int64(ev.Pace), ev.Promise}
		c.showLife()
	}
}

// end commits the last slot of a leader that a standby may not see. A standby that finds it need not
// wait for signs of life.
func (c *Core) end() {
	l := &c.lead
	if c.role != RoleLeader || l.show.pace == 0 || l.refused != nil || !l.park.freezes() || !c.windowOpen() {
		return
	}
	l.show = showing{promise: state.Ends}
	c.freezeSlot(&Proposal{}, nil, 0)
}

// promises adds the promise to the records of a slot.
func (c *Core) promises(records []state.Record) []state.Record {
	if c.lead.show.promise == 0 || c.lead.overlay.Level < state.LevelStandby {
		return records
	}
	return append(records, state.Record{Kind: state.NextSlot, Within: c.lead.show.promise})
}

// showLife commits an empty slot if it is due. Wall 0 makes its append time the next microsecond.
func (c *Core) showLife() {
	if at := c.aliveAt(); at != 0 && c.now >= at {
		c.freezeSlot(&Proposal{}, nil, 0)
	}
}

// aliveAt is when an empty slot is due; 0: not before another event.
func (c *Core) aliveAt() int64 {
	if l := &c.lead; c.role != RoleLeader || l.show.pace == 0 || len(l.slots) > 0 || !l.park.freezes() {
		return 0
	}
	return c.life + c.lead.show.pace
}
