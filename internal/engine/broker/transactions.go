package broker

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
)

// Isolation says what a fetch returns of transactions.
type Isolation uint8

// The isolations. The offsets of what is left out are in chunks without bytes, as are those that a recovery has
// skipped.
const (
	// Committed ends at the last stable offset, and leaves out markers and batches of aborted transactions.
	Committed Isolation = iota
	// Uncommitted leaves out markers.
	Uncommitted
	// NotAborted leaves out markers and batches of aborted transactions.
	NotAborted
	// RawCommitted ends at the last stable offset. FetchedPart.Aborted says which batches were aborted.
	RawCommitted
	// Raw returns everything.
	Raw
)

// InitTransactions is a producer that takes a transactional ID.
type InitTransactions struct {
	ID      string
	Timeout time.Duration
	// Was is the producer that the client has had, with ID -1 if it has had none.
	Was state.ProducerEpoch
}

// InitTransactions gives a transactional ID to a producer: an earlier one with the same ID is fenced, and its open
// transaction aborted, in one slot. Errors: ErrTransactionFenced, ErrTransactionsFull, *LevelError, and those of
// an append.
func (b *Broker) InitTransactions(ctx context.Context, r InitTransactions) (state.ProducerEpoch, error) {
	if err := state.CheckTransactionalID(r.ID); err != nil {
		return state.ProducerEpoch{}, &state.InvalidError{Field: "transactional ID", Reason: err.Error()}
	}
	return b.transact(ctx, &core.Transact{
		Kind: state.TransactionInit, ID: r.ID, Producer: r.Was, Timeout: uint32(r.Timeout.Milliseconds()),
	}, 0)
}

// transact proposes a request about a transactional ID and waits until it is committed. epoch, if not 0, is the only
// epoch in which it is accepted.
func (b *Broker) transact(ctx context.Context, x *core.Transact, epoch uint32) (state.ProducerEpoch, error) {
	if err := b.transactAll(ctx, []*core.Transact{x}, epoch)[0]; err != nil {
		return state.ProducerEpoch{}, err
	}
	return x.Result, nil
}

// transactAll is transact for several requests, each with its own error.
func (b *Broker) transactAll(ctx context.Context, all []*core.Transact, epoch uint32) []error {
	err := b.refuses(ctx)
	if epoch == 0 && err == nil {
		if epoch = b.LeadingEpoch(); epoch == 0 {
			err = state.ErrNotLeader
		}
	}
	if err != nil {
		return slices.Repeat([]error{err}, len(all))
	}
	b.log.Read(func(s *state.State) {
		for _, x := range all {
			if t := s.Transaction(x.ID); t != nil && x.Kind != state.TransactionOffsets {
				x.Parts = len(t.Parts)
			}
		}
	})
	ops, errs := make([]core.Op, len(all)), make([]error, len(all))
	for i, x := range all {
		x.Fresh = state.ProducerID(b.opt.Core.Shard, epoch, b.producers.Add(1)) // no other leader gives it: it is of the epoch
		ops[i] = core.Op{Transact: x, Check: ClientOf(ctx).Check, Epoch: epoch}
	}
	results := b.log.ProposeAll(ops).Wait(ctx)
	for i := range results {
		errs[i] = results[i].Err()
	}
	return errs
}

// EndTransaction is the end of a producer's transaction.
type EndTransaction struct {
	ID       string
	Producer state.ProducerEpoch
	Commit   bool
	// Next: the producer gets another epoch for its next transaction (version 2 of transactions).
	Next bool
}

// EndTransaction commits or aborts the open transaction, with all its batches and offsets, and returns the producer
// of the next one. A repeated request has the answer of the first. Errors: ErrUnknownTransaction,
// ErrTransactionFenced, ErrTransactionEnded, ErrTransactionState, and those of an append.
func (b *Broker) EndTransaction(ctx context.Context, e EndTransaction) (state.ProducerEpoch, error) {
	x := &core.Transact{Kind: state.TransactionAbort, ID: e.ID, Producer: e.Producer, Next: e.Next}
	if e.Commit {
		x.Kind = state.TransactionCommit
	}
	return b.transact(ctx, x, 0)
}

