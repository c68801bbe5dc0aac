package sim

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/sim/watch"
)

// node is a machine: it executes consecutive runs.
type node struct {
	w        *simulation
	id       int
	readOnly bool
	run      *run // nil between runs
	runs     int
	skew     int64 // error of its wall clock
	rate     int64 // drift of all its clocks, parts in a million
	accept   bool  // its next run starts with --accept-clock
	cut      cut   // which messages to and from the store are lost

	dataDir

	// With cluster.Cores: the number of the start that looks for other brokers, 0: none, and of all;
	// until when the machine has no power, and until when its broker may be deposed.
	joining, tries int
	power, force   bool
	slow           time.Duration // factor of the times of its requests to the store; 0: 1
	down           time.Duration // it starts that much later
	excused        int64
}

// run is one process: a core and the shell that performs its effects.
type run struct {
	n        *node
	core     *core.Core
	dead     bool
	paused   bool
	inbox    []func() // while paused
	pending  []*op    // not submitted to the core yet
	creating bool     // topic creation is scheduled again
	firstAt  int64    // when the first of them came
	wakeAt   int64
	out      map[*op]uint64 // every unanswered op, and its number in the run
	given    uint64         // number of the newest op
	bodies   map[*core.Frozen][]byte
	damaged  map[core.OpID]int    // damaged answers
	images   map[core.OpID][]byte // encoded snapshots
	confirm  map[uint64]int64     // confirmation tags: the chain's length at the request
	seen     map[partKey]int64    // highest next offset served
	stable   map[partKey]int64    // highest last stable offset shown
	rules    ruleState
	packing  bool
	packed   uint64         // packs begun
	engine   *watch.Broker  // of triggers; nil: none
	events   *frontend      // of Riemann; nil: none
	shown    state.Position // at the last notification of the engine
	was      core.Role
	clock    clock
	standing bool // an attempt is scheduled
	yield    yielding
	saw      *core.Seen // content of the data directory at the start
	// tainted: a leader fed a slot that was not committed, so a follower may show what is not on the
	// chain. It must not lead with it.
	tainted     bool
	member      *member // nil: no cluster.Core
	born, ledAt int64
	deadlines   *core.Deadlines // of transactions, of its leadership
}

func (n *node) start() {
	if n.run != nil || n.joining != 0 {
		return
	}
	n.runs++
	if n.power = false; n.w.clustered() {
		n.joins()
		return
	}
	n.begin(n.w.cfg.Join && !n.readOnly)
}

// begin starts a process. follows: other brokers may lead.
func (n *node) begin(follows bool) {
	w := n.w
	n.startClock()
	r := &run{
		n: n, out: map[*op]uint64{}, bodies: map[*core.Frozen][]byte{}, images: map[core.OpID][]byte{}, damaged: map[core.OpID]int{},
		confirm: map[uint64]int64{}, seen: map[partKey]int64{}, stable: map[partKey]int64{}, rules: newRuleState(), saw: n.seen,
	}
	scaled := func(d time.Duration) core.Duration { return core.Duration(w.units(d)) }
	raise := core.Duration(0)
	if w.clustered() {
		raise = scaled(20 * time.Second)
	}
	if w.rights || w.cfg.Atomics+w.cfg.Transactions > 0 && !w.clustered() { // rules, queues and transactions need a format level that new buckets do not have
		raise = 1
	}
	r.core = core.New(core.Config{
		RaiseAfter: raise, Standby: follows,
		ProducerExpiration: core.Duration(10 * 365 * 24 * time.Hour), // clients repeat a batch until it is answered
		ReadOnly:           n.readOnly, Advertised: string(rune('a' + n.id)), Run: n.identity(), Window: w.cfg.Window, SnapshotSlots: w.cfg.SnapshotSlots, SnapshotBytes: snapshotBytes(w.cfg.SnapshotSlots),
		GarbageWait: core.Duration(w.cfg.GarbageWait), ScrubEvery: core.Duration(w.cfg.Scrub), Seen: n.known(), Journals: w.cfg.Journals,
		RetryMin: scaled(50 * time.Millisecond), RetryMax: scaled(5 * time.Second), RefusedRetry: scaled(5 * time.Second), FollowPoll: scaled(time.Second),
	})
	if w.clustered() {
		r.joined()
		r.member.lone = !follows
	}
	w.stats.Starts++
	for _, other := range w.nodes {
		if other.run != nil && other.run.core.Role() == core.RoleStarting {
			w.stats.Together++
			break
		}
	}
	n.run, r.born = r, w.now
	r.startClock()
	if w.watch != nil {
		r.engine = w.watch.Start(r)
	}
	w.logf("node %d starts run %d", n.id, n.runs)
	w.mark("start", uint64(n.id))
	r.step(&core.Event{Kind: core.EvStart})
	r.hears()
	if n.readOnly {
		r.step(&core.Event{Kind: core.EvReaders, On: true})
	}
}

