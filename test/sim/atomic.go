package sim

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// queueTopic is a queue to which only atomic requests send.
const queueTopic = "q"

// atomicClient sends atomic requests: records of several partitions and topics, and messages of a queue, of
// which some are delayed. An idempotent one numbers its requests by the epoch of its producer, and repeats a
// request of unknown outcome at any broker. A request that was certainly refused uses up no number.
type atomicClient struct {
	w          *simulation
	id, seq    int
	idempotent bool
	epoch      int16
	busy       bool           // a request has no answer
	again      *atomicRequest // to be repeated
}

// atomicRequest is a request. Invariant I21: the log has all of its records, in one slot, or none.
type atomicRequest struct {
	c     *atomicClient
	parts []*op // of the newest attempt
	left  int   // of these, without an answer
	maybe bool  // the outcome of an attempt is unknown
	bad   bool  // a part is for a partition that does not exist, or of no principal
	count int   // records
	found int   // of these in the slot that is checked
}

// AtomicCounts counts atomic requests.
type AtomicCounts struct {
	Acked, Refused, Unknown    int // answers to attempts
	Bad, Repeated, Duplicates  int // requests with a bad part, attempts after the first, of them duplicates
	Stored, Records, Delayed   int // requests on the chain, their records, and those of them that are delayed
	Topics                     int // topics of the requests on the chain
	Viewed, ViewedWithout      int // looks at what a broker shows of a request that is stored
	Principals, LostPrincipals int // requests with a principal, and those refused because it lost its right
}

// atomics starts the clients of atomic requests.
func (w *simulation) atomics() {
	for i := range w.cfg.Atomics {
		c := &atomicClient{w: w, id: i, idempotent: w.atomicRand.IntN(3) > 0}
		w.atomicClients = append(w.atomicClients, c)
		w.after(w.upTo(w.atomicRand, w.cfg.Think), c.next)
	}
}

// next sends a request and schedules the next one, like a producer.
func (c *atomicClient) next() {
	w := c.w
	late := w.late()
	if w.outage.still || late && c.again == nil && !c.busy {
		return
	}
	think := w.around(w.atomicRand, w.cfg.Think)
	if w.clustered() {
		think = min(think, 4*w.cfg.Think)
	}
	defer w.after(think, c.next)
	r := c.choose()
	if c.busy || w.outage.quiet || r == nil || late && c.again == nil {
		return
	}
	q := c.again
	if c.again = nil; q == nil {
		if q = c.request(r); q == nil {
			return
		}
	} else {
		w.stats.Atomic.Repeated++
	}
	q.send(r)
}

// choose picks a broker, more often one that leads. It may be nil.
func (c *atomicClient) choose() *run {
	w := c.w
	r := w.nodes[w.atomicRand.IntN(w.cfg.Nodes)].run
	for range w.atomicRand.IntN(4) {
		if r != nil && r.core.Role() == core.RoleLeader {
			break
		}
		r = w.nodes[w.atomicRand.IntN(w.cfg.Nodes)].run
	}
	return r
}

// request makes a request of one to five parts. It is nil if the broker refuses it at once.
func (c *atomicClient) request(r *run) *atomicRequest {
	w := c.w
	q := &atomicRequest{c: c, bad: w.atomicRand.IntN(8) == 0}
	var keys []partKey
	for i := range w.cfg.Parts {
		for _, t := range w.topics {
			keys = append(keys, partKey{t.name, uint32(i)})
		}
		keys = append(keys, partKey{queueTopic, uint32(i)})
	}
	w.atomicRand.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	for _, key := range keys[:min(len(keys), 1+w.atomicRand.IntN(5))] {
		q.add(key, 1+w.atomicRand.IntN(3))
	}
	o := q.parts[w.atomicRand.IntN(len(q.parts))]
	if w.rights && !q.bad && w.rightsRand.IntN(2) == 0 && o.key.topic != queueTopic {
		if !r.authority(o) {
			return nil
		}
		w.stats.Atomic.Principals++
	}
	if c.seq++; q.bad {
		w.stats.Atomic.Bad++
		q.spoil(o)
	}
	for _, o := range q.parts {
		for _, v := range o.values {
			w.check.value(v).atomic = q
		}
	}
	return q
}

// add adds a part of n records.
func (q *atomicRequest) add(key partKey, n int) {
	c := q.c
	o := &op{w: c.w, id: 1<<54 | uint64(c.id)<<32 | uint64(c.seq), key: key, expected: -1}
	for i := range n {
		o.values = append(o.values, fmt.Sprintf("a%d.%d.%d.%d", c.id, c.seq, len(q.parts), i))
	}
	o.delayed = key.topic == queueTopic && c.w.atomicRand.IntN(2) == 0
	if c.idempotent {
		o.batch = &state.ProducerBatch{ID: 1<<40 + int64(c.id), Epoch: c.epoch, Span: uint32(n)}
	}
	q.parts = append(q.parts, o)
	q.count += n
}

