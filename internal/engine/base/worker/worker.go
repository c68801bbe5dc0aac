// Package worker runs a function for each message of a queue: it leases messages, keeps their leases while
// the function runs, and says in the background what became of them.
//
//	Source ──Lease──▶ function ──outcome──▶ Settle, in batches
//	                     └──still running──▶ Settle, extend
//
// A message is done only if the function returned nil. No more messages are leased than can run at once, so
// that a worker which stops has none to give back: each lease counts as a delivery.
package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sebbroker/seb/internal/engine/base/pause"
)

// Source is a queue. Its methods are called concurrently.
type Source interface {
	// Visibility returns the time that workers have for a message, as the queue sets it.
	Visibility(ctx context.Context) (time.Duration, error)
	// Lease gives up to r.Max messages, and waits for the first up to r.Wait.
	Lease(ctx context.Context, r Request) ([]Lease, error)
	// Settle returns a result for each settlement once it is durable. One that is repeated has the result
	// of Lost if the first attempt was stored.
	Settle(ctx context.Context, list []Settlement) ([]error, error)
	// Judge says what an error of the other methods means.
	Judge(err error) Judgement
}

// Judgement is what an error means for a worker.
type Judgement uint8

// The judgements.
const (
	Final        Judgement = iota // a repetition has the same result
	Again                         // a repetition may succeed
	Lost                          // the message was settled, or another worker may have it
	NoDeadLetter                  // the queue has no dead-letter queue
)

// Request asks for messages.
type Request struct {
	Max              int
	Wait, Visibility time.Duration
}

// Lease is a message that the worker has.
type Lease struct {
	ID, Receipt string
	Run         func(ctx context.Context) error // the function for this message
}

// What a settlement says.
const (
	Done   = "done"
	Retry  = "retry"
	Dead   = "dead"
	Extend = "extend"
)

// Settlement is what the worker says about a message.
type Settlement struct {
	Receipt string
	Do      string
	Delay   *time.Duration // Retry: nil is the backoff of the queue. Extend: always set
	Reason  string
}

// Bounds of requests.
const (
	leaseMax       = 1000
	settleMax      = 1000
	settleBytesMax = 256 << 10 // of reasons
	reasonMax      = 512
	delayMax       = 365 * 24 * time.Hour
	visibilityMin  = time.Second
	visibilityMax  = 12 * time.Hour
	concurrencyMax = 10_000
	leaseWait      = 20 * time.Second
	busyWait       = 250 * time.Millisecond // UntilEmpty, while functions run
	// callMax is added to the time for which a call may wait, so that a connection whose other end is gone
	// does not keep the worker.
	callMax = 2 * time.Minute
)

// unsettledMax bounds the messages whose functions have returned and whose outcome is not stored. The worker
// leases no more until there are fewer.
const unsettledMax = settleMax

// settlePause is the time until settlements that failed are repeated, besides the pauses of the source.
const settlePause = 500 * time.Millisecond

var retryDelay = pause.Growth{Min: 100 * time.Millisecond, Max: 5 * time.Second}

// Options configure Run.
type Options struct {
	Concurrency int           // functions that run at once, at most; 0: 1
	Visibility  time.Duration // of the leases; 0: that of the queue when Run begins
	NoExtend    bool          // the context of a function ends with its lease
	UntilEmpty  bool          // Run returns when the queue has no message that is ready
	GracePeriod time.Duration // for functions after the end of ctx; 0: no limit
	OnError     func(error)   // may be called concurrently; nil: errors are not told
}

func (o *Options) check() error {
	if o.Concurrency = cmp.Or(o.Concurrency, 1); o.OnError == nil {
		o.OnError = func(error) {}
	}
	var errs []error
	if o.Concurrency < 1 || o.Concurrency > concurrencyMax {
		errs = append(errs, fmt.Errorf("concurrency: %d is not between 1 and %d", o.Concurrency, concurrencyMax))
	}
	if o.Visibility != 0 && (o.Visibility < visibilityMin || o.Visibility > visibilityMax) {
		errs = append(errs, fmt.Errorf("visibility: %s is not between 1s and 12h", o.Visibility))
	}
	if o.GracePeriod < 0 {
		errs = append(errs, fmt.Errorf("grace period: %s is less than 0s", o.GracePeriod))
	}
	return errors.Join(errs...)
}

// Causes of the end of a function's context.
var (
	ErrLost      = errors.New("the lease of the message is lost: another worker may have it")
	ErrLeaseOver = errors.New("the lease of the message is over")
	errStopped   = errors.New("the worker stops")
)

// verdict is an error of a function that says more than that it failed.
type verdict struct {
	err   error // nil: no reason
	dead  bool
	delay time.Duration // not dead
}

func (v *verdict) Error() string {
	switch {
	case v.err != nil:
		return v.err.Error()
	case v.dead:
		return "dead"
	}
	return fmt.Sprintf("again after %s", v.delay)
}

func (v *verdict) Unwrap() error { return v.err }

// RetryAfter returns an error by which a function is tried again after d instead of the backoff.
func RetryAfter(d time.Duration, err error) error {
	return &verdict{err: err, delay: min(max(0, d), delayMax)}
}

// GiveUp returns an error by which a message goes to the dead-letter queue at once.
func GiveUp(err error) error { return &verdict{err: err, dead: true} }

// outcome returns the settlement after a function returned err, which stopped says it did because the worker
// stops.
func outcome(receipt string, err error, stopped bool) Settlement {
	s := Settlement{Receipt: receipt, Do: Done}
	if err == nil {
		return s
	}
	s.Do, s.Reason = Retry, reason(err)
	v, told := errors.AsType[*verdict](err)
	switch {
	case told && v.dead:
		s.Do = Dead
	case told:
		s.Delay = &v.delay
	case stopped:
		s.Delay = new(time.Duration)
	}
	return s
}

// reason returns the text of an error as the broker takes it.
func reason(err error) string {
	text := err.Error()
	if len(text) > 4*reasonMax {
		text = text[:4*reasonMax]
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	for len(text) > reasonMax {
		n := reasonMax
		for !utf8.RuneStart(text[n]) {
			n--
		}
		text = text[:n]
	}
	return text
}
