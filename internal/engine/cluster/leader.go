package cluster

import (
	"time"

	"github.com/sebbroker/seb/internal/engine/log/state"
)

// leadership is an epoch that this run leads. Its times are running times.
type leadership struct {
	epoch    epochName
	began    time.Duration
	relisted time.Duration

	handing  *handing
	handedAt time.Duration // end of the newest hand-over that was aborted
	tried    map[Run]bool  // runs that did not take over
}

// lead notes whether this run leads.
func (c *Core) lead(fx *Effects) {
	r := &c.report
	switch {
	case !r.Leads:
		if c.l != nil {
			c.lost = c.l.epoch
			c.endLead(fx)
		}
	case c.l == nil || c.l.epoch != epochOf(r):
		if c.l != nil {
			c.endLead(fx)
		}
		c.l = &leadership{epoch: epochOf(r), began: c.run, relisted: c.run, handedAt: -time.Hour, tried: map[Run]bool{}}
		c.led, c.joining, c.take, c.prepared.ID = epochOf(r), false, nil, 0
		if p := c.find(c.against); p != nil { // it ends when it finds the SEAL of this run
			c.end(p, fx)
		}
		c.against = Run{}
		c.nextBeat = 0 // H9
		c.show.pace, c.show.promise = 0, 0
	}
}

// endLead handles the end of a leadership: the run follows from what it has, which is committed (H14).
func (c *Core) endLead(fx *Effects) {
	c.l = nil
	c.life, c.nextLook, c.nextBeat = c.run, 0, 0
	c.joining = false
	c.handed(nil, fx)
}

// stepDown ends the leadership without a SEAL.
func (c *Core) stepDown(fx *Effects) {
	c.ended, fx.StepDown, fx.Epoch = c.l.epoch.epoch, true, c.l.epoch.epoch
	c.endLead(fx)
}

func (c *Core) leadRound(now time.Time, fx *Effects) {
	c.showLife(fx)
	l, r := c.l, &c.report
	troubled := r.InFlight > 0 && r.Oldest > c.t.Trouble && since(now, r.Verdict) > c.t.Trouble
	switch {
	case l.handing != nil:
		c.handRound(fx)
	case troubled && c.run-l.handedAt > c.t.Trouble:
		c.handOver(forStore, fx)
	case (c.leaving || c.asked > 0) && c.run-l.handedAt > c.t.Beat/2:
		c.handOver(forOperator, fx)
	}
	if c.l == nil || l.handing != nil {
		return
	}
	if c.leaving && !c.mayTakeOver() {
		fx.Left = true
	}
	if c.run > c.asked || !c.mayTakeOver() {
		c.handed(ErrNoStandby, fx)
	}
}

// showLife is H5: a leader that a registered run may not see commits empty slots, and each slot says
// when the next one comes. A slower pace begins when a slot has promised it: the promise may be late,
// because the format level was raised late.
func (c *Core) showLife(fx *Effects) {
	unseen, youngest := false, c.run-c.l.began
	for _, p := range c.peers {
		if p.counts() && c.age(p) > c.t.Silent/2 {
			unseen = true
			youngest = min(youngest, c.run-p.echo)
		}
	}
	var pace, promise time.Duration
	if unseen {
		pace, promise = c.t.Alive, c.t.Alive
		slow := c.report.Level >= state.LevelStandby // otherwise slots cannot carry the promise
		if slow && youngest > c.t.Fast*6/10 {
			promise = c.t.Slow
		}
		if slow && youngest > c.t.Fast && c.report.Promise > c.t.Alive {
			pace = c.t.Slow
			if c.run-c.l.relisted > 4*c.t.Slow {
				c.l.relisted, fx.List = c.run, true
			}
		}
	}
	if c.show.pace != pace || c.show.promise != promise {
		c.show.pace, c.show.promise = pace, promise
		fx.Show, fx.Pace, fx.Promise = true, pace, promise
	}
}

// InDoubt reports whether this leader may have been deposed without knowing it (H12). Then it does
// not answer read=latest without a look at its next slot. now is the time of the question: the loop
// of this run may have been stopped since the newest step.
func (c *Core) InDoubt(now time.Time) bool {
	pause := since(now, c.last)
	if c.l == nil || c.clock+pause-c.lookAt < c.t.Young {
		return false // an age that excuses counts pauses
	}
	counted := false
	for _, p := range c.peers {
		if p.counts() {
			counted = true
			if c.age(p)+pause > c.t.Silent/2 {
				return true
			}
		}
	}
	return counted && (pause > c.t.Gap || c.run-c.gapAt < c.t.Doubt)
}
