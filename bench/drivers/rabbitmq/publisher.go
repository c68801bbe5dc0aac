package rabbitmq

import (
	"context"
	"errors"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sebbroker/seb/bench/sut"
)

var (
	errNack   = errors.New("broker refused the message (basic.nack)")
	errClosed = errors.New("publisher is closed")
)

// Publisher implements sut.System.
func (s *system) Publisher(context.Context) (sut.Publisher, error) {
	c, ch, err := s.connect()
	if err != nil {
		return nil, err
	}
	if err := ch.Confirm(false); err != nil {
		return nil, err
	}
	p := &publisher{c: c, ch: ch, exchange: s.c.Name, mode: s.v.mode, waits: map[uint64]func(error){}}
	confirms := ch.NotifyPublish(make(chan amqp.Confirmation, confirmsBuffer))
	p.loop.Go(func() { p.confirm(confirms) })
	return p, nil
}

// publisher publishes, and matches confirms with messages by their delivery tags.
type publisher struct {
	c        *amqp.Connection
	ch       *amqp.Channel
	exchange string
	mode     uint8
	loop     sync.WaitGroup

	mu    sync.Mutex // guards the fields below
	waits map[uint64]func(error)
	ended error         // nil: running
	empty chan struct{} // closed after the last awaited message; nil: not waiting
}

// confirm settles messages until the channel ends, and then the rest.
func (p *publisher) confirm(confirms <-chan amqp.Confirmation) {
	for c := range confirms {
		var err error
		if !c.Ack {
			err = errNack
		}
		p.settle(c.DeliveryTag, err)
	}
	p.fail(amqp.ErrClosed)
}

// Publish implements sut.Publisher.
func (p *publisher) Publish(ctx context.Context, _, payload []byte, done func(error)) {
	tag := p.ch.GetNextPublishSeqNo()
	p.mu.Lock()
	if err := p.ended; err != nil {
		p.mu.Unlock()
		done(err)
		return
	}
	p.waits[tag] = done
	p.mu.Unlock()
	err := p.ch.PublishWithContext(ctx, p.exchange, "", false, false, amqp.Publishing{Body: payload, DeliveryMode: p.mode})
	if err != nil {
		p.settle(tag, err)
	}
}

// settle reports the outcome of a message, once.
func (p *publisher) settle(tag uint64, err error) {
	p.mu.Lock()
	done := p.waits[tag]
	delete(p.waits, tag)
	if len(p.waits) == 0 && p.empty != nil {
		close(p.empty)
		p.empty = nil
	}
	p.mu.Unlock()
	if done != nil {
		done(err)
	}
}

// fail ends the publisher: no further message is confirmed.
func (p *publisher) fail(err error) {
	p.mu.Lock()
	if p.ended == nil {
		p.ended = err
	}
	tags := make([]uint64, 0, len(p.waits))
	for tag := range p.waits {
		tags = append(tags, tag)
	}
	p.mu.Unlock()
	for _, tag := range tags {
		p.settle(tag, err)
	}
}

// Close implements sut.Publisher.
func (p *publisher) Close(ctx context.Context) error {
	p.mu.Lock()
	empty := make(chan struct{})
	if len(p.waits) == 0 {
		close(empty)
	} else {
		p.empty = empty
	}
	p.mu.Unlock()
	var err error
	select {
	case <-empty:
		p.fail(errClosed)
	case <-ctx.Done():
		err = context.Cause(ctx)
		p.fail(err)
	}
	fault := p.c.CloseDeadline(time.Now().Add(dialWait))
	p.loop.Wait()
	if errors.Is(fault, amqp.ErrClosed) {
		fault = nil
	}
	return errors.Join(err, fault)
}
