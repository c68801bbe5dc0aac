package model

import "time"

// leadership is an epoch that a process leads.
type leadership struct {
	epoch     epoch
	began     time.Duration
	beganAt   time.Duration // in the time of the world
	next, low int           // next slot to freeze; slots below low are committed
	slots     []slot
	queue     []int  // calls that are in no slot
	ahead     uint64 // checksum of the newest frozen object
	looked    time.Duration
	committed time.Duration // newest commit
	answered  time.Duration // newest verdict of the store
	promise   time.Duration

	hand     *handing
	handedAt time.Duration // end of the newest hand-over that was aborted
	takeAt   int           // the slot that the newest take named; -1: none
	tried    uint64        // folders that did not take over
	parking  bool
	ends     bool // its last slot is frozen
	parked   []parkedCall
	gap      gapState // after an aborted hand-over
	gapSlot  int

	relisted  time.Duration
	snapshots []name
	snapping  bool
	collected position // garbage below was collected
}

// slot is a frozen slot of a leader.
type slot struct {
	obj     *object
	sent    time.Duration
	asked   time.Duration // wall time at which the newest attempt began
	durable bool
	parked  []int // calls in it that were parked before
}

type gapState uint8

const (
	noGap     gapState = iota
	gapWanted          // an empty slot comes before all calls
	gapSent
)

// lead is R5 (5).
func (p *process) lead(e epoch) {
	w := p.w
	p.leads = &leadership{
		epoch: e, began: p.rt, beganAt: w.now, ahead: p.prev, committed: p.rt, answered: p.rt,
		handedAt: -time.Hour, takeAt: -1, looked: -time.Hour, relisted: p.rt,
	}
	p.role = leading
	w.logf("%v leads %v", p.h, e)
	w.checkLead(p, e)
	p.beat() // H9
	list := p.parked
	p.parked = nil
	for _, c := range list {
		p.submit(c.n)
	}
}

func (p *process) leadTick() {
	l, w := p.leads, p.w
	if l.ends {
		return
	}
	room := l.next-l.low < window && p.feedAllows()
	switch {
	case l.gap == gapWanted:
		if l.next == l.low {
			l.gap, l.gapSlot = gapSent, l.next
			p.freeze(nil)
		}
	case l.gap == noGap && !l.parking && len(l.queue) > 0 && room:
		calls := l.queue
		l.queue = nil
		p.freeze(calls)
	}
	p.showLife()
	if n := len(l.snapshots); !l.snapping && (n == 0 && l.low >= 3 || n > 0 && l.low-l.snapshots[n-1].at.slot >= 6) {
		l.snapping = true
		p.spawn(func(t *task) { p.snapshot(t, l) }, nil)
	}
	if oldest := l.oldest(); oldest > 0 && p.rt-oldest > w.times.trouble && p.rt-l.answered > w.times.trouble && l.hand == nil &&
		p.rt-l.handedAt > 3*time.Second && w.on(YieldStore) {
		p.handOver(forStore)
	}
	if p.quitting && l.hand == nil && p.rt-l.handedAt > 200*ms && w.on(YieldTerm) {
		p.handOver(forExit)
	}
	p.handTick()
}

// oldest returns when the oldest slot without a verdict was sent, 0 without one.
func (l *leadership) oldest() time.Duration {
	for _, s := range l.slots[l.low:] {
		if !s.durable {
			return s.sent
		}
	}
	return 0
}

// showLife is H5: a leader that a registered run may not see commits empty slots, and each slot says
// when the next one comes.
func (p *process) showLife() {
	l, w := p.leads, p.w
	l.promise = 0
	unseen, youngest := false, p.rt-l.began
	for i := range p.peers {
		q := &p.peers[i]
		if age := p.age(q); q.there() && q.listed && age > w.times.silent/2 {
			unseen = true
			youngest = min(youngest, p.rt-q.echo)
		}
	}
	if !unseen || !w.on(Alive) {
		return
	}
	pace := w.times.alive
	if youngest > w.times.fast {
		pace = w.times.slow
		if !w.on(Promise) {
			return // the first plan: no alive slots after the fast time
		}
	}
	l.promise = w.times.alive
	if youngest > w.times.fast*6/10 {
		l.promise = w.times.slow // a slower pace is announced before it begins
	}
	if pace == w.times.slow && p.rt-l.relisted > 4*w.times.slow && w.on(Relist) {
		l.relisted = p.rt
		p.spawn(p.relist, nil)
	}
	if !l.parking && l.gap == noGap && l.next == l.low && p.rt-l.committed >= pace {
		w.stat.Alive++
		p.freeze(nil)
	}
}

// endsBy lets a leader that a registered run may not see commit a last slot, which says so. It returns
// false while that slot is in flight.
func (l *leadership) endsBy(p *process) bool {
	if !l.ends && l.promise > 0 && l.next-l.low < window && p.w.on(EndMark) {
		l.ends, l.parking = true, true
		p.freeze(nil)
	}
	return !l.ends || l.low == l.next
}

// relist forgets runs that have deleted their registration while no link was up.
func (p *process) relist(t *task) {
	r := t.list(registrationKind)
	if r.verdict == none {
		return
	}
	listed := map[runID]bool{}
	for _, n := range r.names {
		listed[runID{n.at.slot, n.run}] = true
	}
	for i := range p.peers {
		if q := &p.peers[i]; q.there() && !listed[q.id] && !p.heard(q) {
			q.listed = false
		}
	}
}

