package sim

import (
	"time"

	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// followWithin bounds the time that a broker takes to follow after it was fenced.
const followWithin = 50 * time.Millisecond

// standMost bounds how long a follower waits until it stands, because all others may wait as long.
const standMost = 20 * time.Second

// follows lets a broker follow the log in the same process after it was fenced, stood in vain or
// stepped down.
func (r *run) follows(why error) {
	w := r.n.w
	switch why {
	case core.ErrOvertaken:
		w.stats.Overtaken++
	case core.ErrSteppedDown:
		w.stats.SteppedDown++
	default:
		w.stats.Fenced++
	}
	w.after(w.upTo(w.crashRand, followWithin), func() {
		r.deliver(func() {
			clear(r.bodies)
			r.rules.frozen = 0
			r.yield.drained = state.Position{}
			r.core = r.core.Follow()
			r.step(&core.Event{Kind: core.EvStart})
			r.step(&core.Event{Kind: core.EvReaders, On: !w.clustered()})
		})
	})
}

// stands lets a follower stand after a time, unless the run is about to end and a broker leads.
func (r *run) stands() {
	w := r.n.w
	if w.cfg.StandEvery == 0 || r.n.readOnly || r.standing || w.clustered() {
		return
	}
	r.standing = true
	w.after(min(w.around(w.crashRand, w.cfg.StandEvery), standMost), func() {
		r.deliver(func() {
			r.standing = false
			if r.core.Role() == core.RoleFollower {
				r.stands()
				r.stand()
			}
		})
	})
}

// stand lets a follower stand.
func (r *run) stand() {
	w := r.n.w
	if r.core.CanStand() && !(w.late() && w.led()) {
		r.standNow(w.stats.Stands%2 == 0) // also if the leader lives: that is no rule of the log
	}
}

func (r *run) standNow(gone bool) {
	w := r.n.w
	w.stats.Stands++
	w.logf("node %d stands", r.n.id)
	r.rules.against = record.ID{}
	if s := r.core.State(); s != nil {
		r.rules.against = s.Nonce
	}
	r.core = r.core.Stand(gone)
	r.step(&core.Event{Kind: core.EvStart})
}

// follower reports whether a broker serves reads without writing: it is read-only, or waits to lead.
func (r *run) follower() bool { return r.n.readOnly || r.core.Role() == core.RoleFollower }