// StageOffsets is offsets of a consumer group that a transaction commits.
type StageOffsets struct {
	ID       string
	Producer state.ProducerEpoch
	Group    string
	Commits  []OffsetCommit // Expected and NoMembers are ignored
	// Epoch, if not 0, is the only epoch in which they are accepted, as in SubmitOffsets.
	Epoch uint32
}

// StageOffsets adds offsets to the open transaction, or begins one. Each commit has its own result. Errors: those of
// SubmitOffsets and of EndTransaction.
func (b *Broker) StageOffsets(ctx context.Context, s StageOffsets) []error {
	errs := make([]error, len(s.Commits))
	x := &core.Transact{Kind: state.TransactionOffsets, ID: s.ID, Producer: s.Producer}
	refuse := CheckGroup(s.Group)
	for i := range s.Commits {
		c := &s.Commits[i]
		id, err := partKey{}, refuse
		if err == nil {
			err = c.check(state.CommitMin)
		}
		if err == nil {
			id, err = b.partition(c.Topic, c.Partition)
		}
		if errs[i] = err; err == nil {
			x.Offsets = append(x.Offsets, state.StagedOffset{
				Group: s.Group, PartitionID: state.PartitionID{Topic: id.topic, Partition: id.partition}, Offset: c.Offset, Metadata: c.Metadata,
			})
		}
	}
	if len(x.Offsets) == 0 {
		return errs
	}
	if _, err := b.transact(ctx, x, s.Epoch); err != nil {
		for i := range errs {
			errs[i] = cmp.Or(errs[i], err)
		}
	}
	return errs
}

// Staged returns the partitions for which open transactions hold offsets of a group.
func (b *Broker) Staged(group string) (ids []state.PartitionID) {
	b.log.Read(func(s *state.State) { ids = s.Staged(group) })
	return ids
}

// AbortTransaction aborts the open transaction of a transactional ID for an operator, and fences its producer. Errors:
// ErrUnknownTransaction, ErrTransactionState if none is open, and those of an append.
func (b *Broker) AbortTransaction(ctx context.Context, id string) error {
	return b.abort(ctx, &core.Transact{ID: id})
}

// AbortDescribed is AbortTransaction of the transaction that a description shows. A later one of the same ID stays
// open: ErrTransactionState.
func (b *Broker) AbortDescribed(ctx context.Context, t *TransactionInfo) error {
	if t.Started.IsZero() {
		return state.ErrTransactionState
	}
	return b.abort(ctx, &core.Transact{ID: t.ID, Seen: t.Started.UnixMicro()})
}

func (b *Broker) abort(ctx context.Context, x *core.Transact) error {
	if err := b.Audit(ctx, changeOf("transaction.abort", access.TransactionalID, x.ID)); err != nil {
		return err
	}
	x.Kind, x.Forced = state.TransactionAbort, true
	_, err := b.transact(ctx, x, 0)
	return err
}

// expireTransactions ends transactions that have been open for longer than their timeout, and forgets IDs that were
// not used for long, while this broker leads.
func (b *Broker) expireTransactions(ctx context.Context) {
	var deadlines core.Deadlines
	began := time.Now()
	every := time.NewTicker(b.opt.TransactionsEvery)
	defer every.Stop()
	for {
		select {
		case <-every.C:
			b.endOverdue(ctx, &deadlines, time.Since(began))
		case <-ctx.Done():
			return
		}
	}
}

