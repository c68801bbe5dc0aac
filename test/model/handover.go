package model

import "time"

// handing is a hand-over (H13): prepare, ready, drain, take, leads.
type handing struct {
	to       int
	why      reason
	stage    stageOf
	deadline time.Duration
}

type (
	reason  uint8
	stageOf uint8
)

const (
	forExit  reason = iota // SIGTERM, or an operator
	forStore               // the store does not answer this leader
)

const (
	preparing stageOf = iota
	draining
	taking
)

// handOver starts a hand-over to a heard standby whose store answers and that has caught up.
func (p *process) handOver(why reason) {
	l, w := p.leads, p.w
	var able, fresh []int
	for i := range p.peers {
		q := &p.peers[i]
		if !p.heard(q) || q.info.leads || !q.info.storeOK || !q.info.loaded || q.info.quitting || q.info.pos.epoch != l.epoch || q.info.pos.slot < l.low-window {
			continue
		}
		able = append(able, i)
		if l.tried&(1<<i) == 0 {
			fresh = append(fresh, i)
		}
	}
	if len(fresh) > 0 {
		able = fresh
	}
	if len(able) == 0 {
		l.handedAt = p.rt
		return
	}
	w.stat.HandOvers++
	to := pick(w, able...)
	h := &handing{to: to, why: why, deadline: p.rt + w.times.parked}
	l.hand = h
	w.logf("%v hands over to broker %d", p.h, to)
	w.send(p, to, func(o *process) {
		if o.loaded && o.pos.epoch == l.epoch && o.busy != standing && w.now >= o.h.cutTill {
			w.send(o, p.h.i, func(q *process) { q.onReady(h) }, nil)
		}
	}, nil)
}

func (p *process) onReady(h *handing) {
	l := p.leads
	if l == nil || l.hand != h || h.stage != preparing {
		return
	}
	h.stage, h.deadline = draining, p.rt+p.w.times.parked
	l.parking = true
}

// handTick continues or aborts the hand-over.
func (p *process) handTick() {
	l, w := p.leads, p.w
	h := l.hand
	if h == nil {
		return
	}
	undrained := l.next != l.low
	switch {
	case h.stage == preparing && p.rt > h.deadline:
		l.hand, l.handedAt = nil, p.rt
	case h.stage == draining && (!undrained || h.why == forStore && w.on(Undrained)):
		h.stage, h.deadline = taking, p.rt+w.times.parked
		if undrained {
			w.stat.Undrained++
		}
		pos, by := p.pos, p.id
		l.takeAt = pos.slot
		w.send(p, h.to, func(o *process) { o.onTake(pos, by, undrained) }, nil)
		if undrained {
			p.stepDown() // no abort: what is in flight is unknown
		}
	case h.stage != preparing && p.rt > h.deadline:
		p.abort(h)
	}
}

// abort continues to lead. Parked calls wait until an empty slot has shown that no earlier take won.
func (p *process) abort(h *handing) {
	l, w := p.leads, p.w
	w.stat.Aborts++
	w.logf("%v aborts its hand-over", p.h)
	l.hand, l.handedAt, l.parking = nil, p.rt, false
	l.tried |= 1 << h.to
	list := numbers(l.parked)
	l.parked = nil
	for _, n := range list {
		w.calls[n].parked = true
	}
	l.queue = append(l.queue, list...)
	if !w.on(MoveOnce) {
		for _, n := range list {
			p.forward(n, h.to, 1)
		}
	}
	if w.on(EmptyFirst) && l.next == l.low {
		l.gap = gapWanted
	}
}

// onTake stands against the epoch at the position that the leader names.
func (p *process) onTake(pos position, by runID, undrained bool) {
	switch {
	case p.leads != nil || !p.loaded || p.busy == standing || p.pos.epoch != pos.epoch:
		return
	case p.busy == catching && p.w.on(OneOwner): // one task at a time changes the state
		p.after(tick, func() { p.onTake(pos, by, undrained) })
		return
	}
	p.startStand(func(t *task) {
		if undrained || p.pos != pos {
			p.walk(t, always)
		}
		if p.pos.epoch == pos.epoch && p.sealer == by && (undrained || p.pos == pos) {
			p.stand(t, handOver)
		}
	})
}
