package broker

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sebbroker/seb/internal/log"
	"github.com/sebbroker/seb/internal/log/core"
	"github.com/sebbroker/seb/internal/log/logtime"
	"github.com/sebbroker/seb/internal/log/state"
)

// The errors that callers may test for with errors.Is. Front ends map them in one table each.
var (
	ErrUnknownTopic     = errors.New("unknown topic")
	ErrUnknownPartition = errors.New("unknown partition")
	ErrTopicExists      = errors.New("topic exists")
	ErrTopicInUse       = errors.New("topic in use")
	ErrFenced           = errors.New("fenced: another broker leads")
	ErrNotLeader        = errors.New("this broker does not lead (yet)")
	ErrReadOnly         = errors.New("broker is read-only")
	ErrOverBudget       = errors.New("memory budget exhausted")
	ErrStoreUnavailable = errors.New("store unavailable")
	ErrCorrupt          = errors.New("corrupt data")
	ErrOutcomeUnknown   = errors.New("outcome unknown: the records may appear once, or never")
	ErrTooLarge         = errors.New("too large")
	ErrInvalid          = errors.New("invalid")
	ErrOffsetMismatch   = errors.New("offset mismatch")
	ErrBelowStart       = errors.New("offset below start")
	ErrClosed           = errors.New("broker is closing")
	ErrUnknownGroup     = errors.New("unknown consumer group")
	ErrBeyondEnd        = errors.New("offset beyond the partition's end")
	// ErrGroupActive: the group has members (package groups), who commit its offsets. The broker itself knows of none.
	ErrGroupActive = errors.New("the consumer group has members")
	// ErrFull: the table of committed offsets is full. It is ErrOverBudget.
	ErrFull = fmt.Errorf("%w: the table of committed offsets is full", ErrOverBudget)
	// ErrStateFull: what the log says of topics, partitions, groups and where records lie has grown to its part of the
	// memory limit (StateFullError).
	ErrStateFull = errors.New("the state is full")
	// ErrRangesFull: where records lie takes too much memory until commit objects are merged. It is ErrStateFull and ErrOverBudget.
	ErrRangesFull = errors.New("the ranges of the state are full")
	// ErrSequenceGap: an idempotent producer's append does not follow its last one, and is none of its last ones. A
	// leader that was deposed and has not noticed judges by what it knew: its refusal may be stale, as that of an
	// expected offset or of ErrProducerFenced may be. It is never wrong that nothing was appended.
	ErrSequenceGap = errors.New("the producer's sequence has a gap")
	// ErrProducerFenced: a newer epoch of the producer has appended.
	ErrProducerFenced = errors.New("fenced: the producer's epoch is over")
	// ErrNotSent: the caller stopped waiting before its append was sent; it was taken out and will never appear. The
	// error wraps the context's cause as well.
	ErrNotSent = errors.New("gave up before the append was sent: it will not appear")
	// ErrClock: the machine's clock contradicts the store's or the log's time, so nothing is committed.
	ErrClock = logtime.ErrClock
	// ErrLevel: the bucket's format level is too low for the request.
	ErrLevel = state.ErrLevel
	// ErrNewer: a newer program has raised the bucket to a format level that this one does not know.
	ErrNewer = state.ErrNewer
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

// logError maps an error of the log; expected is the offset that an append expected.
func (b *Broker) logError(err error, expected int64) error {
	var r *log.RejectedError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &r) && r.Why != core.RejectNone:
		return b.rejection(r, expected)
	case errors.Is(err, log.ErrUnknown):
		return ErrOutcomeUnknown
	case errors.Is(err, log.ErrClosed):
		return ErrClosed
	case errors.Is(err, log.ErrQueueFull):
		return fmt.Errorf("%w: too much waits to be stored", ErrOverBudget)
	case r != nil:
		if wrong := b.log.ClockError(); wrong != nil {
			return fmt.Errorf("%w: %w: %w", ErrNotSent, wrong, r.Err)
		}
		return fmt.Errorf("%w: %w", ErrNotSent, r.Err)
	}
	return err
}

func (b *Broker) rejection(r *log.RejectedError, expected int64) error {
	switch r.Why {
	case core.RejectUnknownTopic:
		return ErrUnknownTopic
	case core.RejectUnknownPartition:
		return ErrUnknownPartition
	case core.RejectTopicExists:
		return ErrTopicExists
	case core.RejectOffset:
		return &OffsetMismatchError{Expected: expected, Next: r.Next}
	case core.RejectSequence:
		return ErrSequenceGap
	case core.RejectOldProducer:
		return ErrProducerFenced
	case core.RejectUnknownGroup:
		return ErrUnknownGroup
	case core.RejectFull:
		return ErrFull
	case core.RejectStateFull, core.RejectRangesFull:
		return b.stateFull(r.Why == core.RejectRangesFull)
	case core.RejectBeyondEnd:
		return ErrBeyondEnd
	case core.RejectShrink:
		return &InvalidError{Field: "partitions", Reason: "a topic's partitions can not be taken away"}
	case core.RejectFenced:
		return b.fenced()
	case core.RejectStore:
		if r.Err == nil {
			return ErrStoreUnavailable
		}
		return fmt.Errorf("%w: %w", ErrStoreUnavailable, r.Err)
	case core.RejectLevel:
		return &state.LevelError{Needs: state.LevelMax, Has: b.Level().Now}
	case core.RejectStopped:
		return stopped(r.Err)
	case core.RejectNotLeader:
		if b.ReadOnly() {
			return ErrReadOnly
		}
	}
	return ErrNotLeader
}

// readError maps an error of the reader of ranges; others are the broker's own.
func readError(err error) error {
	var store *StoreError
	switch {
	case errors.As(err, &store):
		return fmt.Errorf("%w: %w", ErrStoreUnavailable, err)
	case errors.Is(err, errReaderClosed):
		return ErrClosed
	}
	return err
}

// stopped is why a log that has stopped answers nothing: corruption, or a bucket that a newer program has raised.
func stopped(err error) error {
	if errors.Is(err, state.ErrNewer) {
		return err
	}
	return fmt.Errorf("%w: the log has stopped: %w", ErrCorrupt, err)
}

func (b *Broker) fenced() error {
	s := b.log.Status()
	return &FencedError{Epoch: s.Successor, Leader: s.Leader}
}
