package state

import (
	"errors"
	"fmt"

	"github.com/sebbroker/seb/internal/budget"
)

// The refusals: why an append or a proposal is in no slot and never will be (rule R4 "rejected"), but for
// ErrOutcomeUnknown. The core, the log and the broker pass them on as they are, and each front end has one table of them.
// Test with errors.Is: some are wrapped by an error that has the detail.
var (
	ErrUnknownTopic     = errors.New("unknown topic")
	ErrUnknownPartition = errors.New("unknown partition")
	ErrTopicExists      = errors.New("topic exists")
	ErrUnknownGroup     = errors.New("unknown consumer group")
	ErrBeyondEnd        = errors.New("offset beyond the partition's end")
	// ErrOffsetMismatch: the expected offset is not the next one, or not the group's (OffsetMismatchError).
	ErrOffsetMismatch = errors.New("offset mismatch")
	// ErrSequenceGap: an idempotent producer's append does not follow its last one, and is none of its last ones. A
	// leader that was deposed and has not noticed judges by what it knew: its refusal may be stale, as that of an
	// expected offset or of ErrProducerFenced may be. It is never wrong that nothing was appended.
	ErrSequenceGap = errors.New("the producer's sequence has a gap")
	// ErrProducerFenced: a newer epoch of the producer has appended.
	ErrProducerFenced = errors.New("fenced: the producer's epoch is over")
	ErrPackKnown      = errors.New("a pack of that number is installed already")
	ErrNotLater       = errors.New("the log's time is not later than that")
	ErrOverBudget     = errors.New("memory budget exhausted")
	// ErrFull: the table of committed offsets is full. It is ErrOverBudget.
	ErrFull = fmt.Errorf("%w: the table of committed offsets is full", ErrOverBudget)
	// ErrStateFull: topics, partitions, groups, producers and where records lie take the state's part of the memory limit
	// (StateFullError).
	ErrStateFull = errors.New("the state is full")
	// ErrRangesFull: where records lie takes too much memory until commit objects are merged. It is ErrStateFull and
	// ErrOverBudget (StateFullError).
	ErrRangesFull = errors.New("the ranges of the state are full")
	ErrInvalid    = errors.New("invalid") // InvalidError
	// ErrShrink: a topic would have fewer partitions. It is ErrInvalid.
	ErrShrink error = &InvalidError{Field: "partitions", Reason: "a topic's partitions can not be taken away"}

	ErrFenced           = errors.New("fenced: another broker leads") // FencedError
	ErrNotLeader        = errors.New("this broker does not lead (yet)")
	ErrReadOnly         = errors.New("broker is read-only")
	ErrStoreUnavailable = errors.New("store unavailable") // wraps what the store said
	ErrCorrupt          = errors.New("corrupt data")      // the log has stopped (rule R9)

	// ErrOutcomeUnknown is no refusal: a PUT that holds the append was begun and there was no verdict in time, or it is a
	// duplicate of such an append.
	ErrOutcomeUnknown = errors.New("outcome unknown: the records may appear once, or never")
)

// OffsetMismatchError says where a partition really ends, or with Group what that group has committed. It is
// ErrOffsetMismatch.
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

// Is makes it ErrOffsetMismatch.
func (e *OffsetMismatchError) Is(t error) bool { return t == ErrOffsetMismatch }

// FencedError says who took over, as a hint. It is ErrFenced.
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

// Is makes it ErrFenced.
func (e *FencedError) Is(t error) bool { return t == ErrFenced }

// InvalidError names what of a request is wrong, the limit and what was given. It is ErrInvalid.
type InvalidError struct{ Field, Reason string }

func (e *InvalidError) Error() string { return e.Field + ": " + e.Reason }

// Is makes it ErrInvalid.
func (e *InvalidError) Is(t error) bool { return t == ErrInvalid }

// StateFullError says that a request would make the state larger than the memory limit allows. It is ErrStateFull. If
// Ranges is set it is ErrRangesFull and ErrOverBudget as well: there is room again when commit objects have been merged.
type StateFullError struct {
	Held   Memory // bytes
	Max    int64  // bytes for both
	Ranges bool
}

func (e *StateFullError) Error() string {
	what := "delete topics or groups, or"
	if e.Ranges {
		what = "wait until commit objects are merged, or"
	}
	return fmt.Sprintf("the state is full: topics, partitions, groups and producers take %s, and where records lie takes %s, of %s: %s start with --memory-limit %dMiB",
		budget.Text(e.Held.Tables), budget.Text(e.Held.Ranges), budget.Text(e.Max), what, e.limit()>>20)
}

// limit is the memory limit with which there is room, in whole MiB.
func (e *StateFullError) limit() int64 {
	needs := budget.LimitFor(budget.State, max(e.Held.Sum(), e.Max)*5/4)
	return max(budget.LimitMin, (needs+1<<20-1)&^(1<<20-1))
}

// Is makes it ErrStateFull, and with Ranges ErrRangesFull and ErrOverBudget.
func (e *StateFullError) Is(t error) bool {
	return t == ErrStateFull || e.Ranges && (t == ErrRangesFull || t == ErrOverBudget)
}
