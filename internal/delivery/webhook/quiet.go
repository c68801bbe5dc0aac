package webhook

import (
	"errors"
	"fmt"
	"time"

	"github.com/sebbroker/seb/internal/delivery/template"
)

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
