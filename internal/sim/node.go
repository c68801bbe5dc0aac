package sim

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/sebbroker/seb/internal/logcore"
	"github.com/sebbroker/seb/internal/state"
	"github.com/sebbroker/seb/record"
)

// node is a machine: one run after another.
type node struct {
	w        *world
	id       int
	readOnly bool
	run      *run // nil between runs
	runs     int
}

// run is one process: a core and the shell that performs its effects.
type run struct {
	n       *node
	core    *logcore.Core
	dead    bool
	paused  bool
	inbox   []func() // while paused
	pending []*op    // not handed to the core yet
	firstAt int64    // when the first of them came
	wakeAt  int64
	out     map[*op]bool // every op that has no answer yet
	bodies  map[*logcore.Frozen][]byte
	images  map[logcore.OpID][]byte // encoded snapshots
	confirm map[uint64]int64        // tags asked: the chain's length when asked
	seen    map[partKey]int64       // highest next offset served
	rules   ruleState
}

func (n *node) start() {
	if n.run != nil {
		return
	}
	n.runs++
	w := n.w
	r := &run{
		n: n, out: map[*op]bool{}, bodies: map[*logcore.Frozen][]byte{}, images: map[logcore.OpID][]byte{},
		confirm: map[uint64]int64{}, seen: map[partKey]int64{}, rules: newRuleState(),
	}
	r.core = logcore.New(logcore.Config{
		ReadOnly: n.readOnly, Advertised: string(rune('a' + n.id)), Window: w.cfg.Window, SnapshotSlots: w.cfg.SnapshotSlots,
	})
	n.run = r
	w.logf("node %d starts run %d", n.id, n.runs)
	w.mark("start", uint64(n.id))
	r.step(&logcore.Event{Kind: logcore.EvStart})
	if n.readOnly {
		r.step(&logcore.Event{Kind: logcore.EvReaders, Waiting: true})
	}
}

// kill ends a run as SIGKILL does; what it sent to the store goes its way.
func (n *node) kill(why string) {
	r := n.run
	if r == nil {
		return
	}
	n.w.logf("node %d %s", n.id, why)
	n.w.mark(why, uint64(n.id))
	r.dead = true
	n.run = nil
	for _, o := range sortedOps(r.out) {
		o.answer(unknown, 0)
	}
	back := n.w.around(n.w.crashRand, n.w.cfg.Restart)
	if n.w.calm {
		back = min(back, 5*time.Second)
	}
	n.w.after(back, n.start)
}

func (n *node) resume() {
	r := n.run
	if r == nil || !r.paused {
		return
	}
	r.paused = false
	inbox := r.inbox
	r.inbox = nil
	n.w.logf("node %d resumes", n.id)
	for _, f := range inbox {
		r.deliver(f)
	}
}

// deliver runs f in the process, unless that is dead; a paused one runs it later.
func (r *run) deliver(f func()) {
	switch {
	case r.dead:
	case r.paused:
		r.inbox = append(r.inbox, f)
	default:
		f()
		r.pump()
	}
}

// step gives the core an event and performs what follows.
func (r *run) step(ev *logcore.Event) {
	var fx logcore.Effects
	r.core.Step(r.n.w.now, ev, &fx)
	if fx.Wake > 0 && fx.Wake != r.wakeAt {
		r.wakeAt = fx.Wake
		r.n.w.after(time.Duration(fx.Wake-r.n.w.now), func() {
			r.deliver(func() { r.step(&logcore.Event{Kind: logcore.EvTick}) })
		})
	}
	for i := range fx.List {
		if r.dead {
			return
		}
		r.perform(fx.List[i])
	}
}

// perform does one effect, after its delay.
func (r *run) perform(e logcore.Effect) {
	switch e.Kind {
	case logcore.EffCommit:
		r.commit(e.Frozen)
	case logcore.EffUnknown:
		r.answerAll(e.Frozen.Proposal, func(o *op, rejected bool) {
			if rejected {
				o.answer(rejectedFor, 0)
				return
			}
			o.answer(unknown, 0)
		})
	case logcore.EffReject:
		r.answerAll(e.Proposal, func(o *op, _ bool) { o.answer(rejectedFor, 0) })
	case logcore.EffRole:
		r.role(e)
	case logcore.EffAlarm:
		r.n.w.check.alarm(r, e.Err)
	case logcore.EffConfirmed:
		r.n.w.check.confirmed(r, e)
	case logcore.EffApplied:
	case logcore.EffNonce:
		var id record.ID
		binary.LittleEndian.PutUint64(id[:], r.n.w.idRand.Uint64())
		binary.LittleEndian.PutUint64(id[8:], r.n.w.idRand.Uint64())
		r.n.w.after(0, func() { r.deliver(func() { r.step(&logcore.Event{Kind: logcore.EvNonce, Op: e.Op, Nonce: id}) }) })
	default:
		r.prepare(&e)
		delay := time.Duration(e.Delay)
		delay += r.n.w.upTo(r.n.w.schedRand, delay/2)
		r.n.w.after(delay, func() {
			if !r.dead {
				r.send(e)
			}
		})
	}
}

// prepare fixes the bytes of a PUT at its first attempt (rule R1).
func (r *run) prepare(e *logcore.Effect) {
	switch e.Kind {
	case logcore.EffPutData:
		if e.Attempt == 0 {
			crc := r.encode(e.Frozen)
			r.step(&logcore.Event{Kind: logcore.EvEncoded, Op: e.Op, HeadCRC: crc})
		}
		e.Body = r.bodies[e.Frozen]
	case logcore.EffPutSnapshot:
		if e.Attempt == 0 {
			r.images[e.Op] = state.EncodeSnapshot(e.View)
		}
		e.Body = r.images[e.Op]
	}
}

