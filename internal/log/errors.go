package log

import (
	"errors"
	"fmt"

	"github.com/sebbroker/seb/internal/log/state"
)

// The log's own refusals; it passes on those of the core (package state). Every error of a Result
// except state.ErrOutcomeUnknown means that the append is in no slot and never will be.
var (
	// ErrClosed: the log is closing or closed.
	ErrClosed = errors.New("broker is closing")
	// ErrQueueFull: too many bytes wait to be frozen. It is state.ErrOverBudget.
	ErrQueueFull = fmt.Errorf("%w: queue of appends is full", state.ErrOverBudget)
	// ErrNotSent: the caller stopped waiting before its append was sent. The append was removed and
	// will never appear. The error also wraps the context's cause, and the clock's error if writes
	// wait for the clock.
	ErrNotSent = errors.New("append canceled before it was sent: it will not appear")
)

func (l *Log) notSent(cause error) error {
	if wrong := l.ClockError(); wrong != nil {
		return fmt.Errorf("%w: %w: %w", ErrNotSent, wrong, cause)
	}
	return fmt.Errorf("%w: %w", ErrNotSent, cause)
}
