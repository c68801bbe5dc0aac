package sim

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// txClient is a transactional producer with its own transactional ID. It writes batches to several partitions and
// stages offsets of a group, commits or aborts, and repeats what has an unknown outcome at any broker. Sometimes it
// is replaced by another process, recovers by an init in the middle of a transaction, or is silent for longer than
// its timeout. Brokers get copies of its requests late.
type txClient struct {
	w        *simulation
	id, seq  int
	next     bool // version 2 of transactions
	timeout  time.Duration
	producer state.ProducerEpoch  // with ID -1 it has none
	sequence map[partKey]int32    // of the epoch
	tx       *tx                  // nil: none
	init     *op                  // in flight
	again    *state.ProducerEpoch // of an init to be repeated
	copy     *core.Transact       // of the end before, in version 1
	silent   int64                // it does nothing until then
	value    int64                // newest staged offset
}

// tx is a transaction. Invariant I22: all of it is committed in one slot, or all is aborted in one.
type tx struct {
	c      *txClient
	id     int
	items  []*txItem
	commit bool
	asked  bool // its end was sent
	end    *op  // in flight
	over   bool // the client has given it up
	truth  txFate
	found  int // values on the chain
}

// txFate is how a transaction ended on the chain.
type txFate uint8

const (
	txOpen txFate = iota
	txCommitted
	txAborted
)

// txItem is a batch, or staged offsets, of a transaction.
type txItem struct {
	key    partKey
	values []string // of a batch
	offset int64    // staged, if there are no values
	batch  *state.ProducerBatch
	busy   bool
	done   bool
}

// TransactionCounts counts transactions.
type TransactionCounts struct {
	Committed, Aborted, Forced int // on the chain; Forced by the broker
	Two                        int // of them with at least two partitions
	Offsets                    int // committed with staged offsets
	Inits, Recovered, Replaced int // answers to inits; those of a producer itself; processes that gave up
	Repeated, Late             int // ends that were answered as repeated ones; copies that came late
	Overdue                    int // ended by their timeout
	Read, Hidden, Held         int // looks at a record of a transaction: visible, aborted, above the last stable offset
	Levels                     int // refused because of the format level
}

var noProducer = state.ProducerEpoch{ID: -1}

func (c *txClient) name() string  { return fmt.Sprint("x", c.id) }
func (c *txClient) group() string { return fmt.Sprint("xg", c.id) }

// transactions starts the transactional producers.
func (w *simulation) transactions() {
	for i := range w.cfg.Transactions {
		c := &txClient{w: w, id: i, next: w.txRand.IntN(2) == 0, producer: noProducer}
		c.timeout = w.units([]time.Duration{time.Second, 5 * time.Second, 20 * time.Second}[w.txRand.IntN(3)])
		w.txClients = append(w.txClients, c)
		w.after(w.upTo(w.txRand, w.cfg.Think), c.step)
	}
}

// step does the next thing that is possible, and schedules the next step.
func (c *txClient) step() {
	w := c.w
	late := w.late()
	if w.outage.still || late && c.tx == nil && c.init == nil {
		return
	}
	think := min(w.around(w.txRand, w.cfg.Think), 4*w.cfg.Think)
	defer w.after(think, c.step)
	r := c.choose()
	if w.outage.quiet || r == nil || r.readOnly() || c.init != nil || w.now < c.silent && !late {
		return
	}
	switch {
	case c.again != nil:
		c.begin(r, *c.again)
	case c.producer == noProducer:
		c.begin(r, noProducer)
	case c.tx == nil:
		c.tx = c.transaction()
	default:
		c.strange(r)
		c.progress(r)
	}
}

// choose picks a broker, more often one that leads.
func (c *txClient) choose() *run {
	w := c.w
	r := w.nodes[w.txRand.IntN(w.cfg.Nodes)].run
	for range w.txRand.IntN(4) {
		if r != nil && r.core.Role() == core.RoleLeader {
			break
		}
		r = w.nodes[w.txRand.IntN(w.cfg.Nodes)].run
	}
	return r
}

func (r *run) readOnly() bool { return r.n.readOnly }

// transaction draws the next transaction.
func (c *txClient) transaction() *tx {
	w := c.w
	x := &tx{c: c, id: c.seq, commit: w.txRand.IntN(3) > 0}
	c.seq++
	for i := range 1 + w.txRand.IntN(4) {
		key := partKey{w.topics[w.txRand.IntN(len(w.topics))].name, uint32(w.txRand.IntN(w.cfg.Parts))}
		item := &txItem{key: key}
		if w.txRand.IntN(4) == 0 {
			c.value++
			item.offset = c.value
			w.check.txs.staged[offsetOf{c.group(), c.value}] = x
		} else {
			for j := range 1 + w.txRand.IntN(3) {
				item.values = append(item.values, fmt.Sprintf("x%d.%d.%d.%d", c.id, x.id, i, j))
				w.check.value(item.values[j]).tx = x
			}
		}
		x.items = append(x.items, item)
	}
	return x
}

