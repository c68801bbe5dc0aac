package sim

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sebbroker/seb/internal/engine/cluster"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// outage is a fault that brokers with a cluster.Core take over for, or not. With exact times one comes
// at a time, and the next one when the brokers had time to recover.
type outage struct {
	kind      string
	node      *node
	led       bool // it hit the leader
	due       bool // no broker led: one more takeover comes
	quiet     bool // clients write nothing
	takeovers int
	began     int64
	ledAt     int64         // an able leader was last seen
	promise   time.Duration // the longest of a slot since then
	probe     *op
	probed    int64
	lost      int64 // when the registrations were deleted
	still     bool  // no client reads
	idle      bool  // no broker may make a request
}

var outageKinds = strings.Fields(`kill power restart pause pause pause hang cut cut oneway reject island flaky store slowstore list
	term term handover takeover unregister offline slots`)

// moreKinds are the kinds of ClusterConfig.More. What a candidate leaves that a leader has overtaken shows
// at an old format level (Stay).
var (
	moreKinds = append(slices.Clone(outageKinds), "clock", "clock", "return")
	stayKinds = append(slices.Clone(moreKinds), slices.Repeat([]string{"return"}, len(outageKinds)/2)...)
)

// outages starts the faults, checks and clients of brokers with a cluster.Core.
func (w *simulation) outages() {
	if !w.clustered() {
		return
	}
	w.after(w.units(20*time.Second), w.nextOutage)
	w.after(w.units(time.Second), w.watchLeader)
	for range 3 {
		w.readsInSession(&session{})
	}
}

// power10 draws a time of the designed times whose logarithm is uniform, in seconds.
func (w *simulation) power10(from, to float64) time.Duration {
	return w.units(time.Duration(float64(time.Second) * math.Pow(10, from+(to-from)*w.netRand.Float64())))
}

// nextOutage makes a fault and plans the next one.
func (w *simulation) nextOutage() {
	if w.calm {
		return
	}
	w.check.phase()
	r, c := w.netRand, &w.cfg.Cluster
	up := slices.DeleteFunc(slices.Clone(w.nodes), func(n *node) bool { return n.run == nil || n.run.member.leaving })
	if len(up) == 0 {
		w.after(w.units(time.Second), w.nextOutage)
		return
	}
	kinds := outageKinds
	switch {
	case c.Stay:
		kinds = stayKinds
	case c.More:
		kinds = moreKinds
	}
	o := outage{kind: kinds[r.IntN(len(kinds))], node: up[r.IntN(len(up))], began: w.now, ledAt: w.outage.ledAt, promise: w.outage.promise, probe: w.outage.probe, probed: w.outage.probed, lost: w.outage.lost}
	o.quiet = r.IntN(2) == 0
	for _, n := range up {
		if w.check.leads(n.run) && r.IntN(5) < 3 {
			o.node = n
		}
	}
	d := w.units([]time.Duration{300, 900, 1400, 2500, 5000, 12_000, 40_000}[r.IntN(7)] * time.Millisecond)
	switch {
	case !c.Exact:
		d = w.power10(-1, 1.7)
	case r.IntN(8) == 0:
		d = min(c.Times.Fast*time.Duration(6+r.IntN(8))/10, w.units(3*time.Minute))
	}
	o.led, o.due = w.check.leads(o.node.run), !w.led()
	w.outage = o
	w.logf("outage: %s of node %d, leader %v, %v, quiet %v", o.kind, o.node.id, o.led, d, o.quiet)
	w.stats.Faults++
	w.stats.Cluster.count(o.kind)
	lasts := w.begin(o.kind, o.node, d)
	if !c.Exact {
		w.after(w.around(r, w.units(8*time.Second)), w.nextOutage)
		return
	}
	w.after(lasts+w.units(15*time.Second)+w.upTo(r, w.units(30*time.Second)), w.nextOutage)
}

// excuse allows that the broker of a machine is deposed until d is over, and a little longer.
func (n *node) excuse(d time.Duration) {
	n.excused = max(n.excused, n.w.now+int64(d+n.w.units(4*time.Second)))
}

