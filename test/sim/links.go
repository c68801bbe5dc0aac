package sim

import (
	"bytes"
	"slices"
	"time"

	"github.com/sebbroker/seb/internal/engine/cluster"
	"github.com/sebbroker/seb/internal/engine/cluster/link"
)

// network is the directed network between brokers. A connection keeps the order of its messages. What
// is sent into a cut arrives when the cut ends, if the connection still exists then.
type network struct {
	w       *simulation
	times   link.Times
	cut     [][]int64 // when the path from one node to another was cut; 0: it is not
	refuses [][]bool  // a rule on the path refuses connections
	slow    [][]bool  // slots take long
	conns   []*conn
}

// conn is a connection of two runs. Each end learns of the end of the connection by itself.
type conn struct {
	w     *simulation
	ends  [2]connEnd // the first one has dialed
	began int64
}

type connEnd struct {
	m      *member
	closed bool
	last   int64    // when the newest message that it sent arrives
	slot   int64    // and the newest slot
	slots  int      // that have not arrived
	behind bool     // slots are notices until all have arrived
	held   []func() // what it sent into a cut
}

func newNetwork(w *simulation) *network {
	n := w.cfg.Nodes
	net := &network{w: w, cut: make([][]int64, n), refuses: make([][]bool, n), slow: make([][]bool, n)}
	for i := range n {
		net.cut[i], net.refuses[i], net.slow[i] = make([]int64, n), make([]bool, n), make([]bool, n)
	}
	d := link.Designed
	for _, t := range []*time.Duration{&d.Greet, &d.Other, &d.Soon, &d.Trying, &d.Later, &d.Idle, &d.Dead} {
		*t = w.units(*t)
	}
	net.times = d
	return net
}

// delay draws the time of a message.
func (net *network) delay() time.Duration {
	w := net.w
	return min(w.around(w.netRand, w.cfg.Cluster.Delay), 4*w.cfg.Cluster.Delay)
}

func (net *network) passes(i, j int) bool { return net.cut[i][j] == 0 }

// setCut cuts the path from i to j, or repairs it.
func (net *network) setCut(i, j int, cut bool) {
	w := net.w
	was := net.cut[i][j]
	if !cut {
		net.cut[i][j] = 0
		if was != 0 {
			w.after(w.upTo(w.netRand, min(time.Duration(w.now-was), w.units(2*time.Second))), func() { net.repaired(i, j) })
		}
		return
	}
	if was == 0 {
		net.cut[i][j] = w.now
		net.silent(i, j, func() bool { return net.cut[i][j] != 0 && net.cut[i][j]+int64(net.times.Dead) <= w.now })
	}
}

// silent ends the connections on which j hears nothing of i, after the time in which it must.
func (net *network) silent(i, j int, still func() bool) {
	net.w.after(net.times.Dead, func() {
		if !still() {
			return
		}
		for _, c := range slices.Clone(net.conns) {
			for e := range c.ends {
				if c.ends[e].m.r.n.id == i && c.ends[1-e].m.r.n.id == j {
					c.close(1-e, false)
				}
			}
		}
	})
}

// repaired lets arrive what was sent into a cut.
func (net *network) repaired(i, j int) {
	for _, c := range slices.Clone(net.conns) {
		for e := range c.ends {
			if !net.passes(i, j) || c.ends[e].m.r.n.id != i || c.ends[1-e].m.r.n.id != j {
				continue
			}
			held := c.ends[e].held
			c.ends[e].held = nil
			for _, f := range held {
				f()
			}
		}
	}
}

// send lets f happen at the other end after a while.
func (c *conn) send(from int, last *int64, delay time.Duration, f func()) {
	w := c.w
	*last = max(*last+1, w.now+int64(delay))
	w.after(time.Duration(*last-w.now), func() {
		e, o := &c.ends[from], &c.ends[1-from]
		if len(e.held) > 0 || !w.net.passes(e.m.r.n.id, o.m.r.n.id) {
			e.held = append(e.held, f)
			return
		}
		f()
	})
}

// message sends a message to the other end.
func (c *conn) message(from int, m cluster.Message) {
	if e := &c.ends[from]; !e.closed {
		c.send(from, &e.last, c.w.net.delay(), func() {
			c.gets(1-from, func(to *member) { to.step(&cluster.Event{Kind: cluster.EvMessage, From: e.m.self.Run, Message: m}) })
		})
	}
}

