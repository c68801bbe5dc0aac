//go:build !linux

package load

import (
	"context"
	"runtime"
	"time"
)

// MonotonicClock is the clock of package time, polled at the end of a sleep. Its times are valid
// only in this process.
type MonotonicClock struct {
	std  *StandardClock
	spin int64
}

// NewMonotonicClock returns the clock. It polls the time during the last spin of every sleep; with
// 0 it sleeps until the end.
func NewMonotonicClock(spin time.Duration) *MonotonicClock {
	return &MonotonicClock{std: NewStandardClock(), spin: int64(spin)}
}

// Now implements Clock.
func (m *MonotonicClock) Now() int64 { return m.std.Now() }

// SleepUntil implements Clock.
func (m *MonotonicClock) SleepUntil(ctx context.Context, t int64) error {
	if err := m.std.SleepUntil(ctx, t-m.spin); err != nil {
		return err
	}
	for m.Now() < t {
		runtime.Gosched()
	}
	return nil
}
