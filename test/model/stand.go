package model

import "time"

// window is the number of slots in flight (R2).
const window = 4

// patience is how old the newest sign of life of an epoch must be before this process stands
// against it.
func (p *process) patience() time.Duration {
	w := p.w
	next := p.next
	if q := &p.peers[p.sealer.folder]; p.sealer.run != 0 && q.id == p.sealer && p.age(q) < w.times.fast/2 {
		next = min(next, w.times.alive) // a leader whose newest lost link is young writes at the fast pace
	}
	d := 2 * w.times.alive
	if w.on(Promise) && next > 0 {
		d = w.times.silent + 2*next
	}
	return d
}

// attempt is the reason to stand.
type attempt uint8

const (
	byRule   attempt = iota // H3, H4
	afterEnd                // H4, and the leader has ended: slots that it left are no sign of life
	handOver                // the leader asked for it
	byForce                 // an operator asked for it: R5 against every epoch
)

// stand is one attempt to lead: R5, from the state that this process has (H6), against one epoch (H8).
func (p *process) stand(t *task, why attempt) {
	goesOn := why == byForce || !p.w.on(OneEpoch)
	passes := why == handOver || why == afterEnd // slots of the epoch
	for lost := 0; ; lost++ {
		at := p.pos
		p.w.logf("%v stands against %v", p.h, at)
		warm, ok := p.look(t, why)
		if !ok {
			if p.pos == at || !goesOn && !(passes && p.pos.epoch == at.epoch) {
				return
			}
			continue // the log has moved
		}
		if p.w.cfg.Mode == Sleepy && !p.w.calm && p.w.chance(0.4) {
			t.pause(p.w.between(0, 30*time.Second))
		}
		if p.pos != at {
			return
		}
		if why == byForce && lost >= 3 {
			p.sealAhead(t)
		}
		switch p.seal(t, at, why) {
		case sealMine:
			p.confirm(t, at, warm)
			return
		case sealLost:
			p.walk(t, always)
			p.nextLook = p.rt + time.Second
			if !goesOn && !(passes && p.pos.epoch == at.epoch) {
				return
			}
		case sealOver:
			p.load(t)
			return
		default:
			return
		}
	}
}

// look is H4 (c) and H6: the next slot must be missing, and the objects before it must be those that
// this process has applied. It reports whether they are, and whether the attempt continues.
func (p *process) look(t *task, why attempt) (warm, ok bool) {
	w, at := p.w, p.pos
	if !w.on(Look) {
		return true, true
	}
	names, sums := p.proof()
	if !w.on(Proof) {
		names, sums = names[:min(1, len(names))], sums[:min(1, len(names))]
	}
	requests := []request{{op: get, name: slotName(at)}, {op: list, name: name{kind: snapshotKind}}}
	collected := w.bucket.passed[at] && w.bucket.objects[slotKind][slotName(at)] == nil
	for _, n := range names {
		requests = append(requests, request{op: get, name: n})
	}
	replies := t.do(requests...)
	for _, r := range replies {
		if r.verdict == none {
			p.nextLook = p.rt + 500*ms
			return false, false
		}
	}
	if p.pos != at {
		return false, false
	}
	if o := replies[0].obj; o != nil { // alive by the log
		p.apply(o)
		p.walk(t, always)
		p.nextLook = p.rt + time.Second
		return false, false
	}
	if l := replies[1].names; w.on(Newest) && len(l) > 0 && !p.hasPassed(l[len(l)-1].at) && !p.reaches(t, l[len(l)-1].at, at) {
		p.load(t) // the slot was deleted, or this path is not the chain
		p.nextLook = p.rt + 200*ms
		return false, false
	}
	if p.pos != at {
		return false, false
	}
	if collected {
		w.violate("%s", atCollected)
	}
	return proven(sums, replies[2:]), true
}

type sealing uint8

