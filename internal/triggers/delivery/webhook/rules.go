package webhook

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sebbroker/seb/internal/engine/base/sorting"
	"github.com/sebbroker/seb/internal/triggers/delivery/template"
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

const day = 24 * time.Hour

// QuietHours is a part of the day in which nothing is sent: from From until before To by the clock
// of a time zone, across midnight if To is smaller. The clock decides when it is changed: skipped
// times do not occur, repeated times are quiet both times. The zero QuietHours forbids nothing. It
// may be used concurrently.
type QuietHours struct {
	from, to time.Duration // since midnight
	zone     *time.Location
}

// ParseQuietHours parses hours such as "22:00" and "07:30", and a zone name of the IANA database,
// such as "Europe/Berlin" or "UTC".
func ParseQuietHours(from, to, zone string) (QuietHours, error) {
	var q QuietHours
	var faults []error
	var err error
	if q.from, err = parseClock(from); err != nil {
		faults = append(faults, fmt.Errorf("quiet hours: from: %w", err))
	}
	if q.to, err = parseClock(to); err != nil {
		faults = append(faults, fmt.Errorf("quiet hours: to: %w", err))
	}
	if len(faults) == 0 && q.from == q.to {
		faults = append(faults, fmt.Errorf("quiet hours: from and to are both %s: no time would be left for deliveries", from))
	}
	if q.zone, err = template.Zone(zone); err != nil {
		faults = append(faults, fmt.Errorf("quiet hours: zone: %w", err))
	}
	if err := errors.Join(faults...); err != nil {
		return QuietHours{}, err
	}
	return q, nil
}

// parseClock parses hh:mm.
func parseClock(s string) (time.Duration, error) {
	at, err := time.Parse("15:04", s)
	if err != nil || len(s) != len("15:04") {
		return 0, fmt.Errorf("invalid time of day %.32q, want one such as 22:00", s)
	}
	return time.Duration(at.Hour())*time.Hour + time.Duration(at.Minute())*time.Minute, nil
}

// Next is the first time from t on that is not quiet, or t itself.
func (q QuietHours) Next(t time.Time) time.Time {
	if q.zone == nil {
		return t
	}
	local := t.In(q.zone)
	for {
		clock := timeOfDay(local)
		if !q.quiet(clock) {
			return local.In(t.Location())
		}
		// Within the current offset of the zone the clock runs evenly. At its end the clock jumps,
		// and the loop starts over.
		end := local.Add((q.to - clock + day) % day)
		_, jump := local.ZoneBounds()
		if jump.IsZero() || end.Before(jump) {
			return end.In(t.Location())
		}
		local = jump
	}
}

func (q QuietHours) quiet(clock time.Duration) bool {
	if q.from < q.to {
		return clock >= q.from && clock < q.to
	}
	return clock >= q.from || clock < q.to
}

// timeOfDay is the clock time, which differs from the time since midnight on days with a clock
// change.
func timeOfDay(t time.Time) time.Duration {
	return time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute + time.Duration(t.Second())*time.Second +
		time.Duration(t.Nanosecond())
}
