// The time that a run is measured by: nanoseconds that only go forward.

package load

import (
	"context"
	"time"
)

// Clock is the time of a run. Its methods may be called concurrently.
type Clock interface {
	// Now is the time in nanoseconds since some fixed moment.
	Now() int64
	// SleepUntil returns nil at t or as soon after it as the clock can, and at once when t is past.
	// It returns ctx's error when that ends first, which it may notice up to 20 ms late.
	SleepUntil(ctx context.Context, t int64) error
}

// sleepMax is the longest sleep that does not look at its context.
const sleepMax = 20 * time.Millisecond

// StandardClock is the clock of package time, with its sleeps of whole milliseconds. In a bubble of
// testing/synctest it is virtual: exact, and as fast as the work done in it.
type StandardClock struct{ base time.Time }

// NewStandardClock returns a clock that begins at a second, so that no time is 0.
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
