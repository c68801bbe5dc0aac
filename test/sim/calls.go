package sim

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sebbroker/seb/internal/engine/cluster"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// call is an append that a client sends to any broker. A broker that does not lead forwards it as
// cluster.Forwarding decides. Invariant A8: it is forwarded once, it is not repeated after it may have
// begun, and it gets one answer if the broker lives.
type call struct {
	id       int
	at       *run
	values   []string
	ops      []*op // at brokers that led
	attempts []*attempt
	answered bool
}

// handling is a call at one broker.
type handling struct {
	c      *call
	r      *run
	way    cluster.Forwarding
	answer func(reply)
	held   int64 // since when it waits for a leader; 0: it does not
}

// reply is the answer of a broker.
type reply struct {
	is     cluster.Outcome // CallUnknown: the answer says so
	leader string          // the address of the leader, if the call is refused
}

// attempt is a call on its way from one broker to another one.
type attempt struct {
	h             *handling
	to            *node
	run           cluster.Run
	target        *run // that took the connection
	sent          bool // a part may have left
	refused       bool // the other broker says so
	over          bool
	until, silent int64 // Moved waits until then; since when the path is cut
}

const (
	callWait  = 2 * time.Second // for a leader
	callRetry = 20 * time.Millisecond
)

// callers starts the clients that call any broker.
func (w *simulation) callers() {
	for range w.cfg.Cluster.Callers {
		w.callsLater()
	}
}

func (w *simulation) callsLater() {
	w.after(w.units(callRetry)+w.upTo(w.netRand, w.units(2*time.Second)), func() {
		if w.late() {
			return
		}
		w.callsLater()
		r := w.nodes[w.netRand.IntN(len(w.nodes))].run
		if r == nil || w.outage.quiet || w.outage.still {
			return
		}
		w.stats.Cluster.Calls++
		c := &call{id: w.stats.Cluster.Calls, at: r, values: []string{fmt.Sprintf("call%d", w.stats.Cluster.Calls)}}
		w.calls = append(w.calls, c)
		r.deliver(func() { r.handle(c, false, c.ends) })
	})
}

// handle decides about a call that has arrived. answer sends the answer.
func (r *run) handle(c *call, forwarded bool, answer func(reply)) {
	h := &handling{c: c, r: r, answer: answer}
	h.way = cluster.Forwarding{Address: address, Forwarded: forwarded, Until: r.n.w.designed().Add(callWait)}
	h.next()
}

func address(r *cluster.Registration) string { return r.Name }

// designed is the time in the units of the designed times.
func (w *simulation) designed() time.Time {
	return time.Unix(0, int64(float64(w.now)/w.cfg.Cluster.Unit.Seconds()))
}

func (h *handling) next() {
	w, m := h.r.n.w, h.r.member
	to, route := h.way.Next(m, h.r.core.Role() == core.RoleLeader, w.designed())
	if route != cluster.HoldCall {
		h.held = 0
	}
	switch route {
	case cluster.ServeCall:
		h.serve()
	case cluster.ForwardCall:
		h.forward(&to)
	case cluster.HoldCall:
		if h.held == 0 {
			h.held = w.now
		}
		if w.now-h.held > int64(w.units(callWait+time.Second)) {
			w.fail("A8: node %d holds call %d for %v, and does not answer", h.r.n.id, h.c.id, time.Duration(w.now-h.held))
		}
		w.after(w.units(callRetry), func() { h.r.deliver(h.next) })
	case cluster.RefuseCall:
		leader, _ := m.Leader()
		h.answer(reply{cluster.CallRefused, leader.Name})
	}
}

// begins checks A8 before the call is served or sent.
func (h *handling) begins() {
	for _, o := range h.c.ops {
		if o.outcome != rejectedFor || o.begun {
			h.r.n.w.fail("A8: node %d repeats call %d, which node %d has begun", h.r.n.id, h.c.id, o.run.n.id)
		}
	}
	for _, a := range h.c.attempts {
		if a.sent && !a.refused && a.target != h.r {
			h.r.n.w.fail("A8: node %d repeats call %d, which node %d may have begun", h.r.n.id, h.c.id, a.to.id)
		}
	}
}

// serve appends the record of the call.
func (h *handling) serve() {
	h.begins()
	r, c := h.r, h.c
	w := r.n.w
	o := &op{w: w, id: 1<<53 | uint64(c.id), key: partKey{w.topics[0].name, 0}, expected: -1, values: c.values, call: true}
	var err error
	if o.data, o.sum, err = record.Append(nil, o.records(), record.EncodeOptions{}); err != nil {
		w.fail("encode records: %v", err)
	}
	w.check.sent.Note(o.data)
	c.ops = append(c.ops, o)
	o.done = func(o *op) {
		is := cluster.CallAnswered
		switch {
		case r.dead:
			return
		case o.outcome == unknown:
			is = cluster.CallUnknown
		case o.outcome == rejectedFor && (errors.Is(o.why, state.ErrNotLeader) || errors.Is(o.why, state.ErrFenced)):
			if is = cluster.CallRefused; !h.way.Forwarded && h.way.Again(is, true) {
				w.after(w.units(callRetry), func() { r.deliver(h.next) })
				return
			}
		}
		h.answer(reply{is: is})
	}
	r.submit(o)
}

