package broker

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sebbroker/seb/internal/log"
	"github.com/sebbroker/seb/internal/log/logtime"
	"github.com/sebbroker/seb/internal/log/state"
)

// The errors that callers may test for with errors.Is. Front ends map them in one table each. Those of the log come up
// from where they are made, unchanged.
var (
	ErrUnknownTopic     = state.ErrUnknownTopic
	ErrUnknownPartition = state.ErrUnknownPartition
	ErrTopicExists      = state.ErrTopicExists
	ErrTopicInUse       = errors.New("topic in use")
	ErrFenced           = state.ErrFenced
	ErrNotLeader        = state.ErrNotLeader
	ErrReadOnly         = state.ErrReadOnly
	ErrOverBudget       = state.ErrOverBudget
	ErrStoreUnavailable = state.ErrStoreUnavailable
	ErrCorrupt          = state.ErrCorrupt
	ErrOutcomeUnknown   = state.ErrOutcomeUnknown
	ErrTooLarge         = errors.New("too large")
	ErrInvalid          = state.ErrInvalid
	ErrOffsetMismatch   = state.ErrOffsetMismatch
	ErrBelowStart       = errors.New("offset below start")
	ErrClosed           = log.ErrClosed
	ErrUnknownGroup     = state.ErrUnknownGroup
	ErrBeyondEnd        = state.ErrBeyondEnd
	// ErrGroupActive: the group has members (package groups), who commit its offsets. The broker itself knows of none.
	ErrGroupActive    = errors.New("the consumer group has members")
	ErrFull           = state.ErrFull
	ErrStateFull      = state.ErrStateFull
	ErrRangesFull     = state.ErrRangesFull
	ErrSequenceGap    = state.ErrSequenceGap
	ErrProducerFenced = state.ErrProducerFenced
	ErrNotSent        = log.ErrNotSent
	// ErrClock: the machine's clock contradicts the store's or the log's time, so nothing is committed.
	ErrClock = logtime.ErrClock
	// ErrLevel: the bucket's format level is too low for the request.
	ErrLevel = state.ErrLevel
	// ErrNewer: a newer program has raised the bucket to a format level that this one does not know.
	ErrNewer = state.ErrNewer
)

type (
	// OffsetMismatchError says what the next offset is. It is ErrOffsetMismatch.
	OffsetMismatchError = state.OffsetMismatchError
	// FencedError says who took over, as a hint. It is ErrFenced.
	FencedError = state.FencedError
	// InvalidError names what of a request is wrong. It is ErrInvalid.
	InvalidError = state.InvalidError
	// StateFullError says how large the state is. It is ErrStateFull.
	StateFullError = state.StateFullError
)

// TopicInUseError says why a topic is not deleted. It is ErrTopicInUse.
type TopicInUseError struct {
	Topic string
	By    []string // ids of triggers
	Err   error    // why it is not known whether triggers use it; By is empty then
}

// usersNamed is how many triggers the text of a TopicInUseError names.
const usersNamed = 5

func (e *TopicInUseError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("topic %q: cannot tell whether triggers use it: %v; force deletes it all the same", e.Topic, e.Err)
	}
	names := e.By[:min(len(e.By), usersNamed)]
	more := ""
	if n := len(e.By) - len(names); n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("topic %q is in use by triggers: %s%s; force deletes it all the same", e.Topic, strings.Join(names, ", "), more)
}

// Is makes it ErrTopicInUse.
func (e *TopicInUseError) Is(t error) bool { return t == ErrTopicInUse }

// Unwrap returns why it is not known.
func (e *TopicInUseError) Unwrap() error { return e.Err }

// BelowStartError says what the first offset is. It is ErrBelowStart.
type BelowStartError struct{ Offset, Start int64 }

func (e *BelowStartError) Error() string {
	return fmt.Sprintf("offset %d is below the partition's start %d", e.Offset, e.Start)
}

// Is makes it ErrBelowStart.
func (e *BelowStartError) Is(t error) bool { return t == ErrBelowStart }

// BeyondEndError says where a partition ends. It is ErrBeyondEnd.
type BeyondEndError struct{ Offset, End int64 }

func (e *BeyondEndError) Error() string {
	return fmt.Sprintf("offset %d is beyond the partition's end, %d: it is of another topic, or the bucket was put back to an older copy", e.Offset, e.End)
}

// Is makes it ErrBeyondEnd.
func (e *BeyondEndError) Is(t error) bool { return t == ErrBeyondEnd }

// CorruptError says which data of a partition is damaged (rule R9). It is ErrCorrupt.
type CorruptError struct {
	Topic     string
	Partition int32
	Offset    int64  // first offset of the damaged range
	Key       string // the object
	Err       error  // what is wrong with it
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("corrupt data: topic %s partition %d from offset %d in %s: %v", e.Topic, e.Partition, e.Offset, e.Key, e.Err)
}

// Is makes it ErrCorrupt.
func (e *CorruptError) Is(t error) bool { return t == ErrCorrupt }

// Unwrap returns Err.
func (e *CorruptError) Unwrap() error { return e.Err }
