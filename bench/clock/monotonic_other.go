//go:build !linux

package clock

import (
	"context"
	"runtime"
	"time"
)

// Monotonic is the clock of package time, polled at the end of a sleep. Its times belong to this process.
type Monotonic struct {
	std  *Standard
	spin int64
}

// NewMonotonic returns the clock. The last spin of every sleep is spent polling the time; 0 sleeps to the end.
func NewMonotonic(spin time.Duration) *Monotonic {
	return &Monotonic{std: NewStandard(), spin: int64(spin)}
}

// Now implements Clock.
func (m *Monotonic) Now() int64 { return m.std.Now() }

// SleepUntil implements Clock.
func (m *Monotonic) SleepUntil(ctx context.Context, t int64) error {
	if err := m.std.SleepUntil(ctx, t-m.spin); err != nil {
		return err
	}
	for m.Now() < t {
		runtime.Gosched()
	}
	return nil
}