// gets lets an end that is open get a frame.
func (c *conn) gets(to int, f func(to *member)) {
	if e := &c.ends[to]; !e.closed {
		e.m.receive(func() {
			if nb := e.m.neighbor(c.ends[1-to].m.self.Run); nb != nil && nb.conn == c {
				f(e.m)
			}
		})
	}
}

// slotsMost bounds the slots that wait for a connection.
const slotsMost = 64

// feed sends a committed slot, or its position if the other end is behind.
func (c *conn) feed(from int, key string, body []byte) {
	e, w := &c.ends[from], c.w
	if e.closed {
		return
	}
	e.behind = e.slots > 0 && (e.behind || e.slots >= slotsMost)
	notice := e.behind
	e.slots++
	delay := w.net.delay()
	if w.net.slow[e.m.r.n.id][c.ends[1-from].m.r.n.id] {
		delay = w.units(w.upTo(w.netRand, 2*time.Second))
	}
	c.send(from, &e.slot, delay, func() {
		e.slots--
		c.gets(1-from, func(to *member) { w.after(0, func() { to.r.deliver(func() { to.r.fed(key, body, notice) }) }) })
	})
}

// close ends the connection at one end, and tells the other one.
func (c *conn) close(side int, byPeer bool) {
	e := &c.ends[side]
	if e.closed {
		return
	}
	c.send(side, &e.last, c.w.net.delay(), func() { c.close(1-side, true) })
	e.closed = true
	e.m.receive(func() { e.m.lost(c, byPeer) })
	if c.ends[1-side].closed {
		c.w.net.conns = slices.DeleteFunc(c.w.net.conns, func(x *conn) bool { return x == c })
	}
}

// died ends the connections of a run whose process ended. After a loss of power no other end is told.
func (net *network) died(m *member, power bool) {
	for _, c := range slices.Clone(net.conns) {
		for side := range c.ends {
			switch e := &c.ends[side]; {
			case e.m != m || e.closed:
			case power:
				e.closed = true
				net.w.after(net.times.Dead, func() { c.close(1-side, false) })
			default:
				c.close(side, false)
			}
		}
	}
}

// neighbor is another run, as the links of a run know it.
type neighbor struct {
	run      cluster.Run
	conn     *conn
	side     int // of this run in conn
	linked   bool
	byPeer   bool // the other end ended the newest link
	expected bool // it may not know this run
	lost     int64
	tries    int
	tried    int64
	dials    int // number of the planned dial
}

func (m *member) neighbor(run cluster.Run) *neighbor {
	for _, nb := range m.neighbors {
		if nb.run == run {
			return nb
		}
	}
	return nil
}

// expect keeps a link to a run.
func (m *member) expect(run cluster.Run) {
	if run.Node != m.self.Run.Node && m.neighbor(run) == nil {
		nb := &neighbor{run: run, expected: true, lost: m.r.n.w.now}
		m.neighbors = append(m.neighbors, nb)
		m.dialLater(nb)
	}
}

// forget ends the link to a run without an event, and its dials.
func (m *member) forget(run cluster.Run) {
	nb := m.neighbor(run)
	if nb == nil {
		return
	}
	m.neighbors = slices.DeleteFunc(m.neighbors, func(x *neighbor) bool { return x == nb })
	nb.dials++
	if nb.conn != nil {
		nb.conn.close(nb.side, false)
	}
}

func (m *member) lower(run cluster.Run) bool {
	return bytes.Compare(m.self.Run.Node[:], run.Node[:]) < 0
}

const firstPause = 100 * time.Millisecond

// dialLater plans the next dial, at the times of package link.
func (m *member) dialLater(nb *neighbor) {
	w := m.r.n.w
	t := &w.net.times
	pause := func(most time.Duration) int64 {
		return nb.tried + int64(min(w.units(firstPause)<<min(nb.tries-1, 20), most))
	}
	at := nb.lost
	switch {
	case nb.conn != nil:
		return
	case nb.tries == 0 && (nb.linked && m.lower(nb.run) || !nb.linked && nb.expected || nb.byPeer):
	case nb.tries == 0:
		at += int64(t.Other)
	case nb.tried-nb.lost > int64(t.Trying):
		at = pause(t.Later)
	default:
		at = pause(t.Soon)
	}
	nb.dials++
	dial := nb.dials
	w.after(time.Duration(at-w.now), func() {
		m.receive(func() {
			if nb.dials == dial && nb.conn == nil {
				m.dial(nb)
			}
		})
	})
}

