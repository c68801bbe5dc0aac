package sim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

type topic struct {
	name      string
	compacted bool
	stamped   bool // at creation
	queue     bool
	parts     int // number of partitions, if not the default
}

type partKey struct {
	topic string
	part  uint32
}

// outcome is one of the three answers of rule R4.
type outcome uint8

const (
	waiting outcome = iota
	acked
	rejectedFor
	unknown
)

// op is one call of a client: an append, or the creation of a topic.
type op struct {
	w           *simulation
	run         *run
	client      *producer // nil: no producer waits
	id          uint64
	create      string
	settings    map[string]string // of the topic to create
	parts       int               // number of partitions, if not the default
	rec         *state.Record     // a trim or an offset commit
	epoch       uint32            // if not 0: the only epoch in which rec may be
	key         partKey
	batch       *state.ProducerBatch // of an idempotent producer
	check       *access.Check        // nil: of no principal
	done        func(*op)            // additional callback for the answer
	values      []string
	data        []byte
	sum         record.Summary // of data
	expected    int64
	conditional bool
	outcome     outcome
	base        int64
	why         error
	members     []*op // of an atomic request, which they are
	delayed     bool  // a part that is messages with a delay
	change      *op   // of the queue, with delayed
	call        bool  // of a call, whose answer is not that of the op
	begun       bool  // it is in a slot that was sent
	transact    *core.Transact
	staged      *state.StagedOffset // of transact, in a partition of key
	dropped     bool                // its client has closed the connection
}

// answer gives the client its answer; only the first call counts.
func (o *op) answer(out outcome, base int64) {
	delete(o.run.out, o)
	if o.outcome != waiting {
		return
	}
	o.outcome, o.base = out, base
	if o.create != "" || o.rec != nil || o.transact != nil {
		o.w.mark("op", o.id, uint64(out))
		if o.done != nil {
			o.done(o)
		}
		return
	}
	switch out {
	case acked:
		o.w.stats.Acks++
		o.w.check.acked(o)
	case rejectedFor:
		o.w.stats.Rejected++
		o.w.check.rejected(o)
	case unknown:
		o.w.stats.Unknown++
	}
	o.w.mark("answer", o.id, uint64(out), uint64(base))
	if o.client != nil {
		o.client.under--
	}
	if o.done != nil {
		o.done(o)
	}
}

// owe adds an op that the run must answer.
func (r *run) owe(o *op) {
	r.given++
	r.out[o] = r.given
}

// unanswered returns the ops of a run by their id, and those with one id in the order in which the
// run got them: creations of topics share the id of the first append.
func (r *run) unanswered() []*op {
	return slices.SortedFunc(maps.Keys(r.out), func(a, b *op) int {
		return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(r.out[a], r.out[b]))
	})
}

// producer appends to one broker at a time, with several calls in flight. An idempotent producer
// has one call per partition in flight and repeats it until it is answered.
type producer struct {
	w          *simulation
	id         int
	seq        int
	under      int
	at         *run
	last       map[partKey]int64 // offset of its newest acknowledged append
	idempotent bool
	audited    bool // its appends have audit records
	lanes      map[partKey]*sequence
}

// sequence is an idempotent producer's state for one partition.
type sequence struct {
	sequence int32
	again    *op // to be repeated after an unknown outcome
	busy     bool
}

// next sends an append and schedules the next one.
func (p *producer) next() {
	w := p.w
	late := w.late()
	if w.outage.still {
		return
	}
	if w.outage.quiet {
		w.after(p.think(), p.next)
		return
	}
	if late && !p.owes() {
		return // the rest of the calm is for calls in flight
	}
	defer w.after(p.think(), p.next)
	if p.under >= w.cfg.Pipeline || !p.choose() {
		return
	}
	t := w.topics[w.loadRand.IntN(len(w.topics))]
	key := partKey{t.name, uint32(w.loadRand.IntN(w.cfg.Parts))}
	if p.idempotent {
		p.nextIdempotent(key, late)
		return
	}
	o := p.newOp(key)
	if p.authorize(o) {
		p.expect(o)
		p.send(o)
	}
}

// think draws the time until the next append. In a cluster it is bounded, because all is idle at the end.
func (p *producer) think() time.Duration {
	d := p.w.around(p.w.loadRand, p.w.cfg.Think)
	if p.w.clustered() {
		d = min(d, 4*p.w.cfg.Think)
	}
	return d
}

// owes reports whether a batch waits to be repeated.
func (p *producer) owes() bool {
	for _, l := range p.lanes {
		if l.again != nil || l.busy {
			return true
		}
	}
	return false
}

func (p *producer) newOp(key partKey) *op {
	w := p.w
	o := &op{w: w, client: p, id: uint64(p.id)<<32 | uint64(p.seq), key: key, expected: -1}
	for i := range 1 + w.loadRand.IntN(3) {
		o.values = append(o.values, fmt.Sprintf("p%d.%d.%d", p.id, p.seq, i))
	}
	p.seq++
	return o
}

// nextIdempotent repeats an unanswered batch, or sends the next one.
func (p *producer) nextIdempotent(key partKey, late bool) {
	if p.lanes == nil {
		p.lanes = map[partKey]*sequence{}
	}
	l := p.lanes[key]
	if l == nil {
		l = &sequence{}
		p.lanes[key] = l
	}
	if l.busy || late && l.again == nil {
		return
	}
	o := l.again
	if o == nil {
		o = p.newOp(key)
		o.batch = &state.ProducerBatch{ID: int64(p.id), Sequence: l.sequence, Span: uint32(len(o.values))}
	} else {
		again := *o
		again.outcome, again.run, again.why = waiting, nil, nil
		o = &again
	}
	l.again, l.busy = nil, true
	o.done = func(o *op) {
		l.busy = false
		switch {
		case o.outcome == acked:
			l.sequence += int32(len(o.values))
		case o.why == state.ErrSequenceGap && p.w.check.leads(o.run):
			p.w.fail("I6: producer %d: sequence %d of %v was refused", p.id, o.batch.Sequence, o.key)
		default:
			l.again = o
		}
	}
	p.send(o)
}

