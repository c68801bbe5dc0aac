package sim

import (
	"errors"
	"time"

	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// parkedMost bounds how long a leader stays parked.
const parkedMost = 3 * time.Second

// yielding is what a leader does because it has standbys.
type yielding struct {
	scheduled bool
	shows     bool // it commits empty slots while nothing else is written
	// drained is the committed position of a parked leader with nothing in flight. Another broker may
	// seal the epoch there.
	drained state.Position
}

// identity is what the SEALs of a run name.
func (n *node) identity() state.Run {
	if n.w.cfg.StandEvery == 0 {
		return state.Run{}
	}
	return state.Run{Node: record.ID{1, byte(n.id)}, ID: record.ID{byte(n.runs), byte(n.runs >> 8), 1}}
}

// yields lets a leader step down, park or show life after a time, again and again.
func (r *run) yields() {
	w := r.n.w
	if w.cfg.YieldEvery == 0 || r.yield.scheduled {
		return
	}
	r.yield.scheduled = true
	w.after(w.around(w.crashRand, w.cfg.YieldEvery), func() {
		r.deliver(func() {
			if r.yield.scheduled = false; r.core.Role() != core.RoleLeader {
				return
			}
			if w.late() {
				r.show(0, 0)
				return
			}
			switch w.crashRand.IntN(5) {
			case 0:
				r.stepDown()
			case 1:
				r.show(0, 0)
			case 2:
				r.show(time.Duration(1+w.crashRand.IntN(1000))*time.Millisecond, uint32(w.crashRand.IntN(3)*1000))
			default:
				r.park()
			}
			r.yields()
		})
	})
}

func (r *run) show(pace time.Duration, promise uint32) {
	r.yield.shows = pace > 0
	r.step(&core.Event{Kind: core.EvShow, Pace: core.Duration(pace), Promise: promise})
}

func (r *run) stepDown() {
	w := r.n.w
	w.logf("node %d steps down", r.n.id)
	r.step(&core.Event{Kind: core.EvStepDown})
}

// park lets a leader park for a while. Sometimes a follower stands meanwhile.
func (r *run) park() {
	w := r.n.w
	w.stats.Parks++
	w.logf("node %d parks", r.n.id)
	r.step(&core.Event{Kind: core.EvPark})
	if to := w.nodes[w.crashRand.IntN(w.cfg.Nodes)].run; to != nil && to != r {
		w.after(w.upTo(w.crashRand, parkedMost), func() { to.deliver(to.stand) })
	}
	down := w.crashRand.IntN(4) == 0
	was := r.core
	w.after(w.upTo(w.crashRand, parkedMost), func() {
		r.deliver(func() {
			switch {
			case r.core != was || r.core.Role() != core.RoleLeader:
			case down && !w.late():
				r.stepDown()
			default:
				w.logf("node %d continues to lead", r.n.id)
				r.step(&core.Event{Kind: core.EvUnpark})
			}
		})
	})
}

// drains notes where a parked leader has nothing in flight.
func (r *run) drains() {
	if r.core.Parked() && r.core.InFlight() == 0 {
		r.yield.drained = r.core.State().Pos
	}
}

// parkedUnknown checks I20: no call that waited at a parked leader is unknown because another broker
// has sealed the epoch meanwhile.
func (r *run) parkedUnknown(f *core.Frozen) {
	at := state.Position{Epoch: f.Head.Epoch, Slot: f.Head.Slot}
	if ops, _ := f.Proposal.User.([]*op); len(ops) > 0 && at == r.yield.drained && errors.Is(r.core.Err(), state.ErrFenced) {
		r.n.w.fail("I20: node %d parked at %d/%d, and the calls that waited are unknown", r.n.id, at.Epoch, at.Slot)
	}
}

// sealed checks that the state of a leader names the run that wrote its SEAL.
func (r *run) sealed() {
	if s := r.core.State(); s.Level >= state.LevelStandby && s.Sealer != r.n.identity() {
		r.n.w.fail("node %d leads epoch %d, which %v has sealed", r.n.id, s.Pos.Epoch, s.Sealer)
	}
}

// led reports whether a broker leads the newest epoch.
func (w *simulation) led() bool {
	for _, n := range w.nodes {
		if n.run != nil && w.check.leads(n.run) {
			return true
		}
	}
	return false
}
