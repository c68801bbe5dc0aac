package core

import (
	"errors"
	"math"
	"slices"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// Transact is a request about a transactional ID, in an Op. Freeze makes its records, and for an end the markers.
// They follow all other members of the proposal, so that batches that came earlier are in the transaction.
type Transact struct {
	Kind state.TransactionKind
	ID   string
	// Producer is that of the client. In an init of a client that has had none its ID is -1.
	Producer state.ProducerEpoch
	Timeout  uint32 // ms; init
	Fresh    int64  // an unused producer ID, if a new one is needed
	// Next: an end gives the producer another epoch (version 2 of transactions).
	Next bool
	// Forced: an abort, or with TransactionForget the end of the ID, that the broker decides. Seen is the
	// transaction's Started, for TransactionForget its Changed, on which the decision rests; 0: any.
	Forced  bool
	Seen    int64
	Offsets []state.StagedOffset
	// Before, if not 0, is 1 + the position in Proposal.Appends of the first append that came after the request.
	Before int32

	// Parts is about how many markers an end adds. It only bounds what joins it in a slot.
	Parts int

	// Result is set at freeze: the producer after the request.
	Result state.ProducerEpoch
}

// epochMax is the last epoch of a producer ID for a client.
const epochMax = math.MaxInt16 - 1

// transact decides the requests of a proposal about transactions.
func (c *Core) transact(p *Proposal, records []state.Record) []state.Record {
	for i := range p.Ops {
		op := &p.Ops[i]
		if op.Transact == nil {
			continue
		}
		before := len(p.Appends)
		if op.Err = c.refusesTransact(op); op.Err == nil {
			records, op.Err = c.transactOne(p, op.Transact, records)
		}
		if op.Err != nil && len(p.Appends) > before {
			panic("core: a refused transaction has markers")
		}
	}
	return records
}

// asksLeader reports whether an answer of a proposal that changes nothing may be outdated if another broker leads by
// now: the client may have begun a transaction there. Then the proposal gets a slot, which is only committed if none
// does. In version 1 even a repeated end has the producer of the next transaction. The other refusals do not depend on
// transactions.
func (p *Proposal) asksLeader() bool {
	for i := range p.Ops {
		if op := &p.Ops[i]; op.Transact != nil && op.Err != state.ErrNotLeader && op.Err != state.ErrUnauthorized && !errors.Is(op.Err, state.ErrLevel) {
			return true
		}
	}
	return slices.ContainsFunc(p.Appends, func(a Append) bool {
		return a.Transactional && a.Err != ErrDuplicate && a.Err != state.ErrUnauthorized
	})
}

func (c *Core) refusesTransact(op *Op) error {
	switch overlay := c.lead.overlay; {
	case op.Epoch != 0 && op.Epoch != overlay.Pos.Epoch:
		return state.ErrNotLeader
	case !overlay.Access.Permits(op.Check):
		return state.ErrUnauthorized
	case overlay.Level < state.LevelTransactions:
		return &state.LevelError{Needs: state.LevelTransactions, Has: overlay.Level}
	}
	return nil
}

func (c *Core) transactOne(p *Proposal, x *Transact, records []state.Record) ([]state.Record, error) {
	t := c.lead.overlay.Transaction(x.ID)
	switch x.Kind {
	case state.TransactionInit:
		return c.initTransactions(p, t, x, records)
	case state.TransactionOffsets:
		if err := Owns(t, x.Producer); err != nil {
			return records, err
		}
		x.Result = x.Producer
		return c.transacted(x, &state.TransactionChange{Kind: x.Kind, Producer: x.Producer, Offsets: x.Offsets}, records)
	case state.TransactionForget:
		if t == nil || t.Open() || t.Changed != x.Seen {
			return records, state.ErrTransactionState
		}
		return c.transacted(x, &state.TransactionChange{Kind: x.Kind, Producer: t.Now()}, records)
	}
	if x.Forced {
		if t == nil {
			return records, state.ErrUnknownTransaction
		}
		if !t.Open() || x.Seen != 0 && x.Seen != t.Started {
			return records, state.ErrTransactionState
		}
	} else if err := refusesEnd(t, x, t != nil && t.Open() && !c.begunAfter(p, t, x)); err != nil {
		return records, err
	}
	x.Result = t.Now()
	if x.Next || x.Forced {
		x.Result = next(t, x.Fresh)
	}
	return c.endTransaction(p, t, x.Kind, x.Forced, x.Result, records), nil
}

// next is the producer of the next transaction.
func next(t *state.Transaction, fresh int64) state.ProducerEpoch {
	if t.Producer < 0 || t.Epoch >= epochMax {
		return state.ProducerEpoch{ID: fresh}
	}
	return state.ProducerEpoch{ID: t.Producer, Epoch: t.Epoch + 1}
}

// Owns returns why a producer may not use a transactional ID, or nil.
func Owns(t *state.Transaction, p state.ProducerEpoch) error {
	switch {
	case t == nil || p.ID < 0 || p.ID != t.Producer && p.ID != t.Was.ID:
		return state.ErrUnknownTransaction
	case p == t.Now():
		return nil
	case p == t.Was && t.Ended == state.EndedForced:
		return state.ErrTransactionEnded
	}
	return state.ErrTransactionFenced
}

// begunAfter reports whether only appends that came after the end of a transaction of version 1 have begun the one
// that is open. Then the end is a late copy of one that was answered, and not about it.
func (c *Core) begunAfter(p *Proposal, t *state.Transaction, x *Transact) bool {
	if x.Before == 0 || x.Next || t.Started != c.lead.remember.slotTime || len(t.Offsets) > 0 {
		return false
	}
	return !slices.ContainsFunc(p.Appends[:x.Before-1], func(a Append) bool {
		return a.Transactional && a.Err == nil && a.Producer.ID == t.Producer
	})
}

// refusesEnd returns why a producer cannot end its transaction, which is open or not. ErrDuplicate: it has ended so; x
// has the result.
func refusesEnd(t *state.Transaction, x *Transact, open bool) error {
	err := Owns(t, x.Producer)
	if open || err == state.ErrUnknownTransaction {
		return err
	}
	same := t.Ended == state.EndedCommitted && x.Kind == state.TransactionCommit || t.Ended == state.EndedAborted && x.Kind == state.TransactionAbort
	switch repeats := x.Producer == t.Was && (t.Ended == state.EndedCommitted || t.Ended == state.EndedAborted); {
	case repeats && same:
		// In version 1 the producer is the same before and after.
		x.Result = t.Now()
		return ErrDuplicate
	case err == state.ErrTransactionEnded && x.Next && x.Kind == state.TransactionAbort:
		x.Result = t.Now() // what the client wants has happened, and it goes on with the next transaction
		return ErrDuplicate
	case err == nil && x.Next && x.Kind == state.TransactionAbort:
		return nil // a client that does not know whether a batch began the transaction
	case repeats || err == nil:
		return state.ErrTransactionState
	}
	return err
}

// initTransactions gives the ID to a producer, after it has aborted an open transaction.
func (c *Core) initTransactions(p *Proposal, t *state.Transaction, x *Transact, records []state.Record) ([]state.Record, error) {
	change := &state.TransactionChange{Kind: x.Kind, Producer: state.ProducerEpoch{ID: x.Fresh}, Timeout: x.Timeout}
	if t == nil {
		x.Result = change.Producer
		return c.transacted(x, change, c.makeRoom(records))
	}
	if x.Producer.ID >= 0 && t.Producer >= 0 {
		if x.Producer == t.Was && t.Was != t.Now() && !t.Open() {
			x.Result = t.Now() // the answer to an init, an end, or the news of an abort got lost
			if x.Timeout == t.Timeout {
				return records, ErrDuplicate
			}
			change.Producer = x.Result
			return c.transacted(x, change, records)
		}
		if x.Producer != t.Now() {
			return records, state.ErrTransactionFenced
		}
		change.Recovers = true
	}
	change.Producer = next(t, x.Fresh)
	if t.Open() {
		records = c.endTransaction(p, t, state.TransactionAbort, true, t.Now(), records)
	}
	x.Result = change.Producer
	return c.transacted(x, change, records)
}

// transactionRest is how long an unused transactional ID is remembered although another one needs its place. Flink's
// sink by default, and some other programs, take a new ID for each transaction.
const transactionRest = 900 * second

// makeRoom forgets the transactional ID that was unused for the longest time, if their number is at its limit. A
// producer that still has it is fenced, because no ID has that producer any more.
func (c *Core) makeRoom(records []state.Record) []state.Record {
	if !c.lead.overlay.TransactionsFull() {
		return records
	}
	var oldest *state.Transaction
	for _, t := range c.lead.overlay.Transactions() {
		if !t.Open() && (oldest == nil || t.Changed < oldest.Changed) {
			oldest = t
		}
	}
	if oldest == nil || oldest.Changed > c.lead.remember.slotTime-int64(transactionRest)/1000 {
		return records
	}
	change := &state.TransactionChange{Kind: state.TransactionForget, Producer: oldest.Now()}
	return append(records, c.proposeOwn(state.Record{Kind: state.TransactionUpdate, Name: oldest.ID, Transaction: change}))
}

// transacted proposes the record of a request.
func (c *Core) transacted(x *Transact, change *state.TransactionChange, records []state.Record) ([]state.Record, error) {
	r := state.Record{Kind: state.TransactionUpdate, Name: x.ID, Transaction: change}
	if err := c.lead.overlay.Propose(&r); err != nil {
		return records, err
	}
	return append(records, r), nil
}

// endTransaction ends the transaction that is open, if any, in this slot: a marker in each of its partitions, its
// offsets, and the record. It is never refused: what it needs was counted when the transaction grew.
func (c *Core) endTransaction(p *Proposal, t *state.Transaction, kind state.TransactionKind, forced bool, next state.ProducerEpoch, records []state.Record) []state.Record {
	change := &state.TransactionChange{Kind: kind, Producer: next, Forced: forced}
	millis := c.lead.remember.slotTime / 1000
	for _, part := range t.Parts {
		a := Append{
			Topic: part.Topic, Partition: part.Partition, Span: 1, Bytes: record.MarkerSize, MinTime: millis, MaxTime: millis, Expected: -1,
			Marker: &record.Marker{Commit: kind == state.TransactionCommit, ProducerID: t.Producer, ProducerEpoch: t.Epoch, Timestamp: millis},
		}
		a.Base = c.lead.overlay.ReserveMark(part.PartitionID)
		p.Appends = append(p.Appends, a)
		change.Marks = append(change.Marks, state.TransactionMark{PartitionID: part.PartitionID, Offset: a.Base})
	}
	return append(records, c.proposeOwn(state.Record{Kind: state.TransactionUpdate, Name: t.ID, Transaction: change}))
}

// refusesTransactional returns why a batch cannot be part of its producer's transaction, or nil. Without Transactional
// it returns an error if the producer's batches must be.
func (c *Core) refusesTransactional(a *Append) error {
	t := c.lead.overlay.TransactionOf(a.Producer.ID)
	p := state.ProducerEpoch{ID: a.Producer.ID, Epoch: a.Producer.Epoch}
	switch {
	case !a.Transactional && t == nil:
		return nil
	case !a.Transactional:
		return state.ErrTransactionState
	case t == nil:
		return state.ErrUnknownTransaction
	case p == t.Was && p != t.Now() && t.Ended == state.EndedForced:
		return state.ErrTransactionEnded
	case p != t.Now():
		return state.ErrProducerFenced
	}
	return nil
}
