package delivery

import (
	"net/http"
	"slices"
	"time"

	"github.com/sebbroker/seb/internal/triggers/delivery/webhook"
)

const (
	concurrencyFirst = 4  // messages of a trigger in flight before its receiver is known
	concurrencyMost  = 32 // unless the trigger sets it
	windowMin        = 8  // answers before the limit grows
	slowerFactor     = 4  // a p50 is slower if it is above the base by a quarter and slowerBy
	slowerBy         = 2 * time.Millisecond
	holdWindows      = 8 // windows after a decrease without a growth
)

// pace limits the messages of a trigger in flight to what its receiver answers without becoming
// slower. It measures the receiver in windows, in which the limit is constant:
//
//	window used all of the limit, its p50 is that of few messages   the limit grows by half
//	its p50 is above that                                           a quarter less
//	an error, or the answer 429                                     half
//
// Answers to messages from before the last change do not count.
type pace struct {
	limit  int
	round  int             // number of changes of limit
	took   []time.Duration // answers of this window
	used   bool            // all of the limit was used in this window
	base   time.Duration   // p50 with at most concurrencyFirst messages
	resume int             // windows until the limit may grow again
}

func newPace() pace { return pace{limit: concurrencyFirst} }

// started notes that a number of messages is in flight.
func (p *pace) started(inflight int) { p.used = p.used || inflight >= p.limit }

// ended notes the outcome of a message that was started in a round.
func (p *pace) ended(round int, o webhook.Outcome) {
	switch {
	case round != p.round:
	case o.Kind == webhook.Delivered:
		if p.took = append(p.took, o.Took); len(p.took) >= p.window() {
			slices.Sort(p.took)
			p.judge(p.took[len(p.took)/2])
		}
	case o.Kind == webhook.Retry && (o.Status == 0 || o.Status == http.StatusTooManyRequests || o.Status >= http.StatusInternalServerError):
		p.set(max(1, p.limit/2))
		p.resume = holdWindows
	}
}

// window is the number of answers of a window. After errors the first answers lead back to
// concurrencyFirst, so that a slow receiver that works again does not get one message at a time.
func (p *pace) window() int {
	if p.limit < concurrencyFirst {
		return p.limit
	}
	return max(windowMin, p.limit)
}

// judge ends a window.
func (p *pace) judge(p50 time.Duration) {
	if p.limit <= concurrencyFirst {
		p.base = p50
	}
	switch {
	case p50 > p.base+p.base/slowerFactor+slowerBy:
		p.set(p.limit - p.limit/4)
		p.resume = holdWindows
	case p.used && (p.limit < concurrencyFirst || p.resume == 0 && p.limit < concurrencyMost):
		p.set(min(concurrencyMost, p.limit+max(1, p.limit/2)))
	default:
		p.resume = max(0, p.resume-1)
		p.set(p.limit)
	}
}

// set begins a window with a limit.
func (p *pace) set(limit int) {
	if limit != p.limit {
		p.round++
	}
	p.limit, p.took, p.used = limit, p.took[:0], false
}
