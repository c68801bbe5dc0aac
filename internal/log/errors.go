package log

import (
	"errors"
	"fmt"

	"github.com/sebbroker/seb/internal/log/state"
)

// The refusals of the log itself; those of the core are passed on (package state). Every error of a Result but
// state.ErrOutcomeUnknown means that the append is in no slot and never will be.
var (
	// ErrClosed: the log is closing or closed.
	ErrClosed = errors.New("broker is closing")
	// ErrQueueFull: too many bytes wait to be frozen. It is state.ErrOverBudget.
	ErrQueueFull = fmt.Errorf("%w: too much waits to be stored", state.ErrOverBudget)
	// ErrNotSent: the caller stopped waiting before its append was sent; it was taken out and will never appear. The
	// error wraps the context's cause as well, and what is wrong with the clock if that is why nothing is sent.
	ErrNotSent = errors.New("gave up before the append was sent: it will not appear")
)

func (l *Log) notSent(cause error) error {
	if wrong := l.ClockError(); wrong != nil {
		return fmt.Errorf("%w: %w: %w", ErrNotSent, wrong, cause)
	}
	return fmt.Errorf("%w: %w", ErrNotSent, cause)
}