// send encodes an op and gives it to the broker.
func (p *producer) send(o *op) {
	w := p.w
	var err error
	if o.data, o.sum, err = record.Append(nil, o.records(), record.EncodeOptions{}); err != nil {
		w.fail("encode records: %v", err)
		return
	}
	w.check.sent.Note(o.data)
	w.check.value(o.values[0]).audited = p.audited
	p.under++
	r := p.at
	r.deliver(func() { r.submit(o) })
	if o.run == nil { // the broker is paused
		o.run = r
		r.owe(o)
	}
	w.after(w.cfg.ClientTimeout, func() { p.timeout(o, r) })
}

// expect makes some appends conditional on the partition's end, as far as this client knows it.
func (p *producer) expect(o *op) {
	s := p.at.core.State()
	if s == nil || p.w.loadRand.IntN(8) != 0 {
		return
	}
	if t := s.TopicByName(o.key.topic); t != nil && int(o.key.part) < t.Partitions.Len() {
		o.expected = t.Partitions.At(int(o.key.part)).Next
	}
}

// choose picks a broker. It keeps the broker while answers are missing, otherwise order would be
// undefined.
func (p *producer) choose() bool {
	if p.at != nil && !p.at.dead && (p.under > 0 || p.at.core.Role() == core.RoleLeader && p.w.loadRand.IntN(50) > 0) {
		return true
	}
	if p.under > 0 {
		return false
	}
	n := p.w.nodes[p.w.loadRand.IntN(p.w.cfg.Nodes)]
	p.at = n.run
	return p.at != nil
}

// timeout ends the client's wait. An append that was not sent is removed; otherwise the outcome is
// unknown (rule R4).
func (p *producer) timeout(o *op, r *run) {
	if o.outcome != waiting {
		return
	}
	if i := slices.Index(r.pending, o); i >= 0 && !r.paused && !r.dead {
		r.pending = slices.Delete(slices.Clone(r.pending), i, i+1)
		o.answer(rejectedFor, 0)
		return
	}
	o.answer(unknown, 0)
}

// readers reads from random brokers and requests confirmed ends.
func (w *simulation) readers() {
	w.after(w.around(w.loadRand, w.slow(30*time.Millisecond)), func() {
		n := w.nodes[w.loadRand.IntN(len(w.nodes))]
		if r := n.run; r != nil && !r.paused && !w.outage.still {
			w.check.read(r)
			if w.loadRand.IntN(20) == 0 {
				w.check.askConfirm(r)
			}
			// Otherwise it would look for a month.
			if w.loadRand.IntN(50) == 0 && !n.readOnly && w.cfg.Slow == 0 {
				r.step(&core.Event{Kind: core.EvReaders, On: w.loadRand.IntN(2) == 0})
			}
		}
		w.readers()
	})
}

// faultsOf kills and pauses a node at random times.
func (w *simulation) faultsOf(n *node) {
	if w.cfg.CrashEvery > 0 {
		w.after(w.around(w.crashRand, w.cfg.CrashEvery), func() { w.crash(n) })
	}
	if w.cfg.PauseEvery > 0 {
		w.after(w.around(w.crashRand, w.cfg.PauseEvery), func() { w.pause(n) })
	}
	w.cuts(n)
	w.clocks(n)
}

func (w *simulation) crash(n *node) {
	if w.calm {
		return
	}
	if n.run != nil {
		w.stats.Crashes++
		w.stats.Faults++
		n.kill("killed")
	}
	w.after(w.around(w.crashRand, w.cfg.CrashEvery), func() { w.crash(n) })
}

func (w *simulation) pause(n *node) {
	if w.calm {
		return
	}
	if r := n.run; r != nil && !r.paused {
		w.stats.Pauses++
		w.stats.Faults++
		r.paused = true
		w.logf("node %d paused", n.id)
		w.after(w.around(w.crashRand, w.slow(5*time.Second)), func() {
			if n.run == r {
				n.resume()
			}
		})
	}
	w.after(w.around(w.crashRand, w.cfg.PauseEvery), func() { w.pause(n) })
}

// refusals makes the store refuse everything for a while, like expired credentials.
func (w *simulation) refusals() {
	if w.cfg.RefuseEvery == 0 {
		return
	}
	w.after(w.around(w.faultRand, w.cfg.RefuseEvery), func() {
		if w.calm {
			return
		}
		w.store.refusing = true
		w.stats.Faults++
		w.stats.Refusals++
		w.logf("store refuses all requests")
		w.after(w.around(w.faultRand, w.slowRetry(3*time.Second)), func() { w.store.refusing = false })
		w.refusals()
	})
}

func outcomeOf(why error) outcome {
	switch why {
	case nil, core.ErrDuplicate:
		return acked
	case state.ErrOutcomeUnknown:
		return unknown
	}
	return rejectedFor
}

// answerAll answers a proposal's ops. f receives the reason why each was omitted from the slot, or
// nil.
func (r *run) answerAll(p *core.Proposal, f func(o *op, why error, base int64)) {
	ops, _ := p.User.([]*op)
	for i, o := range ops {
		if i < len(p.Ops) {
			o.why = p.Ops[i].Err
			f(o, o.why, 0)
			continue
		}
		a := &p.Appends[i-len(p.Ops)]
		o.why = a.Err
		f(o, a.Err, a.Base)
	}
}
