package queues

import (
	"context"
	"errors"
	"fmt"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"
)

// rabbit uses a quorum queue, with a connection for each producer and each worker.
type rabbit struct {
	c *Config

	mu   sync.Mutex // guards open
	open []*amqp.Connection
}

func openRabbit(_ context.Context, c *Config) (Client, error) {
	r := &rabbit{c: c}
	ch, err := r.channel()
	if err != nil {
		return r, err
	}
	_, err = ch.QueueDeclare(c.Name, true, false, false, false, amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeQuorum})
	return r, err
}

// channel opens a channel of a new connection.
func (r *rabbit) channel() (*amqp.Channel, error) {
	c, err := amqp.Dial(r.c.target("rabbitmq-quorum").Address)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open = append(r.open, c)
	return c.Channel()
}

func (r *rabbit) Processes() []int { return nil }

func (r *rabbit) Close() error {
	var faults []error
	for _, c := range r.open {
		faults = append(faults, c.Close())
	}
	return errors.Join(faults...)
}

func (r *rabbit) Sender(context.Context) (Sender, error) {
	ch, err := r.channel()
	if err != nil {
		return nil, err
	}
	return &rabbitSender{r, ch}, ch.Confirm(false)
}

type rabbitSender struct {
	*rabbit
	ch *amqp.Channel
}

var errNack = errors.New("not confirmed")

func (s *rabbitSender) Send(ctx context.Context, messages [][]byte) error {
	waiting := make([]*amqp.DeferredConfirmation, len(messages))
	for i, m := range messages {
		var err error
		if waiting[i], err = s.ch.PublishWithDeferredConfirm("", s.c.Name, true, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: m}); err != nil {
			return err
		}
	}
	for _, w := range waiting {
		if ok, err := w.WaitContext(ctx); err != nil || !ok {
			return errors.Join(errNack, err)
		}
	}
	return nil
}

func (r *rabbit) Work(ctx context.Context, l Listener) error {
	return each(ctx, r.c.Workers, func(ctx context.Context, worker int) error {
		ch, err := r.channel()
		if err != nil {
			return err
		}
		if err := ch.Qos(r.c.Batch, 0, false); err != nil {
			return err
		}
		got, err := ch.ConsumeWithContext(ctx, r.c.Name, fmt.Sprint("worker-", worker), false, false, false, false, nil)
		if err != nil {
			return err
		}
		n := 0 // begun, and not acknowledged
		for {
			var m amqp.Delivery
			var ok bool
			select {
			case <-ctx.Done():
				return nil
			case m, ok = <-got:
			}
			if !ok {
				return amqp.ErrClosed
			}
			l.Begin(m.Body, Now())
			if n++; n < r.c.Batch && len(got) > 0 {
				continue
			}
			if err := m.Ack(true); err != nil {
				return err
			}
			l.Settled(n)
			n = 0
		}
	})
}