// begin begins a fault and returns how long it lasts.
func (w *simulation) begin(kind string, n *node, d time.Duration) time.Duration {
	r, m := n.run, n.run.member
	switch kind {
	case "kill", "restart", "power":
		if kind == "power" {
			n.power, n.down = true, w.power10(0.5, 1.8)
		}
		n.kill("killed")
		return w.units(time.Second)
	case "pause", "hang":
		if kind == "hang" && w.cfg.Cluster.Exact {
			d = max(d, w.units(12*time.Second))
		}
		if d >= w.cfg.Cluster.Times.Silent-w.cfg.Cluster.Times.Beat-w.units(200*time.Millisecond) {
			n.excuse(d)
		}
		if kind == "pause" {
			m.halt()
		} else {
			r.paused = true
		}
		w.after(d, func() {
			if n.run == r {
				n.resume()
			}
		})
	case "return":
		return w.returns(n)
	case "clock":
		m.ahead += w.cfg.Cluster.Times.Silent + d
	case "store", "offline":
		n.excuse(d)
		n.cut = cutRequests | cutAnswers
		w.after(d, func() { n.cut = 0 })
		if kind == "offline" {
			w.cutLinks("island", n, d)
		}
	case "slowstore":
		n.excuse(d)
		n.slow = []time.Duration{5, 20}[w.netRand.IntN(2)]
		w.after(d, func() { n.slow = 0 })
	case "list":
		w.slowList = d
		w.after(d, func() { w.slowList = 0 })
	case "flaky":
		for i := range 4 {
			w.after(time.Duration(2*i)*d/8, func() {
				if !w.calm {
					w.cutLinks("cut", n, d/8)
				}
			})
		}
	case "cut", "oneway", "reject", "island", "slots":
		w.cutLinks(kind, n, d)
	case "term":
		m.terminate()
		return w.units(cluster.Designed.HandOver)
	case "handover":
		m.receive(func() { m.step(&cluster.Event{Kind: cluster.EvHandOver}) })
		return w.units(cluster.Designed.HandOver)
	case "takeover":
		n.force = true // --take-over
		n.kill("killed")
		return w.units(time.Second)
	case "unregister":
		w.registered, w.outage.lost = nil, w.now
	}
	return d
}

// returns stops a node that continues while the others stand, because their store is slow. Then clients
// write nothing.
func (w *simulation) returns(n *node) time.Duration {
	d, after := w.cfg.Cluster.Times.Silent+w.upTo(w.netRand, w.units(2*time.Second)), w.units(5*time.Second)
	slow := func(by time.Duration) {
		w.outage.quiet = by == 0 && !w.calm
		for _, o := range w.nodes {
			if o != n {
				o.slow = by
			}
		}
	}
	slow(w.units(500*time.Millisecond) / w.cfg.Latency)
	for _, o := range w.nodes {
		if o != n {
			o.excuse(d + after) // one that needs too long to take over may be overtaken
		}
	}
	w.after(d+after, func() { slow(0) })
	return w.begin("pause", n, d) + after
}

// cutLinks cuts the links of a node: to one other, in one direction, by refusal, or to all others.
func (w *simulation) cutLinks(kind string, n *node, d time.Duration) {
	r := w.netRand
	others := slices.DeleteFunc(slices.Clone(w.nodes), func(o *node) bool { return o == n })
	if kind != "island" && kind != "slots" {
		first := r.IntN(len(others))
		others = others[first:min(len(others), first+1+r.IntN(2))]
	}
	oneway, refuses, slots := kind == "oneway", kind == "reject", kind == "slots"
	for _, o := range others {
		pairs := [][2]int{{n.id, o.id}, {o.id, n.id}}
		if oneway {
			pairs = pairs[r.IntN(2):][:1]
		}
		for _, p := range pairs {
			i, j := p[0], p[1]
			w.net.slow[i][j] = slots
			w.net.refuses[i][j] = refuses
			w.net.setCut(i, j, !slots)
			w.after(d, func() {
				w.net.slow[i][j], w.net.refuses[i][j] = false, false
				w.net.setCut(i, j, false)
			})
		}
	}
}

// heal ends all faults. After absurd times all brokers start again, with the designed ones.
func (w *simulation) heal() {
	if !w.clustered() {
		return
	}
	w.check.phase()
	w.slowList, w.outage = 0, outage{ledAt: w.now, began: w.now}
	for _, n := range w.nodes {
		n.slow = 0
		for _, o := range w.nodes {
			w.net.setCut(n.id, o.id, false)
			w.net.refuses[n.id][o.id], w.net.slow[n.id][o.id] = false, false
		}
	}
	if !w.cfg.Cluster.Exact {
		w.cfg.Cluster.Exact, w.cfg.Cluster.Times = true, scaledTimes(w.cfg.Cluster.Unit)
		w.cfg.FailBefore, w.cfg.FailAfter = 0, 0
		for _, n := range w.nodes {
			n.excuse(w.units(20 * time.Second))
			n.kill("killed with the others")
		}
	}
}

// requested counts a request to the store: A3.
func (w *simulation) requested(n *node) {
	w.stats.Cluster.Requests++
	if w.outage.idle {
		w.fail("A3: node %d makes a request, though all brokers are idle", n.id)
	}
}

