package eventlog

import (
	"errors"
	"fmt"

	"github.com/sebbroker/seb/internal/logcore"
	"github.com/sebbroker/seb/internal/state"
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
	Why  logcore.Rejection // RejectNone: Err says it
	Next int64             // with RejectOffset: the partition's next offset, or the group's committed one
	Err  error             // ErrClosed, ErrQueueFull, the context's error, or the store's
}

func (e *RejectedError) Error() string {
	if e.Why == logcore.RejectNone {
		return fmt.Sprintf("rejected: %v", e.Err)
	}
	s := "rejected: " + reasons[e.Why]
	if e.Why == logcore.RejectOffset {
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
	logcore.RejectUnknownTopic:     "unknown topic",
	logcore.RejectUnknownPartition: "unknown partition",
	logcore.RejectTopicExists:      "topic exists",
	logcore.RejectOffset:           "offset mismatch",
	logcore.RejectShrink:           "fewer partitions than there are",
	logcore.RejectFenced:           "another broker leads",
	logcore.RejectNotLeader:        "not the leader",
	logcore.RejectStore:            "the store refuses writes",
	logcore.RejectStopped:          "the log stopped on corruption",
	logcore.RejectDuplicate:        "a duplicate",
	logcore.RejectUnknown:          "a duplicate of what has no verdict",
	logcore.RejectSequence:         "the producer's sequence has a gap",
	logcore.RejectOldProducer:      "the producer's epoch is over",
	logcore.RejectUnknownGroup:     "unknown consumer group",
	logcore.RejectFull:             "the table of committed offsets is full",
	logcore.RejectBeyondEnd:        "offset beyond the end",
	logcore.RejectPackKnown:        "a pack of that number is installed already",
	logcore.RejectLevel:            fmt.Sprintf(`needs format level %d: run "seb upgrade --finalize"`, state.LevelMax),
	logcore.RejectLevelKnown:       "the bucket is at this format level already",
	logcore.RejectStateFull:        "the tables of the state are full",
	logcore.RejectRangesFull:       "the ranges of the state are full",
	logcore.RejectNotLater:         "the log's time is not later than that",
}