// spoil makes a part bad.
func (q *atomicRequest) spoil(o *op) {
	switch q.c.w.atomicRand.IntN(3) {
	case 0:
		o.key.topic = "nowhere"
	case 1:
		o.key.part = 99
	default:
		o.check = &access.Check{Principal: "unknown", Secret: 1}
	}
}

// send sends a request to a broker.
func (q *atomicRequest) send(r *run) {
	w := q.c.w
	again := make([]*op, len(q.parts))
	for i, o := range q.parts {
		n := *o
		n.outcome, n.run, n.why, n.base, n.epoch, n.change = waiting, nil, nil, 0, 0, nil
		var err error
		if n.data, n.sum, err = record.Append(nil, n.records(), record.EncodeOptions{}); err != nil {
			w.fail("encode records: %v", err)
			return
		}
		w.check.sent.Note(n.data)
		if s := r.core.State(); s != nil && n.delayed { // as a broker prepares the message
			n.epoch = s.Pos.Epoch
		}
		n.done = func(*op) { q.answered(r) }
		again[i] = &n
	}
	q.parts, q.left, q.c.busy = again, len(again), true
	o := &op{w: w, id: q.parts[0].id, members: q.parts}
	r.deliver(func() { r.submit(o) })
	if q.parts[0].run == nil { // the broker is paused
		for _, x := range q.parts {
			x.run = r
			r.owe(x)
		}
	}
	w.after(w.cfg.ClientTimeout, func() { q.timeout(o, r) })
}

// timeout ends the client's wait, as that of a producer.
func (q *atomicRequest) timeout(o *op, r *run) {
	if o.members[0].outcome != waiting {
		return
	}
	out := unknown
	if i := slices.Index(r.pending, o); i >= 0 && !r.paused && !r.dead {
		r.pending = slices.Delete(slices.Clone(r.pending), i, i+1)
		out = rejectedFor
	}
	for _, x := range o.members {
		x.answer(out, 0)
	}
}

// answered counts the answers to an attempt. After the last, it checks that they are those of a whole.
func (q *atomicRequest) answered(r *run) {
	if q.left--; q.left > 0 {
		return
	}
	w, c, first := q.c.w, q.c, q.parts[0]
	c.busy = false
	var why error
	for _, o := range q.parts {
		if o.outcome != first.outcome {
			w.fail("I21: node %d answers %q and %q of one request with %d and %d", r.n.id, first.values[0], o.values[0], first.outcome, o.outcome)
		}
		if o.change != nil && o.change.why != o.why {
			w.fail("I21: node %d answers %q with %v, and the change of its queue with %v", r.n.id, o.values[0], o.why, o.change.why)
		}
		if o.why != state.ErrAtomic {
			why = errors.Join(why, o.why)
		}
		if first.why == state.ErrAtomic && o == q.parts[len(q.parts)-1] && why == nil {
			w.fail("I21: node %d refuses %q and does not say why", r.n.id, first.values[0])
		}
		if (o.why == core.ErrDuplicate) != (first.why == core.ErrDuplicate) {
			w.fail("I21: node %d calls %v of %q and %v of %q one duplicate", r.n.id, first.why, first.values[0], o.why, o.values[0])
		}
	}
	switch first.outcome {
	case acked:
		w.stats.Atomic.Acked++
		if first.why == core.ErrDuplicate {
			w.stats.Atomic.Duplicates++
		}
		c.epoch++
	case unknown:
		w.stats.Atomic.Unknown++
		q.maybe = true
		if c.idempotent {
			c.again = q
		}
	default:
		w.stats.Atomic.Refused++
		q.refused(r, why)
	}
}

// refused is the end of a request, unless another broker may store it.
func (q *atomicRequest) refused(r *run, why error) {
	w, c := q.c.w, q.c
	if errors.Is(why, state.ErrSequenceGap) && w.check.leads(r) {
		w.fail("I6: client %d of atomic requests: %q was refused: %v", c.id, q.parts[0].values[0], why)
	}
	if errors.Is(why, state.ErrUnauthorized) && !q.bad {
		w.stats.Atomic.LostPrincipals++
	}
	final := errors.Is(why, state.ErrUnauthorized) || errors.Is(why, state.ErrUnknownPartition) || q.bad && errors.Is(why, state.ErrUnknownTopic)
	switch {
	case c.idempotent && !final && (q.maybe || w.atomicRand.IntN(4) > 0):
		c.again = q
	case q.maybe:
		c.epoch++
	default:
		w.check.refused(q)
	}
}

