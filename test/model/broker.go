package model

import (
	"fmt"
	"time"
)

// host is a machine with a data folder. It runs one process at a time.
type host struct {
	w  *world
	i  int
	p  *process // nil: down
	on bool     // without a process its kernel refuses connections
	// dead: it never starts.
	dead bool
	// sealed: a process of this folder has sealed an epoch.
	sealed bool

	pausedTill, suspendTil, hungTill, cutTill, offlineTill, slowTill, excused time.Duration
	// left: its process ended because it was fenced.
	left bool

	slow      int
	suspended time.Duration // time that its monotonic clock does not count
	speed     float64       // of its clocks
	inbox     []func()
	deposals  int
}

type role string

const (
	joining role = "joining"
	standby role = "standby"
	leading role = "leading"
)

type busy uint8

const (
	free busy = iota
	catching
	standing
)

// process is one run.
type process struct {
	h    *host
	w    *world
	id   runID
	role role
	born time.Duration

	rt                 time.Duration // running time: without the pauses of this process
	lastMono, lastWall time.Duration
	gapAt              time.Duration // when its newest pause ended
	lookAt             time.Duration // wall time at which its newest successful PUT as leader began

	peers      []peer // by folder; run 0: unknown
	registered bool
	nextBeat   time.Duration

	follower
	loaded   bool
	joinedAt time.Duration
	life     time.Duration // newest sign of life of the epoch in the bucket
	nextLook time.Duration
	nextRead time.Duration
	busy     busy
	target   *position            // the log reaches at least this position
	sent     map[position]*object // its SEALs
	early    reply                // a LIST that began before the SEAL was stored
	forced   bool
	quitting bool
	parked   []parkedCall
	leads    *leadership // nil: not the leader
}

// follower is what applying the log gives, and what a snapshot holds.
type follower struct {
	pos    position
	prev   uint64 // checksum of the object before pos
	state  chainState
	path   []stage // the newest epochs, in order; the last is that of pos
	sealer runID
	next   time.Duration // promise of the newest slot
	ended  bool          // the newest slot says that its leader has ended
	// tainted: it holds a state that a bug fed; the observer does not compare it.
	tainted bool
}

// stage is an epoch on the path of a follower.
type stage struct {
	epoch epoch
	end   int    // slot of its SEAL; -1: not sealed
	last  uint64 // checksum of the object before its SEAL
}

func (f *follower) clone() *follower {
	c := *f
	c.path = append([]stage(nil), f.path...)
	return &c
}

func (h *host) String() string { return fmt.Sprintf("broker %d", h.i) }

func (h *host) start() {
	w := h.w
	if h.p != nil || h.dead {
		return
	}
	h.left = false
	h.on, h.inbox, h.pausedTill, h.hungTill = true, nil, 0, 0
	p := &process{h: h, w: w, id: runID{h.i, w.fresh()}, role: joining, born: w.now, peers: make([]peer, len(w.hosts)), sent: map[position]*object{}}
	p.gapAt, p.lookAt = -time.Hour, -time.Hour
	h.p = p
	p.lastMono, p.lastWall = h.clocks()
	w.logf("%v: start of run %d", h, p.id.run)
	w.disturb(0)
	p.spawn(p.boot, nil)
	p.after(ms, p.tick)
}

// exit ends the process. clean: it says goodbye. power: its machine vanishes.
func (h *host) exit(clean, power bool) {
	w, p := h.w, h.p
	if p == nil {
		return
	}
	w.logf("%v: end, clean %v, power %v", h, clean, power)
	w.disturb(0)
	h.p, h.on = nil, !power
	for n := range w.calls {
		c := &w.calls[n]
		switch {
		case c.state != openCall:
		case c.at == p:
			w.answer(n, unknownCall)
		case c.to == p: // the connection of the call ends
			at := c.at
			w.at(w.link, func() {
				at.receive(func() {
					if c := &w.calls[n]; c.state == openCall && c.at == at && c.to == p {
						w.answer(n, unknownCall)
					}
				}, true)
			})
		}
	}
	if power {
		return
	}
	if clean {
		w.at(w.latency, func() { w.effect(request{op: remove, name: registration(p.id)}) })
	}
	for _, o := range w.hosts { // the kernel ends its connections, and refuses the next
		if o == h || o.p == nil || !w.reach[h.i][o.i] || !w.reach[o.i][h.i] {
			continue
		}
		q := o.p
		w.at(w.link, func() { q.receive(func() { q.onEnd(p.id, clean) }, true) })
		for n := range 2 {
			w.at(w.link+time.Duration(n+1)*100*ms, func() {
				if h.p == nil {
					q.receive(func() { q.onRefused(p.id) }, true)
				}
			})
		}
	}
}

// boot registers the run, finds the others and loads the log (H2).
func (p *process) boot(t *task) {
	me := registration(p.id)
	var listed reply
	for listed.verdict == none {
		listed = t.list(registrationKind)
	}
	for t.put(me, &object{local: p.w.cfg.Mode == Loopback}).verdict == none {
	}
	for _, n := range listed.names {
		id := runID{n.at.slot, n.run}
		switch {
		case id.folder != p.id.folder:
			if p.w.cfg.Mode != Loopback {
				p.learn(id).listed = true
			}
		case id != p.id: // an earlier run of this folder, whose lock this run holds
			p.spawn(func(t *task) { t.remove(n) }, nil)
		}
	}
	p.registered = true
	p.load(t)
	p.joinedAt = p.rt
}

// keepRegistered puts the registration again if it was lost, before a leader that cannot see this run
// believes that it has left.
func (p *process) keepRegistered() {
	w := p.w
	if !w.on(KeepRegistered) || !p.registered {
		return
	}
	for i := range p.peers {
		if q := &p.peers[i]; q.there() && q.listed && !q.checked && p.age(q) > w.times.fast/2 {
			q.checked = true
			p.spawn(func(t *task) {
				if me := registration(p.id); t.get(me).verdict == missing {
					t.put(me, &object{})
				}
			}, nil)
			return
		}
	}
}

func (h *host) clocks() (mono, wall time.Duration) {
	return time.Duration(float64(h.w.now-h.suspended) * h.speed), time.Duration(float64(h.w.now) * h.speed)
}

// local returns how long the machine's clock takes for d.
func (p *process) local(d time.Duration) time.Duration {
	return time.Duration(float64(d) / p.h.speed)
}

// readClocks advances the running time. A gap between two rounds of the loop is a pause.
func (p *process) readClocks() {
	mono, wall := p.h.clocks()
	d := mono - p.lastMono
	if p.w.on(WallGap) {
		d = max(d, wall-p.lastWall)
	}
	p.lastMono, p.lastWall = mono, wall
	if d <= p.w.gap() {
		p.rt += d
		return
	}
	p.rt += d
	p.gapAt = p.rt
}

// gap is the time between two rounds from which on the process was paused.
func (w *world) gap() time.Duration { return 500 * ms }

// tick is one round of the loop.
func (p *process) tick() {
	w := p.w
	w.at(p.local(tick), func() { p.receive(p.tick, true) })
	if p.registered && p.rt >= p.nextBeat {
		p.beat()
	}
	if w.now < p.h.hungTill {
		return
	}
	p.expireParked()
	switch {
	case p.leads != nil:
		p.leadTick()
	case p.loaded && p.busy == free:
		p.keepRegistered()
		p.standbyTick()
	}
	if p.leads == nil && len(p.parked) > 0 && p.leaderSeen() != nil {
		list := p.parked
		p.parked = nil
		for _, c := range list {
			p.submit(c.n)
		}
	}
}
