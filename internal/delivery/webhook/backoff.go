package webhook

import (
	"errors"
	"fmt"
	"time"
)

const (
	// retryAfterMax is how far a receiver may push an attempt away: as far as the schedule itself goes.
	retryAfterMax = 24 * time.Hour
	delaysMax     = 64
	delayMax      = 7 * 24 * time.Hour
)

// Backoff says when a message that has failed is tried again. It may be used concurrently.
type Backoff struct {
	// Delays are the waits before the attempts: Delays[0] before the first, Delays[n] after n failures. When there are none
	// left the message is dead.
	Delays []time.Duration
	// Jitter is the largest part of a delay, 0 to 1, that chance adds to it, so that what has failed together does not come
	// back together.
	Jitter float64
}

// DefaultBackoff is the schedule that Standard Webhooks recommends: ten attempts in a little more than three days.
func DefaultBackoff() Backoff {
	return Backoff{
		Delays: []time.Duration{
			0, 5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour,
			10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
		},
		Jitter: 0.2,
	}
}

// Validate names every fault.
func (b Backoff) Validate() error {
	var faults []error
	if n := len(b.Delays); n < 1 || n > delaysMax {
		faults = append(faults, fmt.Errorf("backoff: %d delays, want 1 to %d", n, delaysMax))
	}
	for i, d := range b.Delays {
		if d < 0 || d > delayMax {
			faults = append(faults, fmt.Errorf("backoff: delay %d is %v, want 0 to %v", i+1, d, delayMax))
		}
	}
	if !(b.Jitter >= 0 && b.Jitter <= 1) {
		faults = append(faults, fmt.Errorf("backoff: jitter is %v, want 0 to 1", b.Jitter))
	}
	return errors.Join(faults...)
}

// Next says when a message is sent again after its attempt number made (1 is the first) has come to o at now; random is
// from [0,1). again is false if it was delivered, has failed for good, or was tried as often as it may be: of the last two
// it is dead. A receiver's Retry-After can make the wait longer than the schedule's, up to 24 hours, and never shorter.
//
// After a Stopped attempt, which does not count, next is now.
func (b Backoff) Next(o Outcome, made int, now time.Time, random float64) (next time.Time, again bool) {
	switch o.Kind {
	case Stopped:
		return now, true
	case Retry:
	default:
		return time.Time{}, false
	}
	if made < 0 || made >= len(b.Delays) {
		return time.Time{}, false
	}
	wait := max(b.Delays[made], min(o.RetryAfter, retryAfterMax))
	return now.Add(wait + time.Duration(float64(wait)*b.Jitter*random)), true
}
