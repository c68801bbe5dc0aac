package follow

import "time"

// Idle is how long a turn waits if only a change can give it work. It also bounds the delay of a
// retry after the clock was set back.
const Idle = time.Hour

// Backoff bounds the time between attempts: Min after the first failure, doubled with each failure,
// at most Max.
type Backoff struct{ Min, Max time.Duration }

// Retry is the time of the next attempt after failures. The zero value has no failures.
type Retry struct {
	Times int // failures in a row
	until time.Time
}

// Again records a failure at now and returns the wait before the next attempt.
func (r *Retry) Again(now time.Time, b Backoff) time.Duration {
	d := min(b.Min<<min(r.Times, 10), b.Max)
	r.Times++
	r.until = now.Add(d)
	return d
}

// Left is the remaining wait before the next attempt, 0 if it is due. A wait above b.Max means that
// the clock was set back since Again, so the attempt is due.
func (r *Retry) Left(now time.Time, b Backoff) time.Duration {
	if d := r.until.Sub(now); d > 0 && d <= b.Max {
		return d
	}
	return 0
}