// kill ends a run like SIGKILL. Requests already sent to the store continue.
func (n *node) kill(why string) {
	r := n.run
	if r == nil {
		return
	}
	n.w.logf("node %d %s", n.id, why)
	n.w.mark(why, uint64(n.id))
	r.dead = true
	n.run = nil
	for _, o := range r.unanswered() {
		o.answer(unknown, 0)
	}
	r.engine.Kill()
	r.events.kill()
	r.member.ends()
	fenced := r.core.Role() == core.RoleFenced
	if n.w.late() && fenced {
		return // another broker leads and answers; it does not compete again (rule R6)
	}
	back := n.w.around(n.w.crashRand, n.w.cfg.Restart)
	if n.w.calm && (!fenced || n.w.cfg.Slow == 0) { // in the calm of a month thousands of epochs would follow
		back = min(back, 5*time.Second)
	}
	n.w.after(back+n.down, n.start)
	n.down = 0
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
	r.member.resumes()
}

// deliver runs f in the process if it is alive. A paused process runs it later.
func (r *run) deliver(f func()) {
	switch {
	case r.dead:
	case r.paused:
		r.inbox = append(r.inbox, f)
	default:
		f()
		r.pump()
		r.drains()
		r.remember()
		r.notify()
		r.member.owned()
	}
}

// remember saves a leader's position in the data directory.
func (r *run) remember() {
	s := r.core.State()
	if r.n.folderless || r.dead || r.core.Role() != core.RoleLeader || r.n.seen != nil && r.n.seen.Slot == s.Pos.Slot && r.n.seen.Nonce == s.Nonce {
		return
	}
	r.n.seen = &core.Seen{Cluster: s.Cluster, Epoch: s.Pos.Epoch, Nonce: s.Nonce, Slot: s.Pos.Slot}
}

// step gives the core an event and performs its effects.
func (r *run) step(ev *core.Event) {
	var fx core.Effects
	r.core.Step(r.n.w.now, ev, &fx)
	if ev.Kind == core.EvTick && fx.Wake > 0 && fx.Wake <= r.n.w.now {
		r.n.w.fail("node %d: a tick wants another at once: a broker would compute without end", r.n.id)
	}
	if fx.Wake > 0 && fx.Wake != r.wakeAt {
		r.wakeAt = fx.Wake
		r.n.w.after(time.Duration(fx.Wake-r.n.w.now), func() { r.deliver(func() { r.step(&core.Event{Kind: core.EvTick}) }) })
	}
	for i := range fx.List {
		if r.dead {
			return
		}
		r.perform(fx.List[i])
	}
}