func (b *Broker) endOverdue(ctx context.Context, deadlines *core.Deadlines, now time.Duration) {
	var due []*core.Transact
	wall := int64(0)
	if !b.log.TimeDoubted() {
		wall = b.opt.Now().UnixMicro()
	}
	b.log.Read(func(s *state.State) { due = deadlines.Look(s, int64(now), wall) })
	// Together, not in a slot each: a program that ends may leave many transactions.
	for i, err := range b.transactAll(ctx, due, 0) {
		switch x := due[i]; {
		case x.Kind == state.TransactionForget: // refused if it was used meanwhile; else the next look repeats it
		case err == nil:
			b.met.transactionsExpired.Inc()
			b.opt.Logger.Warn("transaction aborted after its timeout", "transactional-id", x.ID)
		case ctx.Err() == nil && !errors.Is(err, state.ErrTransactionState) && !errors.Is(err, state.ErrUnknownTransaction):
			b.opt.Logger.Warn("transaction not aborted after its timeout, retrying", "transactional-id", x.ID, "err", err)
		}
	}
}

// TransactionInfo describes a transactional ID.
type TransactionInfo struct {
	ID       string
	Producer state.ProducerEpoch
	Timeout  time.Duration
	Changed  time.Time     // of the newest init or end
	Started  time.Time     // of the open transaction; zero: none is open
	Age      time.Duration // of the open transaction
	Ended    state.Ending
	Parts    []TransactionPart
	Offsets  int // staged
}

// TransactionPart is a partition with batches of an open transaction.
type TransactionPart struct {
	Topic     string
	Partition int32
	First     int64 // offset of the first of them
	Stable    int64 // the last stable offset
}

// OpenTransactions returns the number of open transactions, and the oldest of those that are visible; nil: all are.
// Its ID is "" if there is none.
func (b *Broker) OpenTransactions(visible func(id string) bool) (n int, oldest TransactionInfo) {
	b.log.Read(func(s *state.State) {
		var first *state.Transaction
		open := s.OpenTransactions()
		n = len(open)
		for _, t := range open {
			if (first == nil || cmp.Or(cmp.Compare(t.Started, first.Started), cmp.Compare(t.ID, first.ID)) < 0) && (visible == nil || visible(t.ID)) {
				first = t
			}
		}
		if first != nil {
			oldest = b.describeTransaction(s, first)
		}
	})
	return n, oldest
}

// TransactionRef is a transactional ID, whether it has an open transaction, and the number of its partitions.
type TransactionRef struct {
	ID    string
	Open  bool
	Parts int
}

// TransactionRefs lists all transactional IDs, at most 1,000.
func (b *Broker) TransactionRefs() (refs []TransactionRef) {
	b.log.Read(func(s *state.State) {
		for _, t := range s.Transactions() {
			refs = append(refs, TransactionRef{t.ID, t.Open(), len(t.Parts)})
		}
	})
	return refs
}

// Transactions describes all transactional IDs, by ID.
func (b *Broker) Transactions() (list []TransactionInfo) {
	b.log.Read(func(s *state.State) {
		for _, t := range s.Transactions() {
			list = append(list, b.describeTransaction(s, t))
		}
	})
	return list
}

// Transaction describes one transactional ID.
func (b *Broker) Transaction(id string) (info TransactionInfo, known bool) {
	b.log.Read(func(s *state.State) {
		if t := s.Transaction(id); t != nil {
			info, known = b.describeTransaction(s, t), true
		}
	})
	return info, known
}

func (b *Broker) describeTransaction(s *state.State, t *state.Transaction) TransactionInfo {
	i := TransactionInfo{
		ID: t.ID, Producer: t.Now(), Timeout: time.Duration(t.Timeout) * time.Millisecond, Changed: time.UnixMicro(t.Changed),
		Ended: t.Ended, Offsets: len(t.Offsets),
	}
	if t.Open() {
		i.Started = time.UnixMicro(t.Started)
		i.Age = max(0, b.opt.Now().Sub(i.Started))
	}
	for _, p := range t.Parts {
		topic := s.Topic(p.Topic)
		i.Parts = append(i.Parts, TransactionPart{
			Topic: topic.Name, Partition: int32(p.Partition), First: p.First, Stable: topic.Partitions.At(int(p.Partition)).LastStable(),
		})
	}
	return i
}