// dialed ends a dial without a link.
func (m *member) dialed(nb *neighbor, kind cluster.EventKind) {
	nb.tries++
	nb.tried = m.r.n.w.now
	if kind != 0 && nb.conn == nil {
		m.step(&cluster.Event{Kind: kind, From: nb.run})
	}
	m.dialLater(nb)
}

// dial connects to a run. A process that is stopped takes the connection, and says nothing.
func (m *member) dial(nb *neighbor) {
	w := m.r.n.w
	net, began := w.net, w.now
	to := w.nodeOf(nb.run)
	i, j := m.r.n.id, to.id
	fails := func() {
		w.after(net.times.Greet-time.Duration(w.now-began), func() { m.receive(func() { m.dialed(nb, 0) }) })
	}
	ends := func(kind cluster.EventKind) { m.receive(func() { m.dialed(nb, kind) }) }
	w.after(net.delay()+net.delay(), func() {
		switch {
		case m.dead:
		case !net.passes(i, j) || !net.passes(j, i) || to.power:
			fails()
		case net.refuses[i][j] || to.run == nil && to.joining == 0:
			ends(cluster.EvRefused)
		case to.run == nil || to.run.member.stopped:
			fails()
		case to.run.member.self.Run != nb.run:
			ends(cluster.EvReplaced)
		default:
			o := to.run.member
			o.knows(m.self.Run, func(known bool) {
				switch {
				case m.dead:
				case o.dead || o.stopped || m.stopped || !net.passes(i, j) || !net.passes(j, i):
					fails()
				case !known || !net.adopt(m, o):
					ends(0)
				}
			})
		}
	})
}

// knows reads the registration of a run that wants to connect, unless the run is known.
func (m *member) knows(run cluster.Run, then func(known bool)) {
	if nb := m.neighbor(run); nb != nil {
		then(true)
		return
	}
	m.r.n.w.registry(m.r.n, false, func(list []cluster.Registration) []cluster.Registration { return list },
		func(list []cluster.Registration, ok bool) { then(ok && indexOf(list, run) >= 0) })
}

// adopt makes a connection the link of both runs, unless there is one that the lower run dialed.
func (net *network) adopt(from, to *member) bool {
	c := &conn{w: net.w, began: net.w.now}
	c.ends[0].m, c.ends[1].m = from, to
	for side, m := range []*member{from, to} {
		o := c.ends[1-side].m
		if nb := m.neighbor(o.self.Run); nb != nil && nb.conn != nil {
			old := nb.conn
			if old.ends[0].m.lower(old.ends[1].m.self.Run) && !from.lower(to.self.Run) {
				return false
			}
		}
	}
	for side, m := range []*member{from, to} {
		o := c.ends[1-side].m
		nb := m.neighbor(o.self.Run)
		if nb == nil {
			nb = &neighbor{run: o.self.Run}
			m.neighbors = append(m.neighbors, nb)
		}
		if old := nb.conn; old != nil {
			nb.conn = nil
			old.ends[0].closed, old.ends[1].closed = true, true
			net.conns = slices.DeleteFunc(net.conns, func(x *conn) bool { return x == old })
		}
		nb.conn, nb.side, nb.linked, nb.byPeer = c, side, true, false
		m.neighbors = slices.DeleteFunc(m.neighbors, func(x *neighbor) bool { return x.run.Node == nb.run.Node && x.run != nb.run && x.conn == nil })
	}
	net.conns = append(net.conns, c)
	for side, m := range []*member{from, to} {
		o := c.ends[1-side].m
		m.receive(func() { m.step(&cluster.Event{Kind: cluster.EvLinked, From: o.self.Run, Registration: o.self}) })
	}
	return true
}

// lost notes the end of a link.
func (m *member) lost(c *conn, byPeer bool) {
	for _, nb := range m.neighbors {
		if nb.conn == c {
			nb.conn, nb.lost, nb.tries, nb.byPeer = nil, m.r.n.w.now, 0, byPeer
			m.step(&cluster.Event{Kind: cluster.EvEnded, From: nb.run, ByPeer: byPeer})
			m.dialLater(nb)
			return
		}
	}
}
