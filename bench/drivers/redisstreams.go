package drivers

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/sebbroker/seb/bench/sut"
)

// redisField is the field of a stream's entries.
const redisField = "p"

func openRedisStreams(_ context.Context, c sut.Config) (sut.System, error) {
	r := readOptions(&c)
	s := &redisStreams{redisBase: newRedisBase(r, c), keep: r.Int("keep-bytes", redisKeep, 1<<20, math.MaxInt)}
	if err := r.Done(); err != nil {
		return nil, err
	}
	s.entries = int64(max(s.keep/max(c.PayloadBytes, 1), redisEntriesMin))
	s.main = s.client()
	return s, nil
}

const (
	redisKeep       = 512 << 20
	redisEntriesMin = 100
)

// redisStreams is Redis streams, one per run.
type redisStreams struct {
	redisBase
	keep    int
	entries int64
	members int
	made    bool
}

func (s *redisStreams) Setup(ctx context.Context) (sut.Info, error) {
	info := sut.Info{
		System: "redis streams", Settings: map[string]string{
			"pipeline": strconv.Itoa(s.pipeline), "kept of the stream": fmt.Sprintf("about %d entries", s.entries),
		},
		Ack: "the message is in the stream; it comes with those of the whole round trip",
	}
	if err := s.describe(ctx, &info); err != nil {
		return info, err
	}
	info.Durability = redisDurability(info.Settings)
	if !s.c.Creates() {
		return info, nil
	}
	if err := s.main.XGroupCreateMkStream(ctx, s.c.Name, s.c.Name, "$").Err(); err != nil {
		return info, fmt.Errorf("create stream %s: %w", s.c.Name, err)
	}
	s.made = true
	return info, nil
}

func (s *redisStreams) Publisher(ctx context.Context) (sut.Publisher, error) {
	return s.newPublisher(ctx, func(ctx context.Context, p redis.Pipeliner, message []byte) {
		p.XAdd(ctx, &redis.XAddArgs{Stream: s.c.Name, MaxLen: s.entries, Approx: true, Values: []any{redisField, message}})
	})
}

func (s *redisStreams) Subscriber(ctx context.Context, shared bool) (sut.Subscriber, error) {
	c, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	b := &redisStream{s: s, c: c}
	if shared {
		b.consumer = fmt.Sprintf("consumer-%d", s.c.SubscriberNumber(s.members))
		s.members++
		return b, nil
	}
	info, err := c.XInfoStream(ctx, s.c.Name).Result()
	if err != nil {
		return nil, err
	}
	b.last = info.LastGeneratedID
	return b, nil
}

func (s *redisStreams) Teardown(ctx context.Context) error {
	defer s.closeAll()
	if !s.made {
		return nil
	}
	s.made = false
	return s.main.Del(ctx, s.c.Name).Err()
}

// redisStream reads a stream, alone or as a member of the group.
type redisStream struct {
	s        *redisStreams
	c        *redis.Client
	consumer string // "": alone
	last     string // ID of the last entry read
	seen     []string
}

// redisReadBytes bounds one request.
const redisReadBytes = 16 << 20

func (b *redisStream) Receive(ctx context.Context, f func([]byte)) error {
	defer context.AfterFunc(ctx, func() { _ = b.c.Close() })() // a wait ignores ctx
	count := int64(max(redisReadBytes/max(b.s.c.PayloadBytes, 1), 1))
	return receive(ctx, func() error {
		list, err := b.read(ctx, min(count, redisPipeline))
		if err != nil {
			return err
		}
		for _, from := range list {
			for _, m := range from.Messages {
				text, ok := m.Values[redisField].(string)
				if !ok {
					return fmt.Errorf("entry %s of stream %s has no field %q", m.ID, b.s.c.Name, redisField)
				}
				f([]byte(text))
				b.last = m.ID
				b.seen = append(b.seen, m.ID)
			}
		}
		return nil
	})
}

// read waits for entries. In a group it acknowledges the previous ones in the same round trip.
func (b *redisStream) read(ctx context.Context, count int64) ([]redis.XStream, error) {
	name := b.s.c.Name
	if b.consumer == "" {
		b.seen = b.seen[:0]
		return b.c.XRead(ctx, &redis.XReadArgs{Streams: []string{name, b.last}, Count: count, Block: 0}).Result()
	}
	pipe := b.c.Pipeline()
	if len(b.seen) > 0 {
		pipe.XAck(ctx, name, name, slices.Clone(b.seen)...)
		b.seen = b.seen[:0]
	}
	got := pipe.XReadGroup(ctx, &redis.XReadGroupArgs{Group: name, Consumer: b.consumer, Streams: []string{name, ">"}, Count: count, Block: 0})
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, err
	}
	return got.Result()
}

func (b *redisStream) Close() error {
	_ = b.c.Close() // Receive may have done so
	return nil
}
