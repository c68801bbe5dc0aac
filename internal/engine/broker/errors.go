package broker

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/log/state"
)

// The broker's own refusals, and those of package log, which front ends do not import. The broker
// passes on those of package state unchanged. Test with errors.Is; each front end maps them in one
// table.
var (
	ErrClosed     = log.ErrClosed
	ErrNotSent    = log.ErrNotSent
	ErrClock      = log.ErrClock // the broker commits nothing
	ErrTopicInUse = errors.New("topic in use")
	ErrTooLarge   = errors.New("too large")
	ErrBelowStart = errors.New("offset below start")
	// ErrGroupActive: the group has members (package group/coordinator), which commit its offsets.
	// The broker itself does not know members.
	ErrGroupActive = errors.New("consumer group has members")
	// ErrInternalTopic: only Seb writes to the topic (Options.Internal).
	ErrInternalTopic = errors.New("internal topic, which only Seb writes")
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

// BeyondEndError holds a partition's end. It is state.ErrBeyondEnd.
type BeyondEndError struct{ Offset, End int64 }

func (e *BeyondEndError) Error() string {
	return fmt.Sprintf("offset %d is beyond the partition's end %d: it belongs to another topic, or the bucket was restored from an older copy", e.Offset, e.End)
}

// Is makes it ErrBeyondEnd.
func (e *BeyondEndError) Is(t error) bool { return t == state.ErrBeyondEnd }

// CorruptError names a partition's damaged data (rule R9). It is state.ErrCorrupt.
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
func (e *CorruptError) Is(t error) bool { return t == state.ErrCorrupt }

// Unwrap returns Err.
func (e *CorruptError) Unwrap() error { return e.Err }
