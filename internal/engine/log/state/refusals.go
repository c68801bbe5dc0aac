package state

import (
	"errors"
	"fmt"

	"github.com/sebbroker/seb/internal/engine/budget"
)

// The refusals. Except for ErrOutcomeUnknown they mean that an append or a proposal is in no slot
// and never will be (rule R4 "rejected"). The core, the log and the broker pass them on unchanged,
// and each front end maps them in one table. Test with errors.Is, because some are wrapped by an
// error with details.
var (
	ErrUnknownTopic     = errors.New("unknown topic")
	ErrUnknownPartition = errors.New("unknown partition")
	ErrTopicExists      = errors.New("topic exists")
	ErrUnknownGroup     = errors.New("unknown consumer group")
	ErrBeyondEnd        = errors.New("offset beyond the partition's end")
	// ErrOffsetMismatch: the expected offset is not the next one of the partition, or not the
	// group's (OffsetMismatchError).
	ErrOffsetMismatch = errors.New("offset mismatch")
	// ErrSequenceGap: an idempotent producer's append neither follows nor repeats its last ones. A
	// deposed leader that has not noticed decides by an outdated state, so its refusal may be
	// wrong; the same holds for an expected offset and ErrProducerFenced. In any case nothing was
	// appended.
	ErrSequenceGap = errors.New("producer sequence out of order")
	// ErrProducerFenced: a newer epoch of the producer has appended.
	ErrProducerFenced = errors.New("fenced: newer producer epoch")
	// ErrTransactionsFull: there are too many transactional IDs. It is ErrOverBudget.
	ErrTransactionsFull = fmt.Errorf("%w: limit of %d transactional IDs reached", ErrOverBudget, TransactionsMax)
	// ErrAbortedFull: too many aborted transactions are known. It is ErrOverBudget.
	ErrAbortedFull = fmt.Errorf("%w: limit of %d aborted transactions reached, until retention or compaction removes their records", ErrOverBudget, AbortedMax)
	// ErrUnknownTransaction: no transactional ID has the producer.
	ErrUnknownTransaction = errors.New("unknown transactional ID or producer")
	// ErrTransactionFenced: a newer producer uses the transactional ID.
	ErrTransactionFenced = errors.New("fenced: the transactional ID has a newer producer")
	// ErrTransactionEnded: the broker has aborted the producer's transaction, after its timeout or for an operator.
	ErrTransactionEnded = errors.New("the transaction was aborted by the broker, after its timeout or by an operator")
	// ErrTransactionState: the transaction's state does not allow the request.
	ErrTransactionState = errors.New("the transaction is in another state")
	ErrPackKnown        = errors.New("pack is already installed")
	ErrNotLater         = errors.New("log time is not later than the given time")
	ErrOverBudget       = errors.New("memory budget exhausted")
	// ErrFull: the table of committed offsets is full. It is ErrOverBudget.
	ErrFull = fmt.Errorf("%w: limit of %d committed offsets reached", ErrOverBudget, OffsetsMax)
	// ErrStateFull: topics, partitions, groups, producers and object ranges take the state's share
	// of the memory limit (StateFullError).
	ErrStateFull = errors.New("the state is full")
	// ErrRangesFull: object ranges take too much memory until commit objects are merged. It is
	// ErrStateFull and ErrOverBudget (StateFullError).
	ErrRangesFull = errors.New("the state is full: too many unmerged object ranges")
	// ErrProducersFull: a new idempotent producer can only be remembered once others are old enough to be
	// forgotten. It is ErrOverBudget (ProducersFullError).
	ErrProducersFull = errors.New("too many idempotent producers")
	ErrInvalid       = errors.New("invalid") // InvalidError
	// ErrShrink: a topic would have fewer partitions. It is ErrInvalid.
	ErrShrink error = &InvalidError{Field: "partitions", Reason: "the number of partitions cannot be reduced"}

	// ErrNotAudited: the audit record of a change has no place in the log, so the change has none. It
	// does not wrap the reason, which is about another topic than that of the change.
	ErrNotAudited = errors.New("the change cannot be recorded in the audit topic")
	// ErrAuditTopic: the topic gets audit records of the same slot, so the slot cannot delete it.
	ErrAuditTopic = errors.New("topic holds audit records")

	// ErrAtomic: another part of an atomic request was refused, so this one is not stored.
	ErrAtomic = errors.New("another record of the atomic request was refused")

	ErrFenced           = errors.New("fenced: another broker leads") // FencedError
	ErrNotLeader        = errors.New("broker is not the leader (yet)")
	ErrReadOnly         = errors.New("broker is read-only")
	ErrStoreUnavailable = errors.New("store unavailable") // wraps the store's error
	ErrCorrupt          = errors.New("corrupt data")      // the log has stopped (rule R9)

	// ErrOutcomeUnknown is no refusal: a PUT that holds the append was started and had no verdict
	// in time, or the append is a duplicate of such an append.
	ErrOutcomeUnknown = errors.New("outcome unknown: the records may appear once, or never")
)

