// The clock that a run is measured with: nanoseconds, never going backwards.

package load

import (
	"context"
	"time"
)

// Clock is the clock of a run. Its methods may be called concurrently.
type Clock interface {
	// Now returns the time in nanoseconds since a fixed moment.
	Now() int64
	// SleepUntil returns nil at t or as soon after it as the clock can, and at once if t is past.
	// If ctx ends first, it returns the error of ctx, which it may notice up to 20 ms late.
	SleepUntil(ctx context.Context, t int64) error
}

// sleepMax is the longest sleep without a check of the context.
const sleepMax = 20 * time.Millisecond

// StandardClock uses package time, and sleeps in whole milliseconds. In a testing/synctest bubble
// it is virtual: exact, and as fast as the work done in the bubble.
type StandardClock struct{ base time.Time }

// NewStandardClock returns a clock that starts at one second, so that no time is 0.
func NewStandardClock() *StandardClock { return &StandardClock{base: time.Now().Add(-time.Second)} }

// Now implements Clock.
func (s *StandardClock) Now() int64 { return int64(time.Since(s.base)) }

// SleepUntil implements Clock. It notices the end of ctx at once.
func (s *StandardClock) SleepUntil(ctx context.Context, t int64) error {
	d := t - s.Now()
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(time.Duration(d))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
