package broker

import (
	"context"
	"errors"
	"time"

	"github.com/sebbroker/seb/internal/engine/log/state"
)

// Isolation says what a fetch returns of transactions.
type Isolation uint8

// The isolations. The offsets of what is left out are in chunks without bytes.
const (
	// Committed ends at the last stable offset, and leaves out markers and batches of aborted transactions.
	Committed Isolation = iota
	// Uncommitted leaves out markers.
	Uncommitted
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
	return state.ProducerEpoch{}, errors.ErrUnsupported
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
	return state.ProducerEpoch{}, errors.ErrUnsupported
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
	return []error{errors.ErrUnsupported}
}

// Staged returns the partitions for which open transactions hold offsets of a group.
func (b *Broker) Staged(group string) (ids []state.PartitionID) {
	b.log.Read(func(s *state.State) {
		for _, t := range s.Transactions() {
			for _, o := range t.Offsets {
				if o.Group == group {
					ids = append(ids, o.PartitionID)
				}
			}
		}
	})
	return ids
}

// AbortTransaction aborts the open transaction of a transactional ID for an operator, and fences its producer. Errors:
// ErrUnknownTransaction, ErrTransactionState if none is open, and those of an append.
func (b *Broker) AbortTransaction(ctx context.Context, id string) error { return errors.ErrUnsupported }

// TransactionInfo describes a transactional ID.
type TransactionInfo struct {
	ID       string
	Producer state.ProducerEpoch
	Timeout  time.Duration
	Changed  time.Time // of the newest init or end
	Started  time.Time // of the open transaction; zero: none is open
	Ended    state.Ending
	Parts    []TransactionPart
	Offsets  int // staged
}

// TransactionPart is a partition with batches of an open transaction.
type TransactionPart struct {
	Topic     string
	Partition int32
	First     int64 // offset of the first of them
}

// Transactions describes all transactional IDs, by ID.
func (b *Broker) Transactions() (list []TransactionInfo) {
	b.log.Read(func(s *state.State) {
		for _, t := range s.Transactions() {
			list = append(list, describeTransaction(s, t))
		}
	})
	return list
}

// Transaction describes one transactional ID.
func (b *Broker) Transaction(id string) (info TransactionInfo, known bool) {
	b.log.Read(func(s *state.State) {
		if t := s.Transaction(id); t != nil {
			info, known = describeTransaction(s, t), true
		}
	})
	return info, known
}

func describeTransaction(s *state.State, t *state.Transaction) TransactionInfo {
	i := TransactionInfo{
		ID: t.ID, Producer: t.Now(), Timeout: time.Duration(t.Timeout) * time.Millisecond, Changed: time.UnixMicro(t.Changed),
		Ended: t.Ended, Offsets: len(t.Offsets),
	}
	if t.Open() {
		i.Started = time.UnixMicro(t.Started)
	}
	for _, p := range t.Parts {
		i.Parts = append(i.Parts, TransactionPart{Topic: s.Topic(p.Topic).Name, Partition: int32(p.Partition), First: p.First})
	}
	return i
}
