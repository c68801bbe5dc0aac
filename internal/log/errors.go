package log

import (
	"errors"
	"fmt"

	"github.com/sebbroker/seb/internal/log/core"
	"github.com/sebbroker/seb/internal/log/state"
)

var (
	// ErrUnknown: a PUT that holds the append was begun and there was no verdict in time. It may appear once, or never.
	ErrUnknown = errors.New("outcome unknown")
	// ErrRejected is what every *RejectedError is: it is in no slot and never will be.
	ErrRejected = errors.New("rejected")
	// ErrClosed: the log is closing or closed.
	ErrClosed = errors.New("log closed")
	// ErrQueueFull: too many bytes wait to be frozen.
	ErrQueueFull = errors.New("append queue full")
)

// RejectedError says why something is in no slot and never will be. It is ErrRejected.
type RejectedError struct {
	Why  core.Rejection // RejectNone: Err says it
	Next int64          // with RejectOffset: the partition's next offset, or the group's committed one
	Err  error          // ErrClosed, ErrQueueFull, the context's error, or the store's
}

func (e *RejectedError) Error() string {
	if e.Why == core.RejectNone {
		return fmt.Sprintf("rejected: %v", e.Err)
	}
	s := "rejected: " + reasons[e.Why]
	if e.Why == core.RejectOffset {
		s += fmt.Sprintf(" (next offset %d)", e.Next)
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Is makes it ErrRejected.
func (e *RejectedError) Is(target error) bool { return target == ErrRejected }

// Unwrap returns Err.
func (e *RejectedError) Unwrap() error { return e.Err }

var reasons = [...]string{
	core.RejectUnknownTopic:     "unknown topic",
	core.RejectUnknownPartition: "unknown partition",
	core.RejectTopicExists:      "topic exists",
	core.RejectOffset:           "offset mismatch",
	core.RejectShrink:           "fewer partitions than there are",
	core.RejectFenced:           "another broker leads",
	core.RejectNotLeader:        "not the leader",
	core.RejectStore:            "the store refuses writes",
	core.RejectStopped:          "the log stopped on corruption",
	core.RejectDuplicate:        "a duplicate",
	core.RejectUnknown:          "a duplicate of what has no verdict",
	core.RejectSequence:         "the producer's sequence has a gap",
	core.RejectOldProducer:      "the producer's epoch is over",
	core.RejectUnknownGroup:     "unknown consumer group",
	core.RejectFull:             "the table of committed offsets is full",
	core.RejectBeyondEnd:        "offset beyond the end",
	core.RejectPackKnown:        "a pack of that number is installed already",
	core.RejectLevel:            fmt.Sprintf(`needs format level %d: run "seb upgrade --finalize"`, state.LevelMax),
	core.RejectLevelKnown:       "the bucket is at this format level already",
	core.RejectStateFull:        "the tables of the state are full",
	core.RejectRangesFull:       "the ranges of the state are full",
	core.RejectNotLater:         "the log's time is not later than that",
}
