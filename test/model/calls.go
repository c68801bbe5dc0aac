package model

import "time"

// call is one append of a client.
type call struct {
	state  outcome
	at     *process // the process that must answer it
	to     *process // the process to which that one has forwarded it
	made   time.Duration
	stored bool // it is on the chain
	epoch  int  // there
	parked bool // it was parked by a hand-over that was aborted
}

type outcome uint8

const (
	openCall outcome = iota
	ackedCall
	rejectedCall
	unknownCall
)

type parkedCall struct {
	n        int
	deadline time.Duration
}

type ackedAt struct {
	at    time.Duration
	epoch int
}

func numbers(list []parkedCall) (n []int) {
	for _, c := range list {
		n = append(n, c.n)
	}
	return n
}

// client makes a call at a random broker.
func (w *world) client() {
	w.at(time.Duration(w.rnd.ExpFloat64()*float64(time.Second)/max(float64(w.rate), 0.2)), w.client)
	if w.rate == 0 || w.healed && w.chance(0.5) {
		return
	}
	var up []*process
	for _, h := range w.hosts {
		if h.p != nil {
			up = append(up, h.p)
		}
	}
	if len(up) == 0 {
		return
	}
	p := pick(w, up...)
	n := len(w.calls)
	w.calls = append(w.calls, call{at: p, made: w.now})
	w.disturb(0)
	p.after(ms, func() { p.submit(n) })
}

// answer tells the client an outcome (R4).
func (w *world) answer(n int, a outcome) {
	c := &w.calls[n]
	if c.state != openCall {
		w.violate("%s", answeredTwice)
	}
	c.state = a
	switch a {
	case ackedCall:
		w.stat.Acked++
		if !c.stored {
			w.violate("%s", ackLost)
		}
		w.acked = append(w.acked, ackedAt{w.now, c.epoch})
	case rejectedCall:
		w.stat.Rejected++
		if c.stored {
			w.violate("%s", rejectedAppears)
		}
	default:
		w.stat.Unknown++
	}
}

// submit takes a call: the leader queues it, a standby forwards it, and without a leader it waits.
func (p *process) submit(n int) {
	if p.w.calls[n].state != openCall {
		return
	}
	if l := p.leads; l != nil {
		if l.parking {
			l.parked = append(l.parked, parkedCall{n, p.rt + 2*p.w.times.parked})
		} else {
			l.queue = append(l.queue, n)
		}
		return
	}
	if q := p.leaderSeen(); q != nil {
		p.forward(n, q.id.folder, 1)
		return
	}
	p.parked = append(p.parked, parkedCall{n, p.rt + p.w.times.parked})
}

func (p *process) expireParked() {
	keep := p.parked[:0]
	for _, c := range p.parked {
		if p.rt > c.deadline {
			p.w.answer(c.n, rejectedCall)
		} else {
			keep = append(keep, c)
		}
	}
	p.parked = keep
}

// forward sends a call to a leader (H17). It is sent again only if it did not begin there.
func (p *process) forward(n, to, tries int) {
	w := p.w
	c := func() *call { return &w.calls[n] }
	lost := func(bool) {
		p.receive(func() {
			switch {
			case c().state != openCall:
			case !w.on(ForwardOnce):
				p.after(500*ms, func() { p.submit(n) })
			case c().at == p:
				w.answer(n, unknownCall)
			}
		}, true)
	}
	c().to = w.hosts[to].p
	w.send(p, to, func(o *process) {
		if c().state != openCall {
			return
		}
		if l := o.leads; l != nil && !l.parking {
			c().at = o // from now on it answers
			l.queue = append(l.queue, n)
			if !w.on(ForwardOnce) && w.chance(0.02) {
				lost(false)
			}
			return
		}
		w.send(o, p.h.i, func(q *process) {
			if q == p {
				c().to = nil
			}
			switch {
			case q != p || c().state != openCall:
			case tries >= 2:
				w.answer(n, rejectedCall)
			case q.leads != nil:
				q.submit(n)
			default:
				q.parked = append(q.parked, parkedCall{n, q.rt + w.times.parked})
			}
		}, lost)
	}, lost)
}