// forward sends the call to another broker.
func (h *handling) forward(to *cluster.Registration) {
	w := h.r.n.w
	h.begins()
	if h.way.Forwarded {
		w.fail("A8: node %d forwards call %d, which another broker has forwarded to it", h.r.n.id, h.c.id)
	}
	w.stats.Cluster.Forwarded++
	if len(h.c.attempts) > 0 {
		w.stats.Cluster.Repeated++
	}
	a := &attempt{h: h, to: w.nodeOf(to.Run), run: to.Run}
	h.c.attempts = append(h.c.attempts, a)
	w.after(w.net.delay()+w.net.delay(), a.dialed)
	a.watch()
}

// dialed is the end of the dial.
func (a *attempt) dialed() {
	net, i, j := a.h.r.n.w.net, a.h.r.n.id, a.to.id
	switch {
	case a.over || a.h.r.dead:
	case !net.passes(i, j) || !net.passes(j, i) || a.to.power:
		net.w.after(net.w.units(time.Second), func() { a.ends(reply{is: cluster.Unanswered(a.sent)}) })
	case net.refuses[i][j] || a.to.run == nil:
		a.ends(reply{is: cluster.Unanswered(a.sent)})
	default:
		a.sent, a.target = true, a.to.run
		net.travels(i, j, func() {
			a.target.deliver(func() {
				a.target.handle(a.h.c, true, func(x reply) {
					a.refused = x.is == cluster.CallRefused
					net.travels(j, i, func() { a.ends(x) })
				})
			})
		})
	}
}

// travels lets f happen when a message from i arrives at j, perhaps after a cut.
func (net *network) travels(i, j int, f func()) {
	net.w.after(net.delay(), func() {
		if net.passes(i, j) {
			f()
			return
		}
		net.w.after(net.w.units(200*time.Millisecond), func() { net.travels(i, j, f) })
	})
}

// watch ends an attempt whose broker has died, cannot be reached, or leads no more.
func (a *attempt) watch() {
	w, r := a.h.r.n.w, a.h.r
	w.after(w.units(2*callRetry), func() {
		r.deliver(func() {
			if a.over {
				return
			}
			cut := !w.net.passes(r.n.id, a.to.id) || !w.net.passes(a.to.id, r.n.id)
			if !cut {
				a.silent = w.now
			}
			if grace, moved := cluster.Moved(r.member, a.run); moved && a.until == 0 {
				a.until = w.now + int64(w.units(grace))
			}
			if a.until > 0 && w.now > a.until || !cut && a.target != nil && a.target.dead || a.silent > 0 && w.now-a.silent > int64(w.net.times.Dead) {
				a.ends(reply{is: cluster.Unanswered(a.sent)})
				return
			}
			a.watch()
		})
	})
}

// ends is the end of the attempt at the broker that has made it.
func (a *attempt) ends(x reply) {
	h := a.h
	h.r.deliver(func() {
		if a.over {
			return
		}
		a.over = true
		if h.way.Again(x.is, true) {
			h.way.Hint(x.leader)
			h.next()
			return
		}
		h.answer(x)
	})
}

// ends is the answer to the client. A refused call has no effect.
func (c *call) ends(x reply) {
	w := c.at.n.w
	if c.answered {
		w.fail("A8: node %d answers call %d twice", c.at.n.id, c.id)
	}
	c.answered = true
	w.calls = slices.DeleteFunc(w.calls, func(o *call) bool { return o == c })
	v := w.check.value(c.values[0])
	if x.is == cluster.CallRefused || x.is == cluster.CallUnsent {
		w.stats.Cluster.Refused++
		if v.rejected = true; v.at >= 0 {
			w.fail("I2: call %d was refused but is at offset %d", c.id, v.at)
		}
	}
}

// calls checks A8 at the end: each call of a broker that lives has its answer.
func (c *checker) calls() {
	for _, x := range c.w.calls {
		if !x.at.dead {
			c.w.fail("A8: node %d has not answered call %d", x.at.n.id, x.id)
		}
	}
}

// A member is the cluster.View of its broker.

// Self implements cluster.View.
func (m *member) Self() cluster.Registration { return m.self }

// Leader implements cluster.View.
func (m *member) Leader() (cluster.Registration, bool) {
	for _, o := range m.core.Members() {
		if o.Leads {
			return o.Registration, true
		}
	}
	return cluster.Registration{}, false
}

// Members implements cluster.View.
func (m *member) Members() []cluster.Member { return m.core.Members() }

// Wrong implements cluster.View.
func (m *member) Wrong() []string { return nil }

// Changed implements cluster.View.
func (m *member) Changed() <-chan struct{} { return nil }
