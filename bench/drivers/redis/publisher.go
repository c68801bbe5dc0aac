package redis

import (
	"context"
	"errors"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/sebbroker/seb/bench/sut"
)

// publisher sends its messages as one pipeline, and messages that arrive meanwhile as the next.
type publisher struct {
	c      *redis.Client
	box    *sut.Outbox
	cancel context.CancelCauseFunc
	loop   sync.WaitGroup
}

// newPublisher starts a publisher that converts messages to commands with add.
func (s *base) newPublisher(ctx context.Context, add func(ctx context.Context, p redis.Pipeliner, payload []byte)) (*publisher, error) {
	c, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	p := &publisher{c: c, box: sut.NewOutbox(queueBytes), cancel: cancel}
	p.loop.Go(func() {
		for {
			list, err := p.box.Take(s.pipeline, pipelineBytes)
			if err != nil {
				return
			}
			send(ctx, c, list, add)
		}
	})
	return p, nil
}

// send sends messages in one round trip and reports the outcome of each.
func send(ctx context.Context, c *redis.Client, list []sut.Queued, add func(context.Context, redis.Pipeliner, []byte)) {
	if err := context.Cause(ctx); err != nil {
		sut.DoneAll(list, err)
		return
	}
	pipe := c.Pipeline()
	for i := range list {
		add(ctx, pipe, list[i].Payload)
	}
	commands, err := pipe.Exec(ctx)
	for i := range list {
		if i < len(commands) {
			list[i].Done(commands[i].Err())
			continue
		}
		list[i].Done(errors.Join(errors.New("not sent"), err))
	}
}

// Publish implements sut.Publisher.
func (p *publisher) Publish(ctx context.Context, key, payload []byte, done func(error)) {
	p.box.Put(ctx, sut.Queued{Key: key, Payload: payload, Done: done})
}

// Close implements sut.Publisher.
func (p *publisher) Close(ctx context.Context) error {
	p.box.Close()
	stop := context.AfterFunc(ctx, func() {
		p.cancel(context.Cause(ctx))
		_ = p.c.Close() // ends a round trip in progress
		p.box.Fail(context.Cause(ctx))
	})
	p.loop.Wait()
	defer p.cancel(sut.ErrClosed)
	if !stop() {
		return context.Cause(ctx)
	}
	return p.c.Close()
}