// refused checks I2 for all records of a request that is certainly refused.
func (c *checker) refused(q *atomicRequest) {
	for _, o := range q.parts {
		for _, v := range o.values {
			x := c.value(v)
			if x.rejected = true; x.at >= 0 {
				c.w.fail("I2: %q of an atomic request was rejected but is at %v offset %d", v, o.key, x.at)
			}
		}
	}
}

// atomic adds an atomic request to a proposal.
func (r *run) atomic(p *core.Proposal, o *op, ops, appends *[]*op) {
	of := core.Atomic{Ops: core.Span{From: int32(len(p.Ops))}, Appends: core.Span{From: int32(len(p.Appends))}}
	for _, x := range o.members {
		a := r.appendOf(x)
		if a.Atomic = true; x.delayed {
			a.Joins = true
			p.Ops = append(p.Ops, core.Op{
				Own: true, Atomic: true, Placed: true, Epoch: x.epoch, Audit: 1 + int32(len(p.Appends)),
				Record: state.Record{Kind: state.QueueUpdate, Topic: a.Topic, Partition: a.Partition, Queue: &state.QueueChange{
					Runs: []state.QueueRun{{Span: int64(a.Span), State: state.QueueWaiting, Until: r.n.w.now/1000 + int64(time.Hour/time.Microsecond)}},
				}},
			})
			x.change = &op{w: r.n.w, run: r, outcome: acked} // the append has the answer
			*ops = append(*ops, x.change)
		}
		p.Appends, *appends = append(p.Appends, a), append(*appends, x)
	}
	of.Ops.To, of.Appends.To = int32(len(p.Ops)), int32(len(p.Appends))
	p.Atomics = append(p.Atomics, of)
}

// wholes are the atomic requests of a slot, and those of all slots.
type wholes struct{ slot, stored []*atomicRequest }

// has notes a record of a request.
func (w *wholes) has(q *atomicRequest) {
	if !slices.Contains(w.slot, q) {
		w.slot, q.found = append(w.slot, q), 0
	}
	q.found++
}

// whole checks I21 for a slot, whose records have been applied.
func (c *checker) whole(key string, recs []state.Record) {
	delays := 0
	for i := range recs {
		if q := recs[i].Queue; q != nil {
			for _, run := range q.Runs {
				delays += int(run.Span)
			}
		}
	}
	for _, q := range c.wholes.slot {
		if q.found != q.count {
			c.w.fail("I21: %s has %d of the %d records of the request of %q", key, q.found, q.count, q.parts[0].values[0])
			return
		}
		topics := map[string]bool{}
		for _, o := range q.parts {
			topics[o.key.topic] = true
			if o.delayed {
				delays -= len(o.values)
				c.w.stats.Atomic.Delayed += len(o.values)
				c.delayed(o)
			}
		}
		c.w.stats.Atomic.Stored++
		c.w.stats.Atomic.Records += q.count
		c.w.stats.Atomic.Topics += len(topics)
		c.wholes.stored = append(c.wholes.stored, q)
	}
	if c.wholes.slot = nil; delays != 0 {
		c.w.fail("I21: %s delays %d messages more than it has", key, delays)
	}
}

// delayed checks that the queue has delayed the messages of a part.
func (c *checker) delayed(o *op) {
	p := c.fold.TopicByName(queueTopic).Partitions.At(int(o.key.part))
	for _, v := range o.values {
		if run := p.QueueOf().Of(int64(c.value(v).at)); run.State != state.QueueWaiting {
			c.w.fail("I21: message %q at offset %d is not delayed: %+v", v, c.value(v).at, run)
		}
	}
}

// viewed checks I21 for what a broker shows: all records of a request, or none.
func (c *checker) viewed(r *run, s *state.State) {
	stored := c.wholes.stored
	if len(stored) == 0 {
		return
	}
	recent := stored[max(0, len(stored)-10):]
	q := recent[c.w.atomicRand.IntN(len(recent))]
	shown := 0
	for _, o := range q.parts {
		if t := s.TopicByName(o.key.topic); t != nil && t.Partitions.At(int(o.key.part)).Next > int64(c.value(o.values[0]).at) {
			shown++
		}
	}
	if c.w.stats.Atomic.Viewed++; shown == 0 {
		c.w.stats.Atomic.ViewedWithout++
	} else if shown < len(q.parts) {
		c.w.fail("I21: node %d shows %d of the %d parts of the request of %q", r.n.id, shown, len(q.parts), q.parts[0].values[0])
	}
}

// atomicsAtEnd checks I13 for the clients of atomic requests.
func (c *checker) atomicsAtEnd() {
	for _, x := range c.w.atomicClients {
		if x.busy || x.again != nil {
			c.w.fail("I13: client %d of atomic requests waits", x.id)
		}
	}
}