// strange is what a client does rarely.
func (c *txClient) strange(r *run) {
	w := c.w
	switch n := w.txRand.IntN(100); {
	case w.late():
	case n == 0: // another process takes the ID
		w.stats.Transaction.Replaced++
		c.giveUp()
		c.again, c.producer = nil, noProducer
	case n == 1 && !c.tx.asked: // it loses track, and recovers
		c.giveUp()
		c.begin(r, c.producer)
	case n == 2:
		c.silent = w.now + int64(2*c.timeout)
	}
}

func (c *txClient) giveUp() {
	if c.tx != nil {
		c.tx.over = true
	}
	c.tx = nil
}

// begin asks for a producer.
func (c *txClient) begin(r *run, was state.ProducerEpoch) {
	w := c.w
	o := c.request(&core.Transact{Kind: state.TransactionInit, Producer: was, Timeout: uint32(c.timeout / time.Millisecond)})
	c.again = &was
	o.done = func(o *op) {
		c.init = nil
		switch {
		case o.outcome == acked:
			c.again = nil
			w.stats.Transaction.Inits++
			if was != noProducer {
				w.stats.Transaction.Recovered++
			}
			c.has(o.transact.Result)
		case errors.Is(o.why, state.ErrTransactionFenced):
			c.again, c.producer = nil, noProducer
		case errors.Is(o.why, state.ErrLevel):
			w.stats.Transaction.Levels++
			c.silent = w.now + int64(w.units(5*time.Second))
		}
	}
	c.init = o
	c.give(o, r)
}

// has sets the producer.
func (c *txClient) has(p state.ProducerEpoch) {
	if p != c.producer {
		c.sequence = map[partKey]int32{}
	}
	c.producer = p
}

// progress sends an item, or the end if all items are stored.
func (c *txClient) progress(r *run) {
	if c.tx == nil || c.init != nil {
		return
	}
	x, left := c.tx, 0
	for _, item := range x.items {
		if item.done {
			continue
		}
		left++
		other := func(y *txItem) bool { return y != item && y.busy && y.key == item.key }
		if !item.busy && !slices.ContainsFunc(x.items, other) {
			x.send(item, r)
			return
		}
	}
	if left == 0 && x.end == nil {
		x.sendEnd(r)
	}
}

// request is an op about the transactional ID.
func (c *txClient) request(x *core.Transact) *op {
	x.ID = c.name()
	c.w.txOps++
	return &op{w: c.w, id: 1<<55 | c.w.txOps, transact: x}
}

// give gives an op to a broker. In version 1 a client that stops waiting closes its connection, and the broker drops
// what it has not begun: no epoch tells it from a request of the next transaction.
func (c *txClient) give(o *op, r *run) {
	w := c.w
	r.deliver(func() { r.admit(o) })
	if o.run == nil { // the broker is paused
		o.run = r
		r.owe(o)
	}
	w.after(w.cfg.ClientTimeout, func() {
		if o.outcome != waiting {
			return
		}
		if i := slices.Index(r.pending, o); i >= 0 && !r.paused && !r.dead {
			r.pending = slices.Delete(slices.Clone(r.pending), i, i+1)
			o.answer(rejectedFor, 0)
			return
		}
		o.dropped = !c.next
		o.answer(unknown, 0)
	})
}

// op makes the request of an item.
func (x *tx) op(item *txItem) *op {
	c, w := x.c, x.c.w
	if item.values == nil {
		o := c.request(&core.Transact{Kind: state.TransactionOffsets, Producer: c.producer})
		o.staged = &state.StagedOffset{Group: c.group(), PartitionID: state.PartitionID{Partition: item.key.part}, Offset: item.offset}
		o.key = item.key
		return o
	}
	if item.batch == nil || item.batch.Epoch != c.producer.Epoch || item.batch.ID != c.producer.ID {
		item.batch = &state.ProducerBatch{ID: c.producer.ID, Epoch: c.producer.Epoch, Sequence: c.sequence[item.key], Span: uint32(len(item.values))}
	}
	w.txOps++
	o := &op{w: w, id: 1<<55 | w.txOps, key: item.key, expected: -1, values: item.values, batch: item.batch}
	var err error
	o.data, o.sum, err = record.Append(nil, o.records(), record.EncodeOptions{
		Transactional: true, Producer: &record.Producer{ID: item.batch.ID, Epoch: item.batch.Epoch, Sequence: item.batch.Sequence},
	})
	if err != nil {
		w.fail("encode records: %v", err)
	}
	w.check.sent.Note(o.data)
	return o
}

func (x *tx) send(item *txItem, r *run) {
	c := x.c
	if end := c.copy; end != nil && r.core.Role() == core.RoleLeader { // before the next transaction begins
		c.give(c.request(end), r)
	}
	c.copy = nil
	o := x.op(item)
	item.busy = true
	o.done = func(o *op) {
		item.busy = false
		switch {
		case x.over:
		case o.outcome == acked:
			if item.done = true; item.values != nil {
				c.sequence[item.key] = item.batch.Sequence + int32(item.batch.Span)
			}
			x.later(item)
		case o.outcome == rejectedFor:
			x.refused(o)
		}
	}
	c.give(o, r)
}

