package broker

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sebbroker/seb/internal/log"
	"github.com/sebbroker/seb/internal/log/state"
)

// The errors that callers may test for with errors.Is. Each front end maps them in one table. The
// log's errors are passed on unchanged.
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
	// ErrGroupActive: the group has members (package group/coordinator), which commit its offsets.
	// The broker itself does not know members.
	ErrGroupActive    = errors.New("consumer group has members")
	ErrFull           = state.ErrFull
	ErrStateFull      = state.ErrStateFull
	ErrRangesFull     = state.ErrRangesFull
	ErrSequenceGap    = state.ErrSequenceGap
	ErrProducerFenced = state.ErrProducerFenced
	ErrNotSent        = log.ErrNotSent
	// ErrUnauthorized: the principal has no right to the request.
	ErrUnauthorized = state.ErrUnauthorized
	// ErrNotAudited: the audit record of a change has no place in the log, so nothing was changed.
	ErrNotAudited = state.ErrNotAudited
	// ErrInternalTopic: only Seb writes to the topic (Options.Internal).
	ErrInternalTopic = errors.New("internal topic, which only Seb writes")
	// ErrAuditTopic: clients do not delete the topic of audit records.
	ErrAuditTopic = state.ErrAuditTopic
	// ErrClock: the machine's clock contradicts the store's or the log's time, so the broker
	// commits nothing.
	ErrClock = log.ErrClock
	// ErrLevel: the bucket's format level is too low for the request.
	ErrLevel = state.ErrLevel
	// ErrNewer: a newer program has raised the bucket to a format level that this program does not
	// know.
	ErrNewer = state.ErrNewer
)

type (
	// OffsetMismatchError holds the next offset. It is ErrOffsetMismatch.
	OffsetMismatchError = state.OffsetMismatchError
	// FencedError holds a hint at the new leader. It is ErrFenced.
	FencedError = state.FencedError
	// InvalidError names the invalid part of a request. It is ErrInvalid.
	InvalidError = state.InvalidError
	// StateFullError holds the size of the state. It is ErrStateFull.
	StateFullError = state.StateFullError
)

// TopicInUseError is why a topic is not deleted. It is ErrTopicInUse.
type TopicInUseError struct {
	Topic string
	By    []string // ids of triggers
	Err   error    // if it is not known whether triggers use the topic; By is then empty
}

// usersNamed is the number of triggers in the text of a TopicInUseError.
const usersNamed = 5

func (e *TopicInUseError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("topic %q: cannot tell whether triggers use it: %v; use force to delete it anyway", e.Topic, e.Err)
	}
	names := e.By[:min(len(e.By), usersNamed)]
	more := ""
	if n := len(e.By) - len(names); n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("topic %q is in use by triggers: %s%s; use force to delete it anyway", e.Topic, strings.Join(names, ", "), more)
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

// BeyondEndError holds a partition's end. It is ErrBeyondEnd.
type BeyondEndError struct{ Offset, End int64 }

func (e *BeyondEndError) Error() string {
	return fmt.Sprintf("offset %d is beyond the partition's end %d: it belongs to another topic, or the bucket was restored from an older copy", e.Offset, e.End)
}

// Is makes it ErrBeyondEnd.
func (e *BeyondEndError) Is(t error) bool { return t == ErrBeyondEnd }

// CorruptError names a partition's damaged data (rule R9). It is ErrCorrupt.
type CorruptError struct {
	Topic     string
	Partition int32
	Offset    int64  // first offset of the damaged range
	Key       string // the object
	Err       error  // the damage
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("corrupt data: topic %s partition %d from offset %d in %s: %v", e.Topic, e.Partition, e.Offset, e.Key, e.Err)
}

// Is makes it ErrCorrupt.
func (e *CorruptError) Is(t error) bool { return t == ErrCorrupt }

// Unwrap returns Err.
func (e *CorruptError) Unwrap() error { return e.Err }
