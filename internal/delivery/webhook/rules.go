package webhook

import (
	"fmt"
	"slices"
	"time"
)

// The most that a Cap may count, since the engine keeps so many instants of an entity, and over how long.
const (
	CapCountMax = 1000
	CapPerMax   = 366 * day
)

// Cap is a frequency cap: at most Count deliveries to an entity within any span of Per. The zero Cap forbids nothing.
type Cap struct {
	Count int
	Per   time.Duration
}

// Validate names what is wrong.
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

// Next is the first instant from t on at which one more delivery is within the cap; past are the instants of earlier ones
// (the newest Count of them are enough), in any order, and those after t count too. A delivery counts until before Per has
// gone by: with one an hour, 9:00 is followed by 10:00.
func (c Cap) Next(t time.Time, past []time.Time) time.Time {
	if c.Count < 1 || len(past) < c.Count {
		return t
	}
	sorted := slices.SortedFunc(slices.Values(past), func(a, b time.Time) int { return b.Compare(a) })
	if free := sorted[c.Count-1].Add(c.Per); free.After(t) {
		return free
	}
	return t
}

// Cooldown is how long after a firing another of the same entity is suppressed: recorded, and not delivered. 0 is no
// cooldown.
type Cooldown time.Duration

// Suppresses says whether a firing at at falls into the cooldown of the one at last; the zero last is none. The end is outside.
func (c Cooldown) Suppresses(at, last time.Time) bool {
	return c > 0 && !last.IsZero() && at.Before(last.Add(time.Duration(c)))
}

// Rules are when a trigger's messages may be delivered. The zero Rules allow any time.
type Rules struct {
	Quiet QuietHours
	Cap   Cap
}

// Next is the first instant from t on at which one more delivery to an entity is allowed that had those of past. Whether
// there is still a reason to deliver is looked at then.
func (r Rules) Next(t time.Time, past []time.Time) time.Time {
	// What the cap allows stays allowed from then on, so the quiet hours have the last word.
	return r.Quiet.Next(r.Cap.Next(t, past))
}
