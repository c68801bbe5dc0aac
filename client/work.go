package client

import (
	"context"
	"errors"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/base/worker"
	"github.com/sebbroker/seb/record"
)

// LeasedMessage is a message of a queue that a worker has.
type LeasedMessage struct {
	ID         string
	Deliveries int       // leases of the message, this one included
	Sent       time.Time // when it was sent
	Key        []byte    // nil: none
	Value      []byte
	Headers    []record.Header
}

// WorkOptions configure Work. The zero value runs one function at a time, with the visibility of the queue.
type WorkOptions struct {
	// Concurrency is the number of functions that run at once, at most 10,000; 0: 1.
	Concurrency int
	// Visibility is the time after which another worker gets a message if this program dies: 1 s to 12 h; 0:
	// that of the queue when Work begins. More than that of the queue makes each extension wait for the store.
	Visibility time.Duration
	// NoExtend ends the context of a function shortly before Visibility is over, with ErrLeaseOver as cause.
	// Otherwise a lease is extended until its function returns.
	NoExtend bool
	// UntilEmpty lets Work return when no message is ready and all functions have returned. Messages that are
	// delayed, that wait for a retry, or that other workers have do not count.
	UntilEmpty bool
	// GracePeriod is the time that functions have after the end of Work's context. Then their contexts end
	// also. 0: no limit.
	GracePeriod time.Duration
	// OnError gets the errors that Work rides out: a broker that does not answer, a lease that is lost, a
	// panic. It may be called concurrently, and must not wait. nil: they are not told.
	OnError func(error)
}

// Causes (context.Cause) of the end of a function's context in Work.
var (
	// ErrLeaseLost: another worker may have the message, or it was purged.
	ErrLeaseLost = worker.ErrLost
	// ErrLeaseOver: the visibility is over, with NoExtend.
	ErrLeaseOver = worker.ErrLeaseOver
)

// RetryAfter returns an error by which a function of Work lets its message come again after d, at most 365
// days, instead of the backoff of the queue. It counts as a delivery, like each lease. err is the reason; it may
// be nil.
func RetryAfter(d time.Duration, err error) error { return worker.RetryAfter(d, err) }

// GiveUp returns an error by which a function of Work lets its message go to the dead-letter queue at once. Without
// such a queue the message comes again as after any other error. err is the reason; it may be nil.
func GiveUp(err error) error { return worker.GiveUp(err) }

// Work calls f for each message of a queue until ctx ends. A message is done when f has returned nil and that is
// durable at the broker. After an error of f, or a panic, it comes again after the backoff of the queue, until it goes
// to the dead-letter queue. The first 512 bytes of the error are the reason that is shown. A message may
// be given more than once, so f must be repeatable.
//
// Work leases as many messages as it can run, extends their leases while f runs, and settles in the background:
// the next message does not wait until the outcome of the one before is stored. If a lease is lost, the context
// of f ends with ErrLeaseLost, and what f returns does not count.
//
// After the end of ctx Work leases no more. The contexts of the functions that run do not end with it, but
// after GracePeriod. Work returns when they have returned and what they said is stored.
//
// Work waits for a broker that restarts, hands over, or has no room, for as long as it takes. It returns nil
// after a clean end, else an error that no repetition can change, such as ErrUnknownTopic, ErrNotAQueue,
// ErrForbidden, or why settlements are not stored. Messages without a stored settlement come again.
func (c *Client) Work(ctx context.Context, queue string, o WorkOptions, f func(ctx context.Context, m *LeasedMessage) error) error {
	return worker.Run(ctx, &workSource{c, queue, f}, worker.Options(o))
}

// workSource is a queue for package worker.
type workSource struct {
	c     *Client
	queue string
	f     func(ctx context.Context, m *LeasedMessage) error
}

func (s *workSource) Visibility(ctx context.Context) (time.Duration, error) {
	q, err := s.c.Queue(ctx, s.queue)
	if err != nil {
		return 0, err
	}
	return time.ParseDuration(q.Effective["visibility"])
}

// Lease implements worker.Source. It may be repeated: messages of an answer that is lost come again.
func (s *workSource) Lease(ctx context.Context, r worker.Request) ([]worker.Lease, error) {
	messages, err := s.c.Lease(ctx, s.queue, LeaseRequest{Max: r.Max, Wait: r.Wait.String(), Visibility: r.Visibility.String()})
	list := make([]worker.Lease, len(messages))
	for i := range messages {
		in := &messages[i]
		m, fault := leasedMessage(in)
		list[i] = worker.Lease{ID: in.ID, Receipt: in.Receipt, Run: func(ctx context.Context) error {
			if fault != nil {
				return fault
			}
			return s.f(ctx, m)
		}}
	}
	return list, err
}

// leasedMessage converts a message of an answer.
func leasedMessage(in *api.QueueMessage) (*LeasedMessage, error) {
	r, err := contentOf(&api.Record{Key: in.Key, KeyBase64: in.KeyBase64, Value: in.Value, ValueBase64: in.ValueBase64, Headers: in.Headers})
	return &LeasedMessage{ID: in.ID, Deliveries: in.Deliveries, Sent: in.Sent, Key: r.Key, Value: r.Value, Headers: r.Headers}, err
}

// Settle implements worker.Source. A settlement can be repeated: after the first one the receipt is stale.
func (s *workSource) Settle(ctx context.Context, list []worker.Settlement) ([]error, error) {
	in := make([]Settlement, len(list))
	for i, x := range list {
		in[i] = Settlement{Receipt: x.Receipt, Do: x.Do, Reason: x.Reason}
		if x.Delay != nil {
			in[i].Delay = x.Delay.String()
		}
	}
	out, err := s.c.Settle(ctx, s.queue, in...)
	if err != nil {
		return nil, err
	}
	results := make([]error, len(list))
	for i := range out {
		if r := &out[i]; r.Code != "" {
			results[i] = &Error{Status: api.Statuses[r.Code], Code: string(r.Code), Detail: r.Detail, Outcome: OutcomeRejected, NextOffset: -1, Start: -1, Committed: -1}
		}
	}
	return results, nil
}

// Judge implements worker.Source.
func (s *workSource) Judge(err error) worker.Judgement {
	switch {
	case errors.Is(err, ErrStaleReceipt), errors.Is(err, ErrUnknownReceipt), errors.Is(err, ErrUnknownMessage):
		return worker.Lost
	case errors.Is(err, ErrNoDeadLetterQueue):
		return worker.NoDeadLetter
	}
	var e *Error
	if !errors.As(err, &e) {
		return worker.Final
	}
	if e.repeatable(&request{idempotent: true}) || e.Status/100 == 5 || e.Status == 0 && !isUntrusted(e.Err) && !isContext(e.Err) {
		return worker.Again
	}
	return worker.Final
}