// OffsetMismatchError has the actual end of a partition or, with Group, the offset that the group
// has committed. It is ErrOffsetMismatch.
type OffsetMismatchError struct {
	Group          string // "" for an append
	Expected, Next int64  // -1: none committed
}

func (e *OffsetMismatchError) Error() string {
	if e.Group != "" {
		return fmt.Sprintf("offset mismatch: expected %d, group %s has committed %d (-1: nothing)", e.Expected, e.Group, e.Next)
	}
	return fmt.Sprintf("offset mismatch: expected %d, the partition's next offset is %d", e.Expected, e.Next)
}

// Is reports whether t is ErrOffsetMismatch.
func (e *OffsetMismatchError) Is(t error) bool { return t == ErrOffsetMismatch }

// ProducersFullError: the producers that may be forgotten leave no place for a new one. It is
// ErrProducersFull and ErrOverBudget.
type ProducersFullError struct{ Own, Known, Max int } // producers, in each partition: of the principal, of all

func (e *ProducersFullError) Error() string {
	limit := budget.LimitFor(budget.State, ProducersMemory(2*e.Max))
	return fmt.Sprintf("too many idempotent producers: %d of %d are remembered, %d of this principal, and none can be forgotten for a new one yet (a producer counts once for each partition): retry later, use fewer, or start with --memory-limit %dMiB",
		e.Known, e.Max, e.Own, (limit+1<<20-1)>>20)
}

// Is reports whether t is ErrProducersFull or ErrOverBudget.
func (e *ProducersFullError) Is(t error) bool { return t == ErrProducersFull || t == ErrOverBudget }

// FencedError names the epoch that took over and, as a hint, its leader. It is ErrFenced.
type FencedError struct {
	Epoch  uint32 // the epoch that took over
	Leader string // its advertised address, "" if unknown
}

func (e *FencedError) Error() string {
	if e.Leader == "" {
		return fmt.Sprintf("fenced: epoch %d took over", e.Epoch)
	}
	return fmt.Sprintf("fenced: epoch %d took over, try %s", e.Epoch, e.Leader)
}

// Is reports whether t is ErrFenced.
func (e *FencedError) Is(t error) bool { return t == ErrFenced }

// InvalidError names the invalid field of a request, the limit and the given value. It is
// ErrInvalid.
type InvalidError struct{ Field, Reason string }

func (e *InvalidError) Error() string { return e.Field + ": " + e.Reason }

// Is reports whether t is ErrInvalid.
func (e *InvalidError) Is(t error) bool { return t == ErrInvalid }

// StateFullError: a request would make the state larger than the memory limit allows. It is
// ErrStateFull. With Ranges it is also ErrRangesFull and ErrOverBudget, because merging commit
// objects makes room again.
type StateFullError struct {
	Held   Memory // bytes
	Max    int64  // limit of the sum of Held, bytes
	Ranges bool
}

func (e *StateFullError) Error() string {
	advice := "delete topics or groups, or"
	switch {
	case e.Ranges:
		advice = "wait until commit objects are merged, or"
	case e.Held.Queues > e.Max/2:
		advice = "wait until delayed, retried and uncommitted messages of queues are done, or"
	}
	return fmt.Sprintf("the state is full: topics, partitions, groups and producers take %s, object ranges %s and queues %s of %s: %s start with --memory-limit %dMiB",
		budget.Text(e.Held.Tables), budget.Text(e.Held.Ranges), budget.Text(e.Held.Queues), budget.Text(e.Max), advice, e.limit()>>20)
}

// limit is a memory limit that has room for the state, in whole MiB.
func (e *StateFullError) limit() int64 {
	needs := budget.LimitFor(budget.State, max(e.Held.Sum(), e.Max)*5/4)
	return max(budget.LimitMin, (needs+1<<20-1)&^(1<<20-1))
}

// Is reports whether t is ErrStateFull or, with Ranges, ErrRangesFull or ErrOverBudget.
func (e *StateFullError) Is(t error) bool {
	return t == ErrStateFull || e.Ranges && (t == ErrRangesFull || t == ErrOverBudget)
}
