package webhook

import (
	"errors"
	"fmt"
	"time"
)

const (
	// retryAfterMax bounds the delay that a receiver may request; it is the longest delay of the
	// schedule.
	retryAfterMax = 24 * time.Hour
	delaysMax     = 64
	delayMax      = 7 * 24 * time.Hour
)

// Backoff is the retry schedule of failed messages. It may be used concurrently.
type Backoff struct {
	// Delays are the delays before the attempts: Delays[0] before the first, Delays[n] after n
	// failures. After the last one the message is dead.
	Delays []time.Duration
	// Jitter is the largest random part, 0 to 1, that is added to a delay, so that messages that
	// fail together are not retried together.
	Jitter float64
}

// DefaultBackoff is the schedule that Standard Webhooks recommends: ten attempts in a little over
// three days.
func DefaultBackoff() Backoff {
	return Backoff{
		Delays: []time.Duration{
			0, 5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour,
			10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
		},
		Jitter: 0.2,
	}
}

// Validate reports all faults at once.
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

// Next returns the time of the next attempt after attempt number made (1 is the first) ended with o
// at now; random is from [0,1). again is false if the message was delivered, failed permanently, or
// has no attempts left; in the last two cases it is dead. Retry-After can extend the delay to up to
// 24 hours, but never shorten it.
//
// A Stopped attempt does not count: next is now.
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