// ends reports whether an error is the end of a transaction for its client.
func ends(why error) bool {
	for _, e := range []error{
		state.ErrTransactionFenced, state.ErrTransactionEnded, state.ErrTransactionState, state.ErrUnknownTransaction, state.ErrProducerFenced, state.ErrSequenceGap,
	} {
		if errors.Is(why, e) {
			return true
		}
	}
	return false
}

// refused is the end of a transaction if a broker refuses a part of it or its end: it has aborted the transaction.
func (x *tx) refused(o *op) {
	c, w := x.c, x.c.w
	if !ends(o.why) {
		return
	}
	if x.truth != txAborted && w.check.txs.of[c.name()] == c.producer { // a late init may have fenced it
		w.fail("I22: node %d refuses a request of transaction %d of %s, which is open: %v", o.run.n.id, x.id, c.name(), o.why)
	}
	c.giveUp()
	c.begin(o.run, c.producer)
}

// sendEnd commits or aborts.
func (x *tx) sendEnd(r *run) {
	c, w := x.c, x.c.w
	kind := state.TransactionAbort
	if x.commit {
		kind = state.TransactionCommit
	}
	x.asked = true
	o := c.request(&core.Transact{Kind: kind, Producer: c.producer, Next: c.next})
	o.done = func(o *op) {
		x.end = nil
		switch {
		case x.over || o.outcome == unknown:
		case o.outcome == acked:
			if o.why == core.ErrDuplicate {
				w.stats.Transaction.Repeated++
			}
			w.check.txEnded(x, o)
			x.lateEnd(*o.transact)
			c.tx = nil
			c.has(o.transact.Result)
		default:
			x.refused(o)
		}
	}
	x.end = o
	c.give(o, r)
}

// later sends a copy of an item late. In version 1 no epoch tells it from one of the next transaction: then only
// batches, which have sequences.
func (x *tx) later(item *txItem) {
	c, w := x.c, x.c.w
	if w.txRand.IntN(8) > 0 || item.values == nil && !c.next {
		return
	}
	o := x.op(item)
	o.done = func(o *op) {
		w.stats.Transaction.Late++
		if o.outcome == acked && o.why == nil && item.values != nil {
			w.fail("I22: node %d accepts a late copy of a batch of transaction %d of %s", o.run.n.id, x.id, c.name())
		}
	}
	c.deferred(o)
}

// lateEnd sends a copy of an end late. It must have no effect, whatever the client has begun since, but in version 1
// no epoch tells it from the end of the next transaction: then it comes before that begins.
func (x *tx) lateEnd(t core.Transact) {
	c, w := x.c, x.c.w
	if w.txRand.IntN(3) > 0 {
		return
	}
	if !c.next {
		c.copy = &t
		return
	}
	o := c.request(&t)
	o.done = func(o *op) {
		w.stats.Transaction.Late++
		if o.outcome == acked && o.why == nil {
			w.fail("I22: node %d ends a transaction because of a late copy of the end of transaction %d of %s", o.run.n.id, x.id, c.name())
		}
	}
	c.deferred(o)
}

// deferred gives an op to some broker later.
func (c *txClient) deferred(o *op) {
	w := c.w
	w.after(w.around(w.txRand, w.units(2*time.Second)), func() {
		if r := c.choose(); r != nil && !w.late() && !w.outage.quiet && !w.outage.still {
			c.give(o, r)
		}
	})
}

// transact is the op of a request. Positions of appends are known when it is proposed.
func (r *run) transact(o *op, before int) core.Op {
	x := o.transact
	x.Before = 1 + int32(before)
	r.given++
	x.Fresh = state.ProducerID(0, o.epoch, uint32(r.given))
	if s := r.core.State(); s != nil && o.staged != nil {
		staged := *o.staged
		if t := s.TopicByName(o.key.topic); t != nil {
			staged.Topic = t.ID
		}
		x.Offsets = []state.StagedOffset{staged}
	}
	return core.Op{Transact: x, Epoch: o.epoch}
}

// admit submits an op. A request about a transactional ID is for the epoch in which it comes, as in a broker.
func (r *run) admit(o *op) {
	if o.transact == nil {
		r.submit(o)
		return
	}
	if r.core.Role() != core.RoleLeader {
		o.run, o.why = r, state.ErrNotLeader
		o.answer(rejectedFor, 0)
		return
	}
	o.epoch = r.core.State().Pos.Epoch
	r.submit(o)
}

// expires ends overdue transactions while a run leads, as a broker does.
func (r *run) expires(d *core.Deadlines) {
	w := r.n.w
	w.after(w.units(500*time.Millisecond), func() {
		if r.dead {
			return
		}
		r.deliver(func() {
			if r.core.Role() != core.RoleLeader || r.deadlines != d {
				return
			}
			for _, x := range d.Look(r.core.State(), w.now, 0) { // without a wall clock, none is idle
				w.check.overdue(r, x)
				w.txOps++
				r.admit(&op{w: w, id: 1<<55 | w.txOps, transact: x})
			}
			r.expires(d)
		})
	})
}