func (r *run) encode(f *logcore.Frozen) uint32 {
	ops := f.Proposal.User.([]*op)
	var parts [][]byte
	for _, i := range f.Order {
		o := ops[len(f.Proposal.Ops)+int(i)]
		record.Patch(o.data, f.Proposal.Appends[i].Base, int32(f.Head.Epoch))
		parts = append(parts, o.data)
	}
	prefix, crc, err := f.Encode(parts)
	if err != nil {
		r.n.w.fail("encode: %v", err)
		return 0
	}
	r.bodies[f] = slices.Concat(append([][]byte{prefix}, parts...)...)
	return crc
}

// role follows what the core became.
func (r *run) role(e logcore.Effect) {
	w := r.n.w
	w.logf("node %d run %d is %s in epoch %d", r.n.id, r.n.runs, e.Role, e.Epoch)
	w.mark("role", uint64(r.n.id), uint64(e.Role), uint64(e.Epoch))
	switch e.Role {
	case logcore.RoleLeader:
		w.stats.Leaders++
		r.createTopics()
	case logcore.RoleFenced:
		w.after(w.around(w.crashRand, w.cfg.Restart), func() {
			if !r.dead {
				r.n.kill("leaves after it was fenced")
			}
		})
	case logcore.RoleStopped:
		w.check.stopped(r, e.Err)
		w.after(w.around(w.crashRand, w.cfg.Restart), func() {
			if !r.dead {
				r.n.kill("leaves after it stopped")
			}
		})
	}
}

// createTopics proposes the topics that are missing.
func (r *run) createTopics() {
	for _, t := range r.n.w.topics {
		if r.core.State().TopicByName(t.name) == nil {
			r.submit(&op{w: r.n.w, run: r, create: t.name})
		}
	}
}

// submit queues an op; it is answered exactly once.
func (r *run) submit(o *op) {
	o.run = r
	r.out[o] = true
	if len(r.pending) == 0 {
		r.firstAt = r.n.w.now
		r.n.w.after(r.n.w.cfg.BatchWait, func() { r.deliver(func() {}) })
	}
	r.pending = append(r.pending, o)
}

const opsPerSlot = 64

// pump freezes what is due while the window has room.
func (r *run) pump() {
	w := r.n.w
	for len(r.pending) > 0 && r.core.Room() && w.now-r.firstAt >= int64(w.cfg.BatchWait) && !r.dead {
		ops := r.pending[:min(len(r.pending), opsPerSlot)]
		r.pending = r.pending[len(ops):]
		r.step(&logcore.Event{Kind: logcore.EvFreeze, Proposal: r.proposal(ops), Wall: w.now / 1000})
		r.n.w.check.window(r)
	}
}

// proposal makes one of ops: topic creations first.
func (r *run) proposal(ops []*op) *logcore.Proposal {
	p := &logcore.Proposal{}
	var order, rest []*op
	for _, o := range ops {
		if o.create == "" {
			rest = append(rest, o)
			continue
		}
		var id record.ID
		binary.LittleEndian.PutUint64(id[:], r.n.w.idRand.Uint64())
		binary.LittleEndian.PutUint64(id[8:], r.n.w.idRand.Uint64())
		p.Ops = append(p.Ops, logcore.Op{Record: state.Record{
			Kind: state.TopicCreate, Topic: id, Name: o.create, Partitions: uint32(r.n.w.cfg.Parts),
		}})
		order = append(order, o)
	}
	for _, o := range rest {
		a := logcore.Append{
			Partition: o.key.part, Span: uint32(len(o.values)), Records: uint32(len(o.values)), Bytes: uint32(len(o.data)),
			Expected: o.expected,
		}
		if s := r.core.State(); s != nil {
			if t := s.TopicByName(o.key.topic); t != nil {
				a.Topic = t.ID
			}
		}
		p.Appends = append(p.Appends, a)
		order = append(order, o)
	}
	p.User = order
	return p
}

// commit acknowledges a slot's ops.
func (r *run) commit(f *logcore.Frozen) {
	delete(r.bodies, f)
	r.n.w.mark("commit", f.Head.Slot, uint64(f.Head.Epoch))
	r.n.w.check.committed(r, f)
	p := f.Proposal
	for i, o := range p.User.([]*op) {
		switch {
		case i < len(p.Ops):
			o.answer(outcomeOf(p.Ops[i].Err), 0)
		default:
			a := &p.Appends[i-len(p.Ops)]
			o.next = a.Next
			o.answer(outcomeOf(a.Err), a.Base)
		}
	}
}

func outcomeOf(why logcore.Rejection) outcome {
	if why == logcore.RejectNone {
		return acked
	}
	return rejectedFor
}

// answerAll answers a proposal's ops; rejected says that the op was in no slot.
func (r *run) answerAll(p *logcore.Proposal, f func(o *op, rejected bool)) {
	ops, _ := p.User.([]*op)
	for i, o := range ops {
		if i < len(p.Ops) {
			f(o, p.Ops[i].Err != logcore.RejectNone)
			continue
		}
		a := &p.Appends[i-len(p.Ops)]
		o.why, o.next = a.Err, a.Next
		f(o, a.Err != logcore.RejectNone)
	}
}
