package follow

import "time"

// Idle is how long a turn waits that has nothing to wait for but a change. A clock that was set back delays no retry for longer.
const Idle = time.Hour

// Backoff bounds the time between attempts: Min after the first failure, doubled with each, Max at most.
type Backoff struct{ Min, Max time.Duration }

// Retry is when something that has failed is tried again. The zero value has not failed.
type Retry struct {
	Times int // failures in a row
	until time.Time
}

// Again notes a failure at a time, and returns how long the next attempt waits.
func (r *Retry) Again(now time.Time, b Backoff) time.Duration {
	d := min(b.Min<<min(r.Times, 10), b.Max)
	r.Times++
	r.until = now.Add(d)
	return d
}

// Left is how long the next attempt waits yet; 0: it is due. A wait above b.Max comes from a clock that was set back, and is over.
func (r *Retry) Left(now time.Time, b Backoff) time.Duration {
	if d := r.until.Sub(now); d > 0 && d <= b.Max {
		return d
	}
	return 0
}
