package webhook

import (
	"fmt"
	"slices"
	"time"

	"github.com/sebbroker/seb/internal/sorting"
)

// Bounds of a Cap, because the engine keeps that many delivery times of an entity.
const (
	CapCountMax = 1000
	CapPerMax   = 366 * day
)

// Cap is a frequency cap: at most Count deliveries to an entity within any span of Per. The zero
// Cap forbids nothing.
type Cap struct {
	Count int
	Per   time.Duration
}

// Validate reports an invalid Cap.
func (c Cap) Validate() error {
	switch {
	case c == Cap{}:
		return nil
	case c.Count < 1 || c.Count > CapCountMax:
		return fmt.Errorf("frequency cap: count is %d, want 1 to %d", c.Count, CapCountMax)
	case c.Per <= 0 || c.Per > CapPerMax:
		return fmt.Errorf("frequency cap: per is %v, want more than 0 and at most %v", c.Per, CapPerMax)
	}
	return nil
}

// Next is the first time from t on at which the cap allows one more delivery. past are the times of
// earlier deliveries (the newest Count are enough) in any order, including those after t. A
// delivery counts until before Per has passed: with one per hour, 9:00 is followed by 10:00.
func (c Cap) Next(t time.Time, past []time.Time) time.Time {
	if c.Count < 1 || len(past) < c.Count {
		return t
	}
	sorted := sorting.Sorted(slices.Values(past), func(a, b time.Time) int { return b.Compare(a) })
	if free := sorted[c.Count-1].Add(c.Per); free.After(t) {
		return free
	}
	return t
}

// Cooldown is the time after a firing in which other firings of the same entity are suppressed:
// recorded and not delivered. 0 is no cooldown.
type Cooldown time.Duration

// Suppresses reports whether a firing at at is in the cooldown of the firing at last; a zero last
// is none. The end is outside.
func (c Cooldown) Suppresses(at, last time.Time) bool {
	return c > 0 && !last.IsZero() && at.Before(last.Add(time.Duration(c)))
}

// Rules restrict the times of a trigger's deliveries. The zero Rules allow any time.
type Rules struct {
	Quiet QuietHours
	Cap   Cap
}

// Next is the first time from t on at which one more delivery is allowed to an entity with past
// deliveries past. The caller must check at that time that the delivery is still pending.
func (r Rules) Next(t time.Time, past []time.Time) time.Time {
	// The cap still allows a later time, so the quiet hours apply last.
	return r.Quiet.Next(r.Cap.Next(t, past))
}
