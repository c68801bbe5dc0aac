package sim

import (
	"bytes"
	"time"

	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
)

// feed sends a slot of a leader to the other brokers, as the links of a cluster do: a slot may come
// late or never, and of some only the position comes.
func (r *run) feed(key string, body []byte) {
	w := r.n.w
	for _, n := range w.nodes {
		to := n.run
		how := w.feedRand.IntN(20)
		if to == nil || n == r.n || how == 0 {
			continue
		}
		w.after(w.around(w.feedRand, w.cfg.Latency/4), func() {
			to.deliver(func() { to.fed(key, body, how == 1) })
		})
	}
}

// beats tells the other brokers how far the log of this leader reaches, as long as it leads the epoch.
func (r *run) beats() {
	w, epoch := r.n.w, r.core.Epoch()
	if !w.cfg.Feed {
		return
	}
	w.after(beatEvery, func() {
		if r.dead || r.core.Role() != core.RoleLeader || r.core.Epoch() != epoch {
			return
		}
		r.deliver(func() {
			pos := r.position()
			for _, n := range w.nodes {
				if to := n.run; to != nil && n != r.n {
					w.after(w.upTo(w.feedRand, w.cfg.Latency), func() {
						to.deliver(func() { to.step(&core.Event{Kind: core.EvReach, Pos: pos}) })
					})
				}
			}
			r.beats()
		})
	})
}

// beatEvery is the time between two beats of a leader.
const beatEvery = time.Second

// hears lets a follower wait for the feed instead of polling, in some runs.
func (r *run) hears() {
	if r.n.w.cfg.Heard {
		r.step(&core.Event{Kind: core.EvHeard, On: true})
	}
}

// fed gives a broker a slot, or its position.
func (r *run) fed(key string, body []byte, notice bool) {
	w := r.n.w
	slot, err := decodeSlot(body)
	if err != nil {
		w.fail("simulator: decode %s: %v", key, err)
		return
	}
	if notice {
		w.stats.Reached++
		r.step(&core.Event{Kind: core.EvReach, Pos: core.After(&slot.Head)})
		return
	}
	before := r.position()
	r.step(&core.Event{Kind: core.EvFeed, Slot: slot})
	if r.position() != before && !r.dead {
		w.stats.Fed++
		w.logf("node %d applies %s from the feed", r.n.id, key)
		if !w.check.on[key] || !bytes.Equal(w.check.archive[key], body) {
			if !w.cfg.FeedEarly {
				w.fail("simulator: node %d was fed %s, which is not on the chain", r.n.id, key)
			}
			w.stats.Early++
			r.tainted = true
		}
	}
}

func (r *run) position() (p state.Position) {
	if s := r.core.State(); s != nil {
		p = s.Pos
	}
	return p
}