// perform performs one effect after its delay.
func (r *run) perform(e core.Effect) {
	switch e.Kind {
	case core.EffCommit:
		r.commit(e.Frozen)
	case core.EffUnknown:
		r.parkedUnknown(e.Frozen)
		r.n.w.check.handedUnknown(r, e.Frozen)
		r.answerAll(e.Frozen.Proposal, func(o *op, why error, _ int64) {
			if why == nil {
				o.answer(unknown, 0)
				return
			}
			o.answer(outcomeOf(why), 0)
		})
	case core.EffReject:
		r.answerAll(e.Proposal, func(o *op, why error, base int64) {
			if why == nil {
				why, o.why = e.Reject, e.Reject
			}
			o.answer(outcomeOf(why), base)
		})
	case core.EffRole:
		r.role(e)
	case core.EffAlarm:
		r.n.w.check.alarm(r, e.Err)
	case core.EffConfirmed:
		r.n.w.check.confirmed(r, e)
	case core.EffApplied:
	case core.EffCollect:
		c := &collection{r: r, op: e.Op, judge: core.NewCollector(e.View, nil)}
		c.list(core.WALPrefix(0), "")
	case core.EffNonce:
		var id record.ID
		binary.LittleEndian.PutUint64(id[:], r.n.w.idRand.Uint64())
		binary.LittleEndian.PutUint64(id[8:], r.n.w.idRand.Uint64())
		r.n.w.after(0, func() { r.deliver(func() { r.step(&core.Event{Kind: core.EvNonce, Op: e.Op, Nonce: id}) }) })
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
func (r *run) prepare(e *core.Effect) {
	switch e.Kind {
	case core.EffPutData:
		if e.Attempt == 0 {
			r.n.w.check.frozen(r, e.Frozen)
			crc := r.encode(e.Frozen)
			if r.n.w.cfg.FeedEarly && r.n.w.feedRand.IntN(4) == 0 {
				r.feed(e.Key, r.bodies[e.Frozen])
			}
			r.step(&core.Event{Kind: core.EvEncoded, Op: e.Op, HeadCRC: crc})
		}
		e.Body = r.bodies[e.Frozen]
	case core.EffPutSnapshot:
		if e.Attempt == 0 {
			// Without the frame of a snapshot, because compression would take most of a run's time.
			r.images[e.Op] = state.EncodeMessage(e.View)
			r.n.w.check.snapAt[e.Key] = e.View.Pos
		}
		e.Body = r.images[e.Op]
	}
}

func (r *run) encode(f *core.Frozen) uint32 {
	ops, _ := f.Proposal.User.([]*op) // nil: a proposal of the core
	var parts [][]byte
	for _, i := range f.Order {
		var data []byte
		if m := f.Proposal.Appends[i].Marker; m != nil {
			data = record.AppendMarker(nil, m)
		} else {
			o := ops[len(f.Proposal.Ops)+int(i)]
			o.begun, data = true, o.data
		}
		f.Patch(i, data)
		parts = append(parts, data)
	}
	prefix, crc, err := f.Encode(parts)
	if err != nil {
		r.n.w.fail("encode: %v", err)
		return 0
	}
	r.bodies[f] = slices.Concat(append([][]byte{prefix}, parts...)...)
	return crc
}

// leaveMost bounds how long a stopped broker takes to exit: the heavy tail must not outlast the
// calm.
const leaveMost = 30 * time.Second

// role follows a change of the core's role.
func (r *run) role(e core.Effect) {
	w := r.n.w
	w.logf("node %d run %d is %s in epoch %d", r.n.id, r.n.runs, e.Role, e.Epoch)
	w.mark("role", uint64(r.n.id), uint64(e.Role), uint64(e.Epoch))
	r.member.role(e)
	switch e.Role {
	case core.RoleLeader:
		w.stats.Leaders++
		if r.tainted {
			r.tainted = false
			clear(r.seen)
			clear(r.stable)
		}
		if r.core.Journaled() {
			w.stats.Journals++
		}
		r.leads()
		r.beats()
		w.check.led(r)
		w.check.warm(r)
		w.check.handed(r)
		r.ledAt = w.now
		if w.cfg.Transactions > 0 {
			r.deadlines = &core.Deadlines{}
			r.expires(r.deadlines)
		}
		r.sealed()
		r.yields()
		r.createTopics()
	case core.RoleFollower:
		r.stands()
	case core.RoleFenced:
		if w.cfg.StandEvery > 0 {
			r.follows(e.Err)
			return
		}
		w.after(min(w.around(w.crashRand, w.cfg.Restart), leaveMost), func() {
			if !r.dead {
				r.n.kill("exits after it was fenced")
			}
		})
	case core.RoleStopped:
		w.check.stopped(r, e.Err)
		w.after(min(w.around(w.crashRand, w.cfg.Restart), leaveMost), func() {
			if !r.dead {
				r.n.kill("exits after it stopped")
			}
		})
	}
}

// createTopics repeatedly proposes the missing topics while the run leads, because clients may wait
// for them.
func (r *run) createTopics() {
	w := r.n.w
	again := func(o *op) {
		if o.outcome != acked && !r.creating {
			r.creating = true
			w.after(time.Second, func() {
				if r.creating = false; !r.dead && r.core.Role() == core.RoleLeader {
					r.createTopics()
				}
			})
		}
	}
	for _, t := range w.created() {
		if r.core.State().TopicByName(t.name) == nil {
			r.submit(&op{w: w, run: r, create: t.name, parts: t.parts, settings: t.settings(), done: again})
		}
	}
}

// answers are the ops that get the answers to an op.
func (o *op) answers() []*op {
	if o.members != nil {
		return o.members
	}
	return []*op{o}
}

// submit queues an op. It is answered exactly once.
func (r *run) submit(o *op) {
	for _, x := range o.answers() {
		x.run = r
		r.owe(x)
	}
	if len(r.pending) == 0 {
		r.firstAt = r.n.w.now
		r.n.w.after(r.n.w.cfg.BatchWait, func() { r.deliver(func() {}) })
	}
	r.pending = append(r.pending, o)
}

const opsPerSlot = 64

// pump freezes queued ops while the window has room.
func (r *run) pump() {
	w := r.n.w
	for len(r.pending) > 0 && r.core.Room() && w.now-r.firstAt >= int64(w.cfg.BatchWait) && !r.dead && !r.held() {
		ops := r.pending[:min(len(r.pending), opsPerSlot)]
		r.pending = r.pending[len(ops):]
		at, _ := r.time()
		ev := core.Event{Kind: core.EvFreeze, Proposal: r.proposal(ops), Wall: at}
		if r.member != nil {
			ev.RaiseMax = r.member.core.LevelMax()
		}
		r.step(&ev)
		r.n.w.check.window(r)
	}
}

// commit acknowledges a slot's ops.
func (r *run) commit(f *core.Frozen) {
	r.n.keep(f.Key, r.bodies[f])
	if r.member != nil {
		r.member.feed(f.Key, r.bodies[f])
	} else if r.n.w.cfg.Feed {
		r.feed(f.Key, r.bodies[f])
	}
	delete(r.bodies, f)
	r.n.w.mark("commit", f.Head.Slot, uint64(f.Head.Epoch))
	r.n.w.check.committed(r, f)
	p := f.Proposal
	ops, _ := p.User.([]*op)
	if r.yield.shows && len(ops) == 0 {
		r.n.w.stats.Alive++
	}
	for i, o := range ops {
		switch {
		case i < len(p.Ops):
			o.why = p.Ops[i].Err
			o.answer(outcomeOf(o.why), 0)
		default:
			a := &p.Appends[i-len(p.Ops)]
			o.why = a.Err
			o.answer(outcomeOf(a.Err), a.Base)
		}
	}
}
