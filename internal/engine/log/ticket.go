package log

import (
	"context"
	"sync"
	"time"

	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// Append is one caller's data for one partition.
type Append struct {
	// Head describes the data; its Base and Err are ignored.
	Head core.Append
	// Data is whole batches that record.Check accepts. The log owns it from Submit until Release
	// and modifies it: offsets and epoch, and with timestamp-type=LogAppendTime timestamp and
	// checksum.
	Data []byte
	// Release, if not nil, is called exactly once when the log no longer refers to Data; from any
	// goroutine, before or after the ticket is answered. It must not block.
	Release func()
	// Memory, if not nil, is the reservation that covers Data. A later holder of Data may move it
	// to another class; Release still releases it.
	Memory *budget.Reservation
	// Audit, if not nil, is the audit record of this append: Head, and one batch as Data, which the log
	// owns from then on. The log has both, in one slot, or neither.
	Audit *Append
}

// auditMember returns an audit record as a part of the member that it belongs to. It is never
// answered.
func auditMember(a *Append) *member {
	m := &member{Append: Append{Head: a.Head, Data: a.Data}, state: memberDone}
	m.Head.Audits = true
	return m
}

// outcome is the answer to one append. The zero value is not an acknowledgement.
type outcome uint8

const (
	outcomeNone outcome = iota
	outcomeAcked
	outcomeFailed
)

// Result is the answer to one Append or operation. The zero value is "unknown", never an
// acknowledgement.
type Result struct {
	Base int64 // offset of the first record
	Span int64 // number of offsets
	Time int64 // append time, microseconds since 1970; 0 for a duplicate
	// Duplicate: an idempotent producer's batch that was already stored, at Base.
	Duplicate bool

	outcome outcome
	err     error
}

// Err is nil if the append is durable and committed (rule R4), else state.ErrOutcomeUnknown or a
// refusal.
func (r *Result) Err() error {
	switch r.outcome {
	case outcomeAcked:
		return nil
	case outcomeFailed:
		return r.err
	}
	return state.ErrOutcomeUnknown
}

// Ticket is the pending answer of one Submit.
type Ticket struct {
	log     *Log
	done    chan struct{} // closed when every result is set
	results []Result      // written by the owner until done is closed, then read-only

	// Owned by the owner goroutine.
	bytes   int64 // of all members
	members []member
	left    int // unanswered members
	// atomic: the members are parts of one request. Only the first is queued, for all of them.
	atomic bool

	// Storage for the many tickets with one append: saves two allocations.
	oneMember [1]member
	oneResult [1]Result
}

// joined reports whether an append joins the op of a member.
func (m *member) joined() bool { return m.op != nil && m.audit != nil && m.audit.Head.Joins }

// memberState is the progress of a member.
type memberState uint8

const (
	memberNew    memberState = iota
	memberQueued             // in the batcher
	memberSent               // in a proposal
	memberDone               // answered
)

// member is a submitted append or operation. It belongs to the owner once submitted.
type member struct {
	Append          // what Submit got; unset if op is not nil
	op     *core.Op // what Propose got
	item   Item[*member]
	ticket *Ticket
	i      int // index in the ticket
	state  memberState
	bytes  int64   // queued bytes: size of Data, or an estimate for op
	audit  *member // its audit record, or nil
	since  int64   // submission time on the log's clock
}

func (l *Log) newTicket(n int) *Ticket {
	t := &Ticket{log: l, done: make(chan struct{}), left: n}
	if n <= 1 {
		t.members, t.results = t.oneMember[:n], t.oneResult[:n]
	} else {
		t.members, t.results = make([]member, n), make([]Result, n)
	}
	return t
}

// Submit queues appends in call order, those of one call in sequence, and returns at once. Each
// gets its own answer. It may be called concurrently.
func (l *Log) Submit(appends []Append) *Ticket { return l.submit(appends, false) }

// SubmitDeferred is Submit for records without urgency, as ProposeDeferred.
func (l *Log) SubmitDeferred(appends []Append) *Ticket { return l.submit(appends, true) }

func (l *Log) submit(appends []Append, deferred bool) *Ticket {
	t := l.newTicket(len(appends))
	var bytes int64
	now := l.now()
	for i := range appends {
		a := &appends[i]
		m := &t.members[i]
		m.ticket, m.i, m.Append, m.since = t, i, *a, now
		m.item.Value, m.item.Deferred = m, deferred
		m.bytes = int64(len(a.Data))
		if m.Audit = nil; a.Audit != nil { // held in audit, until the slot has it
			m.audit = auditMember(a.Audit)
			m.bytes += int64(len(a.Audit.Data))
		}
		bytes += m.bytes
	}
	l.send(t, bytes)
	return t
}

// Propose queues a change of the state. It may be called concurrently.
func (l *Log) Propose(op state.Record) *Ticket {
	return l.ProposeAll([]core.Op{{Record: op}})
}

// ProposeAll queues changes of the state in order; each gets its own answer. Their Err is ignored.
func (l *Log) ProposeAll(ops []core.Op) *Ticket { return l.propose(ops, false) }

// ProposeAudited queues a change of the state with its audit record. The log has both, in one slot,
// or neither.
func (l *Log) ProposeAudited(op core.Op, audit *Append) *Ticket {
	t := l.newTicket(1)
	m := &t.members[0]
	m.ticket, m.op, m.audit, m.since = t, &op, auditMember(audit), l.now()
	m.item.Value = m
	m.bytes = opBytes(&op) + int64(len(audit.Data))
	l.send(t, m.bytes)
	return t
}

// ProposeJoined queues a change of a queue's state with an append. The log has both, in one slot, or
// neither. The result has the offset of the append.
func (l *Log) ProposeJoined(op core.Op, a *Append) *Ticket {
	t := l.newTicket(1)
	m := &t.members[0]
	m.ticket, m.op, m.audit, m.since = t, &op, &member{Append: Append{Head: a.Head, Data: a.Data}, state: memberDone}, l.now()
	m.audit.Head.Joins = true
	m.item.Value = m
	m.bytes = opBytes(&op) + int64(len(a.Data))
	l.send(t, m.bytes)
	return t
}

// Part is a part of an atomic request.
type Part struct {
	Append Append   // Audit and Expected are ignored
	Op     *core.Op // a change of a queue's state that the append joins, or nil
}

// SubmitAtomic queues parts, each for another partition. The log has all, in one slot, or none. Each part has a
// result: if one is refused, that of the others is state.ErrAtomic.
func (l *Log) SubmitAtomic(parts []Part) *Ticket {
	t := l.newTicket(len(parts))
	var bytes int64
	now := l.now()
	for i := range parts {
		m, a, op := &t.members[i], parts[i].Append, parts[i].Op
		m.ticket, m.i, m.since = t, i, now
		bytes += int64(len(a.Data))
		a.Audit, a.Head.Expected, a.Head.Atomic = nil, -1, true
		if m.Append = a; op != nil {
			bytes += opBytes(op)
			m.Append = Append{}
			m.op, m.audit = op, &member{Append: a, state: memberDone}
			m.audit.Head.Joins = true
		}
	}
	if t.atomic = true; len(parts) > 0 {
		first := &t.members[0]
		first.item.Value, first.bytes = first, bytes
	}
	l.send(t, bytes)
	return t
}

// ProposeDeferred is ProposeAll for changes without urgency. They join the next object, and alone
// they wait for Batch.DeferWait.
func (l *Log) ProposeDeferred(ops []core.Op) *Ticket { return l.propose(ops, true) }

func (l *Log) propose(ops []core.Op, deferred bool) *Ticket {
	t := l.newTicket(len(ops))
	var bytes int64
	for i := range ops {
		m := &t.members[i]
		m.ticket, m.i, m.op, m.since = t, i, &ops[i], l.now()
		m.item.Value, m.item.Deferred = m, deferred
		m.bytes = opBytes(&ops[i])
		bytes += m.bytes
	}
	l.send(t, bytes)
	return t
}

// markBytes is about the size of a mark in the record of an end.
const markBytes = 32

// opBytes estimates a record's size in an object. Head, state records and index are read in one
// request, so their size must be bounded.
func opBytes(op *core.Op) int64 {
	r := &op.Record
	n := 64 + len(r.Name) + len(r.Metadata)
	for k, v := range r.Settings {
		n += len(k) + len(v) + 8
	}
	if x := op.Transact; x != nil {
		n += len(x.ID) + x.Parts*(record.MarkerSize+record.IndexEntrySize+markBytes)
		for i := range x.Offsets {
			n += 64 + len(x.Offsets[i].Group) + len(x.Offsets[i].Metadata)
		}
	}
	if r.Queue != nil {
		n += 32 * (len(r.Queue.Runs) + len(r.Queue.Tries))
	}
	if r.Pack != nil {
		for i := range r.Pack.Entries {
			n += 96 + 24*len(r.Pack.Entries[i].Sources)
		}
	}
	return int64(n)
}

func (l *Log) send(t *Ticket, bytes int64) {
	if len(t.members) == 0 {
		close(t.done)
		return
	}
	t.bytes = bytes
	err := ErrClosed
	switch queued := l.queued.Add(bytes); {
	case bytes > 0 && queued > l.opt.QueueBytes && queued > bytes:
		err = ErrQueueFull
	case l.in.put(message{submit: t}):
		return
	}
	for i := range t.members {
		l.reject(&t.members[i], err)
	}
}

// Done is closed when every append is answered.
func (t *Ticket) Done() <-chan struct{} { return t.done }

// Wait returns a result for each append, in order. If ctx ends first, unsent appends are removed
// and rejected with the context's cause, and the others are unknown. The results are read-only.
// Wait may be called again, and concurrently.
func (t *Ticket) Wait(ctx context.Context) []Result { return t.wait(ctx, nil) }

// timers holds stopped timers for WaitFor.
var timers = sync.Pool{New: func() any {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}}

// WaitFor is Wait with a context that ends after d, at a fifth of the cost of such a context.
func (t *Ticket) WaitFor(ctx context.Context, d time.Duration) []Result {
	timer := timers.Get().(*time.Timer)
	timer.Reset(d)
	defer func() {
		timer.Stop() // Stop also empties its channel
		timers.Put(timer)
	}()
	return t.wait(ctx, timer.C)
}

func (t *Ticket) wait(ctx context.Context, late <-chan time.Time) []Result {
	select {
	case <-t.done:
		return t.results
	default:
	}
	var why error
	select {
	case <-t.done:
		return t.results
	case <-ctx.Done():
		why = context.Cause(ctx)
	case <-late:
		why = context.DeadlineExceeded
	}
	t.log.in.put(message{do: func(_ context.Context, o *owner) { o.cancel(t, why) }}) // if refused, the owner has answered or will
	<-t.done
	return t.results
}

// reject answers a member that was not sent.
func (l *Log) reject(m *member, err error) {
	l.queued.Add(-m.bytes)
	m.drop()
	if m.audit != nil { // in a proposal it is dropped as a member of that
		m.audit.drop()
	}
	l.answer(m, failed(err))
}

// drop releases the data if the member still holds it.
func (m *member) drop() {
	if m.Release != nil {
		m.Release()
	}
	m.forget()
}

// forget drops the references to the data.
func (m *member) forget() { m.Data, m.Release, m.Memory = nil, nil, nil }

// answer gives a member its result, unless it has one, and closes the ticket after the last. Only
// the owner calls it, or the submitter of a ticket that never reached the owner.
func (l *Log) answer(m *member, r Result) {
	if m.state == memberDone {
		return
	}
	m.state = memberDone
	l.met.answered(&r)
	t := m.ticket
	t.results[m.i] = r
	if t.left--; t.left == 0 {
		close(t.done)
	}
}