// idleFor is how long idle brokers make no request.
const idleFor = 10 * time.Minute

// idle checks A3 after the end.
func (w *simulation) idle() {
	if !w.clustered() || w.err != nil {
		return
	}
	w.outage.still = true
	w.runUntil(w.now + int64(w.units(time.Minute)))
	w.outage.idle = true
	w.runUntil(w.now + int64(w.units(idleFor)))
	w.outage.idle, w.outage.still = false, false
}

// able reports whether no fault stops the broker of a node.
func (n *node) able() bool {
	return n.run != nil && !n.run.paused && !n.run.member.leaving && n.cut == 0 && n.slow <= 1
}

const (
	watchEvery = 250 * time.Millisecond
	// ledWithin is how long the log has no leader after a fault.
	ledWithin = 10 * time.Second
)

// watchLeader checks A1: with exact times an able broker leads soon after each fault, and acknowledges.
func (w *simulation) watchLeader() {
	w.after(w.units(watchEvery), w.watchLeader)
	o := &w.outage
	if !w.cfg.Cluster.Exact {
		o.ledAt = w.now
		return
	}
	led, able := w.slowList > 0, false
	for _, n := range w.nodes {
		r := n.run
		if r == nil {
			continue
		}
		able = able || n.able() && w.now-r.born > int64(w.units(3*time.Second))
		if n.cut != 0 {
			o.probed = w.now
		}
		// An idle leader does not notice that the store does not answer it. A slow store is no fault.
		if w.check.leads(r) && !r.paused && (n.cut == 0 || r.core.InFlight() == 0) {
			led = true
			w.probe(r)
		}
	}
	if led || !able {
		o.ledAt, o.promise = w.now, 0
	}
	if f := w.check.fold; f != nil { // a SEAL ends the promise before its broker leads
		o.promise = max(o.promise, time.Duration(f.Promise)*time.Millisecond)
	}
	if most := w.units(ledWithin) + 2*max(0, o.promise-w.cfg.Cluster.Times.Alive); w.now-o.ledAt > int64(most) {
		w.fail("A1: no broker has led for %v, though one could", time.Duration(w.now-o.ledAt))
	}
	w.check.registered()
}

// probe appends a record to the leader: A1. Its answer comes soon if no fault stops the leader.
func (w *simulation) probe(r *run) {
	o, p := &w.outage, w.outage.probe
	if p == nil || p.outcome == acked || p.run != r || o.quiet && p.outcome != waiting || !r.n.able() || r.core.Parked() || r.core.State().TopicByName(p.key.topic) == nil {
		o.probed = w.now
	}
	most := w.units(ledWithin)
	if o.kind == "store" || o.kind == "offline" {
		most += w.units(requestTimeout) // of a request that was sent before the cut was over
	}
	if w.now-o.probed > int64(most) {
		w.fail("A1: node %d leads and has not acknowledged an append for %v", r.n.id, time.Duration(w.now-o.probed))
	}
	if p != nil && p.outcome == waiting && p.run == r || o.quiet || w.late() {
		return
	}
	by := &producer{w: w, id: 1 << 20, seq: w.stats.Cluster.Probes}
	w.stats.Cluster.Probes++
	p = by.newOp(partKey{w.topics[0].name, 0})
	var err error
	if p.data, p.sum, err = record.Append(nil, p.records(), record.EncodeOptions{}); err != nil {
		w.fail("encode records: %v", err)
	}
	w.check.sent.Note(p.data)
	o.probe, p.client = p, nil
	r.deliver(func() { r.submit(p) })
}

// session is a client that reads at all brokers, and passes the newest position that it has seen.
type session struct {
	token state.Position
	next  map[partKey]int64
}

// leaves checks A7 when a process ends after SIGTERM.
func (w *simulation) leaves(m *member) {
	n := m.r.n
	if !w.cfg.Cluster.Exact || w.calm || !w.check.leads(m.r) || w.outage.kind != "term" || w.outage.node != n || n.cut != 0 || n.slow > 1 || n.run.paused ||
		w.slowList > 0 || w.now-m.r.ledAt < int64(w.units(10*time.Second)) {
		return
	}
	for _, o := range w.nodes {
		if o != n && o.able() && w.now-o.run.born > int64(w.units(30*time.Second)) && w.net.passes(n.id, o.id) && w.net.passes(o.id, n.id) &&
			o.run.core.Role() == core.RoleFollower && o.run.member.linkedFor(n, w.units(10*time.Second)) {
			w.fail("A7: node %d ends without a hand-over, though node %d could lead", n.id, o.id)
		}
	}
}
