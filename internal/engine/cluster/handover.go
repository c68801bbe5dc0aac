package cluster

import (
	"time"

	"github.com/sebbroker/seb/internal/engine/log/state"
)

// window is the number of slots in flight (R2).
const window = 4

// handing is a hand-over at the leader (H13):
//
//	leader                              standby
//	prepare ─────────────────────────▶
//	        ◀───────────────────────── ready
//	park, drain
//	take (position, checksum) ───────▶  stands at the position
//	        ◀───────────────────────── a beat: leads
//
// Each step has a deadline. After the last one the leader continues, with an empty slot before the
// parked calls, because the SEAL of the successor may still come.
type handing struct {
	id       uint64
	to       Run
	why      reason
	step     handStep
	deadline time.Duration
	message  Message       // prepare or take
	sent     time.Duration // a link that ends loses messages
}

type (
	reason   uint8
	handStep uint8
)

const (
	forOperator reason = iota // or for the end of the process
	forStore                  // the store does not answer this leader
)

const (
	preparing handStep = iota
	draining
	handed
)

// taking is a hand-over at the standby.
type taking struct {
	hand     Hand
	deadline time.Duration
}

func (c *Core) onHandOver(fx *Effects) {
	switch {
	case c.l == nil:
		fx.Handed, fx.HandErr = true, state.ErrNotLeader
	case !c.mayTakeOver():
		fx.Handed, fx.HandErr = true, ErrNoStandby
	default:
		c.asked, fx.Ask = c.run+c.t.HandOver, true
	}
}

// handed answers an operator.
func (c *Core) handed(err error, fx *Effects) {
	if c.asked > 0 {
		c.asked = 0
		fx.Handed, fx.HandErr = true, err
	}
}

// mayTakeOver reports whether a standby is there that may be able to take over now or soon.
func (c *Core) mayTakeOver() bool {
	for _, p := range c.peers {
		if c.mayLead(p) && !c.l.tried[p.run] {
			return true
		}
	}
	return false
}

func (c *Core) mayLead(p *peer) bool {
	b := &p.beat
	return p.counts() && c.heard(p) && !b.Leads && b.StoreOK && !b.Leaving && p.reg.LevelMax >= c.report.Level
}

// handOver starts a hand-over to a standby, first to one that was not tried, and of these to the one
// that has applied most.
func (c *Core) handOver(why reason, fx *Effects) {
	l := c.l
	var to *peer
	for _, p := range c.peers {
		b := &p.beat
		if !c.mayLead(p) || !b.Loaded || (epochName{b.Pos.Epoch, b.PosNonce}) != l.epoch {
			continue
		}
		if to == nil || l.tried[to.run] && !l.tried[p.run] || l.tried[to.run] == l.tried[p.run] && to.beat.Pos.Slot < b.Pos.Slot {
			to = p
		}
	}
	if to == nil {
		l.handedAt = c.run
		return
	}
	c.ids++
	l.handing = &handing{id: c.ids, to: to.run, why: why, deadline: c.run + c.t.Parked}
	c.hand(MsgPrepare, Hand{ID: c.ids, Epoch: l.epoch.epoch, Nonce: l.epoch.nonce, Pos: c.report.Pos}, fx)
}

// hand sends a step of the hand-over.
func (c *Core) hand(k MessageKind, step Hand, fx *Effects) {
	h := c.l.handing
	h.message, h.sent = Message{Kind: k, Hand: step}, c.run
	fx.send(h.to, &h.message)
}

// onPrepare reads the log up to the leader's position.
func (c *Core) onPrepare(from Run, h *Hand, fx *Effects) {
	c.prepared, c.preparedBy = *h, from
	fx.Reach, fx.Ask = h.Pos, true
}

// readyRound tells a leader that this run can take over: it has all but the newest slots.
func (c *Core) readyRound(fx *Effects) {
	h := &c.prepared
	if h.ID == 0 || epochOf(&c.report) != (epochName{h.Epoch, h.Nonce}) || c.report.Pos.Slot+window < h.Pos.Slot {
		return
	}
	if c.storeOK && !c.stands() && !c.leaving && c.cfg.Self.Stands() {
		fx.send(c.preparedBy, &Message{Kind: MsgReady, Hand: *h})
	}
	h.ID = 0
}

// handingOf returns the hand-over that h belongs to.
func (c *Core) handingOf(from Run, h *Hand) *handing {
	if c.l == nil || c.l.handing == nil || c.l.handing.id != h.ID || c.l.handing.to != from {
		return nil
	}
	return c.l.handing
}

func (c *Core) onReady(from Run, hand *Hand, fx *Effects) {
	h := c.handingOf(from, hand)
	if h == nil || h.step != preparing {
		return
	}
	h.step, h.deadline = draining, c.run+c.t.Parked
	fx.Park = Drain
	if h.why == forStore {
		fx.Park = Park
	}
}

// onParked names the position. With slots in flight the leader stops, because their outcome is
// unknown (undrained).
func (c *Core) onParked(r *Report, fx *Effects) {
	if c.l == nil || c.l.handing == nil || c.l.handing.step != draining || !r.Leads || epochOf(r) != c.l.epoch {
		return
	}
	h := c.l.handing
	if r.InFlight > 0 && h.why != forStore {
		return
	}
	h.step, h.deadline = handed, c.run+c.t.Parked
	c.hand(MsgTake, Hand{
		ID: h.id, Epoch: c.l.epoch.epoch, Nonce: c.l.epoch.nonce, Pos: r.Pos, PrevCRC: r.PrevCRC, Undrained: r.InFlight > 0,
	}, fx)
	if r.InFlight > 0 {
		c.stepDown(fx)
	}
}

// handRound ends a hand-over that takes too long.
func (c *Core) handRound(fx *Effects) {
	l := c.l
	h := l.handing
	if c.run <= h.deadline {
		if h.step != draining && c.run-h.sent >= c.t.Beat {
			c.hand(h.message.Kind, h.message.Hand, fx)
		}
		return
	}
	l.handing, l.handedAt = nil, c.run
	l.tried[h.to] = true
	if h.step != preparing {
		fx.Park = Unpark
	}
}

// onTake stands at the position that the leader names.
func (c *Core) onTake(from Run, h *Hand, fx *Effects) {
	if c.l != nil || !c.report.Loaded || epochOf(&c.report) != (epochName{h.Epoch, h.Nonce}) {
		return
	}
	if s := c.report.Sealer; !s.IsZero() && s != from {
		return
	}
	if c.take == nil || c.take.hand.ID != h.ID {
		c.take, c.nextLook = &taking{}, 0
	}
	c.take.hand, c.take.deadline = *h, c.run+2*c.t.Parked
	fx.Ask = true
	if !h.Undrained {
		fx.Reach = h.Pos
	}
}

// takeRound stands for a hand-over once the log has reached the position. It returns true while that
// is under way.
func (c *Core) takeRound(fx *Effects) bool {
	t, r := c.take, &c.report
	if t == nil {
		return false
	}
	h := &t.hand
	if c.run > t.deadline || epochOf(r) != (epochName{h.Epoch, h.Nonce}) || !h.Undrained && h.Pos.Less(r.Pos) {
		c.take = nil // it is over, or the leader continued
		return false
	}
	if c.run >= c.nextLook && (h.Undrained || r.Pos == h.Pos && r.PrevCRC == h.PrevCRC) {
		c.stand(fx)
	}
	return true
}
