package redis

import (
	"context"
	"errors"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/sebbroker/seb/bench/sut"
)

var errNoSharing = errors.New("subscribers of Redis channels cannot share messages; streams can (redis-streams)")

func openPubSub(_ context.Context, c sut.Config) (sut.System, error) {
	r := sut.ReadOptions(&c)
	s := &pubSub{base: newBase(r, c)}
	if err := r.Done(); err != nil {
		return nil, err
	}
	s.main = s.client()
	return s, nil
}

// pubSub is Redis channels.
type pubSub struct{ base }

// Setup implements sut.System.
func (s *pubSub) Setup(ctx context.Context) (sut.Info, error) {
	info := sut.Info{
		System: "redis pub/sub", Durability: sut.None, Settings: map[string]string{"pipeline": strconv.Itoa(s.pipeline)},
		Ack: "the server has put the message into the output buffers of its subscribers; it comes with those of the whole round trip",
	}
	return info, s.describe(ctx, &info)
}

// Publisher implements sut.System.
func (s *pubSub) Publisher(ctx context.Context) (sut.Publisher, error) {
	return s.newPublisher(ctx, func(ctx context.Context, p redis.Pipeliner, payload []byte) { p.Publish(ctx, s.c.Name, payload) })
}

// Subscriber implements sut.System.
func (s *pubSub) Subscriber(ctx context.Context, shared bool) (sut.Subscriber, error) {
	if shared {
		return nil, errNoSharing
	}
	c := s.client()
	sub := c.Subscribe(ctx, s.c.Name)
	if _, err := sub.Receive(ctx); err != nil { // the first message confirms the subscription
		return nil, errors.Join(err, sub.Close())
	}
	return &channel{c, sub}, nil
}

// Teardown implements sut.System.
func (s *pubSub) Teardown(context.Context) error {
	s.closeAll()
	return nil
}

type channel struct {
	c   *redis.Client
	sub *redis.PubSub
}

// Receive implements sut.Subscriber. It returns the first error, because the client would subscribe
// again and hide lost messages.
func (b *channel) Receive(ctx context.Context, f func([]byte)) error {
	defer context.AfterFunc(ctx, func() { _ = b.sub.Close() })() // a read ignores ctx
	for {
		message, err := b.sub.ReceiveTimeout(ctx, 0)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if m, ok := message.(*redis.Message); ok {
			f([]byte(m.Payload))
		}
	}
}

// Close implements sut.Subscriber.
func (b *channel) Close() error {
	_ = b.sub.Close() // Receive may have done so
	return b.c.Close()
}
