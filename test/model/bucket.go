package model

import (
	"cmp"
	"slices"
	"time"
)

type (
	kind    uint8
	op      uint8
	verdict uint8
)

const (
	slotKind kind = iota
	snapshotKind
	registrationKind
)

const (
	put op = iota
	get
	list
	remove
)

const (
	none    verdict = iota // no verdict: the request may take effect later
	stored                 // also: deleted
	exists                 // of a PUT
	found                  // of a GET or LIST
	missing                // of a GET
)

// epoch is a number and the nonce that was drawn for it.
type epoch struct{ n, nonce int }

// position is the next slot to read.
type position struct {
	epoch epoch
	slot  int
}

func (a position) compare(b position) int {
	return cmp.Or(cmp.Compare(a.epoch.n, b.epoch.n), cmp.Compare(a.slot, b.slot), cmp.Compare(a.epoch.nonce, b.epoch.nonce))
}

// back returns the position some slots earlier in the same epoch.
func (a position) back(slots int) position { return position{a.epoch, a.slot - slots} }

// runID names a run: the data folder and the number of the process.
type runID struct{ folder, run int }

// name is the name of an object. A registration has the folder as its slot.
type name struct {
	kind kind
	at   position
	run  int
}

func slotName(at position) name { return name{kind: slotKind, at: at} }

func registration(r runID) name {
	return name{kind: registrationKind, at: position{slot: r.folder}, run: r.run}
}

// object is a commit object, a snapshot or a registration.
type object struct {
	sum  uint64 // its checksum
	prev uint64 // checksum of the object before it

	// DATA
	calls []int
	low   int           // committed when it was frozen
	next  time.Duration // the next slot comes within this time; 0: no promise
	last  bool          // no slot follows: the leader ends

	// SEAL
	seal  bool
	ahead bool // put beyond the end: prev is unknown
	names epoch
	by    runID
	why   attempt

	snap  *follower // of a snapshot
	local bool      // of a registration: only this machine reaches the broker
}

type request struct {
	op   op
	name name
	obj  *object
}

type reply struct {
	verdict verdict
	obj     *object
	names   []name // in order
}

// chainState is the state after a prefix of the chain.
type chainState struct {
	sum   uint64
	calls int
}

// bucket is the object store and the observer's view of the chain.
type bucket struct {
	objects map[kind]map[name]*object
	end     position                // of the chain
	promise time.Duration           // of the newest DATA
	last    uint64                  // checksum of the object before end
	truth   map[position]chainState // for every prefix of the chain
	passed  map[position]bool       // slots that the chain has passed
}

func mix(a, b uint64) uint64 {
	x := a ^ (b+0x9e3779b97f4a7c15)*0xbf58476d1ce4e5b9
	x ^= x >> 31
	x *= 0x94d049bb133111eb
	return x ^ x>>29
}

// fold returns the state after one more DATA.
func (s chainState) fold(calls []int) chainState {
	x := mix(s.sum, uint64(len(calls)))
	for _, c := range calls {
		x = mix(x, uint64(c))
	}
	return chainState{x, s.calls + len(calls)}
}

func newBucket() bucket {
	b := bucket{objects: map[kind]map[name]*object{}, truth: map[position]chainState{}, passed: map[position]bool{}}
	for _, k := range []kind{slotKind, snapshotKind, registrationKind} {
		b.objects[k] = map[name]*object{}
	}
	b.end = position{}
	b.truth[b.end] = chainState{}
	return b
}

// effect applies a request to the bucket.
func (w *world) effect(r request) reply {
	objects := w.bucket.objects[r.name.kind]
	switch r.op {
	case put:
		if objects[r.name] != nil {
			return reply{verdict: exists}
		}
		objects[r.name] = r.obj
		w.logf("  stored %v", show{r.name, r.obj})
		switch r.name.kind {
		case slotKind:
			w.extend()
		case snapshotKind:
			if t, ok := w.bucket.truth[r.name.at]; !ok || t != r.obj.snap.state {
				w.violate("%s", badSnapshot)
			}
		}
		return reply{verdict: stored}
	case get:
		if o := objects[r.name]; o != nil {
			return reply{verdict: found, obj: o}
		}
		return reply{verdict: missing}
	case list:
		var names []name
		for n := range objects {
			names = append(names, n)
		}
		slices.SortFunc(names, func(a, b name) int { return cmp.Or(a.at.compare(b.at), cmp.Compare(a.run, b.run)) })
		return reply{verdict: found, names: names}
	default:
		if objects[r.name] != nil {
			w.logf("  deleted %v", show{r.name, nil})
		}
		delete(objects, r.name)
		return reply{verdict: stored}
	}
}

// extend follows the chain over the objects that are stored now, and checks it.
func (w *world) extend() {
	b := &w.bucket
	for {
		o := b.objects[slotKind][slotName(b.end)]
		if o == nil || b.passed[b.end] {
			return
		}
		b.passed[b.end] = true
		state := b.truth[b.end]
		if o.seal {
			w.checkDeposed(b.end.epoch, o)
			b.end = position{epoch: o.names}
			w.stat.Seals++
		} else {
			if o.prev != b.last {
				w.violate("%s", badChain)
			}
			for _, n := range o.calls {
				w.onChain(n)
			}
			state = state.fold(o.calls)
			b.end.slot++
			b.promise = o.next
		}
		b.last = o.sum
		b.truth[b.end] = state
	}
}

func (w *world) onChain(n int) {
	c := &w.calls[n]
	if c.state == rejectedCall {
		w.violate("%s", rejectedAppears)
	}
	if c.stored {
		w.violate("%s", callTwice)
	}
	c.stored, c.epoch = true, w.bucket.end.epoch.n
}

// request sends a request of a process. It may be lost, late, or take effect twice.
func (p *process) request(r request, answer func(reply)) {
	w, h := p.w, p.h
	w.checkIdle(p, r)
	var held time.Duration
	if w.hold != nil {
		held = w.hold(p, r)
	}
	took := time.Duration(float64(w.latency) * lognormal(w))
	if w.now < h.slowTill {
		took *= time.Duration(h.slow)
	}
	if r.op == list && w.now < w.slowTil {
		took += 10 * time.Second
	}
	changes := r.op == put || r.op == remove
	if w.now < h.cutTill || w.chance(w.lost) {
		if changes && w.now >= h.offlineTill && w.chance(0.6) {
			d := took
			if w.chance(0.5) {
				d = w.between(0, w.late)
			}
			w.at(d, func() { w.effect(r) })
		}
		p.after(w.times.request, func() { answer(reply{verdict: none}) })
		return
	}
	w.at(took/2+held, func() {
		a := w.effect(r)
		p.after(took/2, func() { answer(a) })
	})
	if changes && w.chance(w.twice) {
		w.at(w.between(0, w.late), func() { w.effect(r) })
	}
}
