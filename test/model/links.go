package model

import "time"

// peer is the newest known run of another broker, and the link to it.
type peer struct {
	id      runID
	listed  bool          // it is registered, or was heard
	since   time.Duration // running time when it became known
	echo    time.Duration // when the newest of my beats that it answered was sent
	got     time.Duration // when its newest beat came
	linked  bool          // a beat was answered: there was a connection to this run
	ended   bool          // it ended that connection
	refuse  int           // refused dials since then
	gone    bool
	checked bool // since the link was lost, this process has looked at its own registration
	info    *beat
	claim   epoch // the newest epoch that it claimed to lead or to stand against
	claims  bool
	stands  bool
	at      time.Duration // of that claim
}

// beat is sent by the loop of a process to each run that is not gone.
type beat struct {
	from      runID
	leads     bool
	epoch     epoch // that it leads
	committed int   // there
	stands    bool  // it stands against an epoch
	against   epoch
	pos       position
	loaded    bool
	storeOK   bool
	quitting  bool
}

// learn returns the peer for a run, unless a newer run of that folder is known.
func (p *process) learn(id runID) *peer {
	q := &p.peers[id.folder]
	if id.folder != p.id.folder && q.id.run < id.run {
		*q = peer{id: id, since: p.rt, echo: p.rt, got: p.rt}
	}
	return q
}

// age returns how long a link has passed nothing both ways, in running time.
func (p *process) age(q *peer) time.Duration {
	if !p.w.on(Echo) {
		return p.rt - q.got
	}
	return p.rt - min(q.echo, q.got) // an echo without a new beat does not tell what its sender does
}

func (p *process) heard(q *peer) bool {
	return q.id.run != 0 && !q.gone && q.info != nil && p.age(q) <= p.w.times.silent
}

// there reports whether a peer is known and not gone.
func (q *peer) there() bool { return q.id.run != 0 && !q.gone }

func (p *process) beat() {
	w := p.w
	p.nextBeat = p.rt + w.times.beat
	b := &beat{from: p.id, pos: p.pos, loaded: p.loaded, storeOK: w.now >= p.h.cutTill, quitting: p.quitting}
	if l := p.leads; l != nil {
		b.leads, b.epoch, b.committed = true, l.epoch, l.low
	} else if p.busy == standing {
		b.stands, b.against = true, p.pos.epoch
	}
	for i := range p.peers {
		q := &p.peers[i]
		if q.id.run == 0 || q.gone && w.chance(0.8) {
			continue
		}
		sent, to := p.rt, q.id
		w.send(p, i, func(o *process) { o.onBeat(b, to, sent, p) }, func(refused bool) {
			if refused {
				p.receive(func() { p.onRefused(to) }, true)
			}
		})
	}
}

// send delivers f to the process that runs at a host. failed may be nil; it is called if nothing is
// delivered, and says whether the host refused the connection.
func (w *world) send(from *process, to int, f func(o *process), failed func(refused bool)) {
	i := from.h.i
	d := w.between(w.link/2, w.link*3/2)
	if w.cfg.Mode == Chaos && w.chance(0.05) {
		d += w.between(0, 2*w.times.silent)
	}
	arrival := max(w.now+d, w.fifo[i][to])
	w.fifo[i][to] = arrival
	w.at(arrival-w.now, func() {
		h := w.hosts[to]
		if o := h.p; o != nil && w.reach[i][to] {
			if h.suspendTil > w.now { // the sender's kernel repeats it
				w.at(h.suspendTil-w.now, func() {
					w.at(max(0, w.fifo[i][to]-w.now), func() { o.receive(func() { f(o) }, true) })
				})
				return
			}
			o.receive(func() { f(o) }, true)
		} else if failed != nil {
			refused := w.refuses[i][to] || o == nil && h.on && w.reach[i][to] && w.reach[to][i]
			w.at(d, func() { failed(refused) })
		}
	})
}

func (p *process) onBeat(b *beat, to runID, sent time.Duration, sender *process) {
	if to.folder != p.id.folder || b.from.run < p.peers[b.from.folder].id.run {
		return
	}
	isNew := p.peers[b.from.folder].id != b.from
	q := p.learn(b.from)
	q.listed, q.gone, q.ended, q.refuse = true, false, false, 0
	q.info, q.got = b, p.rt
	if b.leads || b.stands {
		q.claims, q.claim, q.stands, q.at = true, b.against, b.stands, p.rt
		if b.leads {
			q.claim = b.epoch
		}
	}
	if to == p.id {
		me := p.id
		p.w.send(p, b.from.folder, func(o *process) { o.onEcho(me, sent, sender) }, nil)
	}
	if isNew {
		p.nextBeat = 0
	}
	if b.leads {
		p.onLeads(b)
	}
}

// onLeads hears that a run leads an epoch.
func (p *process) onLeads(b *beat) {
	if p.leads != nil {
		if b.epoch.n > p.leads.epoch.n && p.w.on(StepDown) {
			p.stepDown()
		}
		return
	}
	if !p.loaded {
		return
	}
	if b.epoch.n > p.pos.epoch.n || b.epoch == p.pos.epoch && b.committed > p.pos.slot {
		p.reach(position{b.epoch, b.committed})
	}
}

// reach notes that the log reaches a position.
func (p *process) reach(pos position) {
	if p.target == nil || pos.compare(*p.target) > 0 {
		p.target = &pos
	}
}

func (p *process) onEcho(from runID, sent time.Duration, sender *process) {
	q := &p.peers[from.folder]
	if sender != p || q.id != from {
		return
	}
	q.echo = max(q.echo, sent)
	q.linked, q.gone, q.ended, q.refuse, q.checked = true, false, false, 0, false
}

// onEnd is called when a run ends its connection: it said goodbye, or its kernel did.
func (p *process) onEnd(id runID, goodbye bool) {
	if q := &p.peers[id.folder]; q.id == id && q.linked {
		q.ended = true
		q.gone = q.gone || goodbye
	}
}

// onRefused is called when a host refuses a connection to a run.
func (p *process) onRefused(id runID) {
	q := &p.peers[id.folder]
	if q.id != id || q.gone || p.w.on(Gone) && !q.ended {
		return // a rule of a firewall refuses for living brokers
	}
	if q.refuse++; q.refuse >= 2 {
		q.gone = true
		p.w.logf("%v sees broker %d gone", p.h, id.folder)
	}
}

// leaderSeen returns the peer that is heard to lead the epoch of this process or a later one.
func (p *process) leaderSeen() *peer {
	if !p.loaded {
		return nil
	}
	for i := range p.peers {
		if q := &p.peers[i]; p.heard(q) && q.info.leads && q.info.epoch.n >= p.pos.epoch.n {
			return q
		}
	}
	return nil
}

// inDoubt reports whether a leader may have been deposed without knowing it (H12).
func (p *process) inDoubt() bool {
	w := p.w
	if !w.on(Doubt) {
		return false
	}
	if w.on(LookAge) { // an age that excuses counts pauses
		if p.lastWall-p.lookAt < 2*time.Second {
			return false
		}
	} else if p.rt-p.leads.looked < 2*time.Second {
		return false
	}
	if p.rt-p.gapAt < 1500*ms {
		return true
	}
	alone, others := true, false
	for i := range p.peers {
		q := &p.peers[i]
		if !q.there() || !q.listed {
			continue
		}
		old := p.age(q) > w.times.silent/2
		if w.on(DoubtAny) && old {
			return true
		}
		others = true
		alone = alone && old
	}
	return others && alone
}