const (
	sealMine    sealing = iota
	sealLost            // another object is in the slot
	sealOver            // the slot was deleted
	sealStopped         // the attempt ended without a verdict
)

// newSeal returns the SEAL of this process for a slot. A process never puts two different ones.
func (p *process) newSeal(at position, why attempt, ahead bool) *object {
	if o := p.sent[at]; o != nil {
		return o
	}
	o := &object{seal: true, ahead: ahead, names: epoch{at.epoch.n + 1, p.w.fresh()}, by: p.id, why: why, prev: p.prev}
	if ahead {
		o.prev = 0
	}
	o.sum = mix(mix(o.prev, uint64(o.names.nonce)), 1)
	p.sent[at] = o
	return o
}

// seal is R5 (3). A SEAL that was sent ends only with a verdict.
func (p *process) seal(t *task, at position, why attempt) sealing {
	mine := p.newSeal(at, why, false)
	p.h.sealed = true
	for {
		switch p.putSeal(t, at, mine).verdict {
		case stored:
			return sealMine
		case none:
			if p.leaderSeen() != nil {
				return sealStopped
			}
		case exists:
			r := t.get(slotName(at))
			switch {
			case r.verdict == none:
			case r.obj == mine:
				return sealMine
			case r.obj == nil:
				return sealOver
			default:
				return sealLost
			}
		}
	}
}

func (p *process) putSeal(t *task, at position, o *object) reply {
	if p.w.on(ListAfterSeal) {
		return t.put(slotName(at), o)
	}
	r := t.do(request{op: put, name: slotName(at), obj: o}, request{op: list, name: name{kind: snapshotKind}})
	p.early = r[1]
	return r[0]
}

// sealAhead puts SEALs beyond the end, for a busy leader to meet.
func (p *process) sealAhead(t *task) {
	at := p.pos
	for _, n := range []int{4, 8, 16} {
		beyond := position{at.epoch, at.slot + n}
		t.put(slotName(beyond), p.newSeal(beyond, byForce, true))
		p.w.stat.Ahead++
	}
}

// confirm is R5 (4): the candidate leads if the newest snapshot is on its path.
func (p *process) confirm(t *task, at position, warm bool) {
	w, mine := p.w, p.sent[at]
	now := position{epoch: mine.names}
	if p.pos == at {
		p.apply(mine)
	}
	if !warm {
		w.stat.ColdAfter++
		p.load(t)
	}
	if w.bug(SealThenStop) && w.chance(0.3) {
		return
	}
	for first := true; w.on(Validate) && p.pos == now; first = false {
		l := p.snapshots(t, at, first)
		if l.verdict == none {
			t.pause(100 * ms)
			continue
		}
		if len(l.names) == 0 || p.hasPassed(l.names[len(l.names)-1].at) || p.reaches(t, l.names[len(l.names)-1].at, now) {
			break
		}
		w.stat.StartedOver++
		p.load(t)
		p.nextLook = p.rt + 200*ms
		return
	}
	if p.pos == now {
		p.lead(now.epoch)
	}
}

// snapshots lists the snapshots after the SEAL is durable. first: it also puts the SEAL again (R10).
func (p *process) snapshots(t *task, at position, first bool) reply {
	switch {
	case !p.w.on(ListAfterSeal) && p.early.verdict != none:
		return p.early
	case first:
		return t.do(request{op: list, name: name{kind: snapshotKind}}, request{op: put, name: slotName(at), obj: p.sent[at]})[0]
	default:
		return t.list(snapshotKind)
	}
}

// reaches follows the chain from a position by heads, and reports whether it meets another one.
func (p *process) reaches(t *task, at, end position) bool {
	for at != end {
		r := t.get(slotName(at))
		switch {
		case r.verdict == none:
		case r.obj == nil:
			return false
		case r.obj.seal:
			at = position{epoch: r.obj.names}
		default:
			at.slot++
		}
	}
	return true
}