// freeze fixes the content of the next slot and sends it.
func (p *process) freeze(calls []int) {
	l := p.leads
	o := &object{calls: calls, low: l.low, prev: l.ahead, next: l.promise, last: l.ends}
	o.sum = mix(mix(o.prev, uint64(l.next)), uint64(len(calls)))
	for _, n := range calls {
		o.sum = mix(o.sum, uint64(n))
	}
	s := slot{obj: o, sent: p.rt}
	for _, n := range calls {
		if p.w.calls[n].parked {
			s.parked = append(s.parked, n)
		}
	}
	n := l.next
	l.slots = append(l.slots, s)
	l.next++
	l.ahead = o.sum
	if p.w.bug(FeedEarly) || !p.w.on(Committed) {
		p.feed(n)
	}
	p.spawn(func(t *task) { p.append(t, l, n) }, nil)
}

// append is R3.
func (p *process) append(t *task, l *leadership, n int) {
	at := slotName(position{l.epoch, n})
	mine := l.slots[n].obj
	for p.leads == l && !l.slots[n].durable {
		l.slots[n].asked = p.lastWall
		r := t.put(at, mine)
		if p.leads != l {
			return
		}
		switch r.verdict {
		case none:
			if p.w.cfg.Mode == Sleepy && !p.w.calm && p.w.chance(0.3) {
				t.pause(p.w.between(0, 30*time.Second))
			} else {
				t.pause(tick)
			}
			continue
		case exists:
			r = t.get(at)
			if p.leads != l {
				return
			}
			if r.verdict != found {
				continue
			}
			if r.obj.seal {
				p.fence(n, r.obj)
				return
			}
			if r.obj != mine {
				p.w.violate("%s", foreignData)
			}
		}
		l.slots[n].durable = true
		l.answered = p.rt
		p.commit(l)
	}
}

func (p *process) commit(l *leadership) {
	for l.low < l.next && l.slots[l.low].durable {
		s := &l.slots[l.low]
		p.apply(s.obj)
		l.low++
		l.committed, l.looked, p.lookAt = p.rt, p.rt, max(p.lookAt, s.asked)
		if l.gap == gapSent && l.low > l.gapSlot {
			l.gap = noGap
		}
		for _, n := range s.obj.calls {
			p.w.answer(n, ackedCall)
		}
		if !p.w.bug(FeedEarly) && p.w.on(Committed) {
			p.feed(l.low - 1)
		}
	}
}

// feed sends a slot to every run that is not gone: the object, or a notice if a queue is full.
func (p *process) feed(n int) {
	w, l := p.w, p.leads
	at, o := position{l.epoch, n}, l.slots[n].obj
	for i := range p.peers {
		if !p.peers[i].there() {
			continue
		}
		notice := w.chance(0.05)
		w.send(p, i, func(q *process) { q.onFeed(at, o, notice) }, nil)
	}
}

// feedAllows reports whether the feed lets the leader freeze. It always does (H15); without that
// rule the queue of the slowest follower is the leader's limit.
func (p *process) feedAllows() bool {
	if p.w.on(NeverWaits) {
		return true
	}
	for i := range p.peers {
		if q := &p.peers[i]; q.there() && q.info != nil && (q.info.pos.epoch != p.leads.epoch || p.leads.low-q.info.pos.slot > 4) && p.leads.low > 4 {
			return false
		}
	}
	return true
}

func (p *process) onFeed(at position, o *object, notice bool) {
	w := p.w
	if p.leads != nil || !p.loaded {
		return
	}
	switch {
	case at == p.pos && !notice && o.prev == p.prev:
		early := !w.bucket.passed[at]
		if early && !w.bug(FeedEarly) {
			w.violate("%s", showsEarly)
		}
		p.tainted = p.tainted || early
		p.apply(o)
	case at.compare(p.pos) >= 0:
		p.reach(position{at.epoch, at.slot + 1})
	}
}

// stepDown ends a leadership without a SEAL in sight, which is always safe (H11).
func (p *process) stepDown() {
	l := p.leads
	p.w.logf("%v steps down", p.h)
	p.follow(l)
	for _, s := range l.slots[l.low:] {
		for _, n := range s.obj.calls {
			p.w.answer(n, unknownCall)
		}
	}
	for _, n := range append(l.queue, numbers(l.parked)...) {
		p.submit(n)
	}
}

// fence is R6: the leader met a SEAL in slot n.
func (p *process) fence(n int, o *object) {
	l, w := p.leads, p.w
	w.logf("%v is fenced", p.h)
	p.follow(l)
	for i, s := range l.slots[l.low:] {
		for _, c := range s.obj.calls {
			w.answer(c, unknownCall)
		}
		if l.low+i == n && n == l.takeAt && len(s.parked) > 0 {
			w.violate("%s", parkedUnknown)
		}
	}
	for _, c := range append(l.queue, numbers(l.parked)...) {
		w.answer(c, rejectedCall)
	}
	if p.pos == (position{l.epoch, n}) {
		p.apply(o)
	}
	if w.cfg.Mode == Loopback && w.on(Local) || !w.on(Deposed) {
		p.h.exit(false, false)
		p.h.left = true
		if w.on(Deposed) {
			w.at(time.Second, p.h.start)
		}
	}
}

// follow is H14: a deposed leader follows from the state that it has, which is committed.
func (p *process) follow(l *leadership) {
	p.leads, p.role, p.target = nil, standby, nil
	p.life, p.nextLook = p.rt, 0
}
