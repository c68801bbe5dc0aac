package model

import "slices"

// apply applies the object at the position of this process.
func (p *process) apply(o *object) {
	w := p.w
	if o.seal {
		last := &p.path[len(p.path)-1]
		last.end, last.last = p.pos.slot, p.prev
		p.pos = position{epoch: o.names}
		p.path = append(p.path, stage{epoch: o.names, end: -1})
		if n := len(p.path) - w.keep - 1; n > 0 {
			p.path = slices.Delete(p.path, 0, n)
		}
		p.sealer, p.next, p.ended, p.nextLook = o.by, 0, false, 0
		p.learn(o.by)
		if p.role == joining && p.loaded && o.by != p.id {
			p.role = standby // another broker was faster
		}
	} else {
		p.state = p.state.fold(o.calls)
		p.pos.slot++
		p.next, p.ended = o.next, o.last
	}
	p.prev = o.sum
	p.life = p.rt
	if t, ok := w.bucket.truth[p.pos]; ok && !p.tainted && t != p.state {
		w.violate("%s", showsWrong)
	}
}

// hasPassed reports whether a position is on the path of this process. Of a forgotten epoch it does
// not know.
func (p *process) hasPassed(at position) bool {
	for _, s := range p.path {
		if s.epoch == at.epoch {
			return at.slot <= p.pos.slot && s.end < 0 || at.slot <= s.end
		}
	}
	if p.w.on(Strict) {
		return false
	}
	return !slices.ContainsFunc(p.path, func(s stage) bool { return s.epoch.n == at.epoch.n }) && at.epoch.n < p.pos.epoch.n
}

// load is R5 (1) and (2): the newest snapshot, then the chain from there.
func (p *process) load(t *task) {
	w := p.w
	w.stat.Cold++
	for {
		l := t.list(snapshotKind)
		if l.verdict == none {
			continue
		}
		if len(l.names) == 0 {
			p.follower = follower{path: []stage{{end: -1}}}
		} else {
			s := t.get(l.names[len(l.names)-1])
			if s.verdict != found {
				continue
			}
			p.follower = *s.obj.snap.clone()
			if p.sealer.run != 0 {
				p.learn(p.sealer)
			}
		}
		p.life = p.rt
		p.walk(t, always)
		p.loaded = true
		return
	}
}

// walk follows the chain to the first missing slot, as long as more returns true.
func (p *process) walk(t *task, more func() bool) {
	for more() {
		at := p.pos
		r := t.get(slotName(at))
		if p.pos != at {
			continue // the feed was faster
		}
		switch r.verdict {
		case found:
			p.apply(r.obj)
		case missing:
			return
		}
	}
}

// always is for a walk to the end.
func always() bool { return true }

// catchUp reads the bucket until the target is reached.
func (p *process) catchUp(t *task) {
	p.walk(t, p.behind)
	if p.behind() {
		l := t.list(snapshotKind)
		switch {
		case len(l.names) > 0 && !p.hasPassed(l.names[len(l.names)-1].at) && p.w.on(Collected):
			p.load(t) // the slot was deleted, or this path is not the chain
		default:
			t.pause(200 * ms)
		}
	}
	p.target = nil
}

// behind reports whether the log reaches beyond the position of this process.
func (p *process) behind() bool {
	t := p.target
	return t != nil && (t.epoch != p.pos.epoch || t.slot > p.pos.slot)
}

// proof returns the names of objects on the path of this process that together prove that everything
// before its position is durable, newest first, each with the checksum that it must have (0: any).
//
// A slot is sent when the slot four before it is committed (R2). So four slots of one epoch prove
// all slots before them. A SEAL proves nothing: a candidate may put it beyond the end. But only a
// leader puts DATA, and a leader's epoch is on the chain: the first slots of an epoch prove those
// of the epochs before it.
func (p *process) proof() (names []name, sums []uint64) {
	add := func(at position, sum uint64) {
		names, sums = append(names, slotName(at)), append(sums, sum)
	}
	at, sum := p.pos, p.prev
	for i := len(p.path) - 1; ; {
		for n := 1; n <= min(window, at.slot); n++ {
			add(at.back(n), sum)
			sum = 0
		}
		if at.slot > 0 || i == 0 {
			return names, sums
		}
		i--
		at = position{p.path[i].epoch, p.path[i].end}
		add(at, sum)
		sum = p.path[i].last
	}
}

func proven(sums []uint64, replies []reply) bool {
	for i, r := range replies {
		if r.verdict != found || sums[i] != 0 && r.obj.sum != sums[i] || sums[i] == 0 && r.obj.seal {
			return false
		}
	}
	return true
}
