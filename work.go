package seb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/base/worker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/queue"
	"github.com/sebbroker/seb/record"
)

// Message is a message to send to a queue.
type Message struct {
	Key      []byte // nil: none
	Value    []byte
	Headers  []record.Header
	Delay    time.Duration // time until a worker gets the message, at most 365 days
	Dedup    string        // messages with the same ID within the dedup-window of the queue are stored once
	Priority int           // 0 is served first
	Expire   time.Duration // age at which no worker gets the message any more; 0: the setting of the queue
}

// SentMessage is the result of a Message.
type SentMessage struct {
	ID        string
	Duplicate bool  // an earlier message with the same Dedup has this ID; nothing was stored
	Err       error // as of Produce, and ErrQueueFull
}

// SendMessages sends up to 10,000 messages to a queue, and returns when they are durable, with a result for
// each. Client().CreateQueue makes a queue. Errors: ErrUnknownTopic, ErrNotAQueue, ErrOverBudget.
func (b *Broker) SendMessages(ctx context.Context, name string, messages ...Message) ([]SentMessage, error) {
	if len(messages) > sendMax {
		return nil, &state.InvalidError{Field: "messages", Reason: fmt.Sprintf("%d, limit %d", len(messages), sendMax)}
	}
	list, size := make([]queue.Message, len(messages)), int64(0)
	for i := range messages {
		list[i] = queue.Message(messages[i])
		size += int64(len(list[i].Key) + len(list[i].Value))
		for _, h := range list[i].Headers {
			size += int64(len(h.Key) + len(h.Value))
		}
	}
	memory, err := b.n.Budget().Class(budget.Produce).Reserve(size)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOverBudget, err)
	}
	defer memory.Release()
	sent, err := b.n.Queues().Send(ctx, name, list)
	results := make([]SentMessage, len(sent))
	for i, s := range sent {
		if results[i] = (SentMessage{Duplicate: s.Duplicate, Err: s.Err}); s.Err == nil {
			results[i].ID = s.ID.String()
		}
	}
	return results, err
}

// sendMax bounds the messages of SendMessages.
const sendMax = 10_000

// Work calls f for each message of a queue until ctx ends, as client.Client.Work does, whose options and errors of
// f it takes, but without HTTP. It also returns when the broker was closed or fenced, with the reason of Err. A
// worker should end before Close: what f returned and was not stored then is lost, and the message comes again.
func (b *Broker) Work(ctx context.Context, name string, o client.WorkOptions, f func(ctx context.Context, m *client.LeasedMessage) error) error {
	err := worker.Run(ctx, &workSource{b, name, f}, worker.Options(o))
	if why := b.Err(); err != nil && why != nil {
		err = fmt.Errorf("%w: %w", why, err)
	}
	return err
}

// workSource is a queue for package worker.
type workSource struct {
	b     *Broker
	queue string
	f     func(ctx context.Context, m *client.LeasedMessage) error
}

func (s *workSource) Visibility(context.Context) (time.Duration, error) {
	info, err := s.b.n.Queues().Info(s.queue)
	return info.Effective.Visibility, err
}

func (s *workSource) Lease(ctx context.Context, r worker.Request) ([]worker.Lease, error) {
	if s.b.o.ReadOnly {
		return nil, ErrReadOnly
	}
	leases, err := s.b.n.Queues().Lease(ctx, queue.LeaseRequest{Queue: s.queue, Max: r.Max, Wait: r.Wait, Visibility: r.Visibility, By: access.RootID})
	if err != nil {
		return nil, err
	}
	defer leases.Release() // the messages are copies, and the functions that run bound them
	list := make([]worker.Lease, len(leases.List))
	for i := range leases.List {
		x := &leases.List[i]
		m := &client.LeasedMessage{ID: x.ID.String(), Deliveries: int(x.Deliveries), Sent: x.Sent, Key: x.Key, Value: x.Value, Headers: x.Headers}
		list[i] = worker.Lease{ID: m.ID, Receipt: x.Receipt, Run: func(ctx context.Context) error { return s.f(ctx, m) }}
	}
	return list, nil
}

// verdicts are the settlements of package worker.
var verdicts = map[string]queue.Do{worker.Done: queue.Finish, worker.Retry: queue.Retry, worker.Dead: queue.Kill, worker.Extend: queue.Extend}

func (s *workSource) Settle(ctx context.Context, list []worker.Settlement) ([]error, error) {
	in := make([]queue.Settlement, len(list))
	for i, x := range list {
		in[i] = queue.Settlement{Receipt: x.Receipt, Do: verdicts[x.Do], Delay: x.Delay, Reason: x.Reason}
	}
	return s.b.n.Queues().Settle(ctx, s.queue, access.RootID, in)
}

// Judge implements worker.Source.
func (s *workSource) Judge(err error) worker.Judgement {
	switch {
	case errors.Is(err, queue.ErrStale), errors.Is(err, queue.ErrReceipt), errors.Is(err, queue.ErrUnknownMessage):
		return worker.Lost
	case errors.Is(err, queue.ErrNoDeadLetter):
		return worker.NoDeadLetter
	case s.b.Err() != nil, errors.Is(err, ErrUnknownTopic), errors.Is(err, ErrNotAQueue), errors.Is(err, ErrReadOnly), errors.Is(err, ErrInvalid):
		return worker.Final
	}
	return worker.Again
}
