package queues

import (
	"context"
	"errors"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// redisClient uses a stream and a consumer group.
type redisClient struct {
	c  *Config
	db *redis.Client
}

const (
	redisGroup = "workers"
	redisField = "m"
)

func openRedis(ctx context.Context, c *Config) (Client, error) {
	db := redis.NewClient(&redis.Options{Addr: c.target("redis-streams").Address, PoolSize: c.Senders + c.Workers, ReadTimeout: -1, MaxRetries: -1})
	return &redisClient{c, db}, db.XGroupCreateMkStream(ctx, c.Name, redisGroup, "0").Err()
}

func (s *redisClient) Processes() []int { return nil }

func (s *redisClient) Close() error { return s.db.Close() }

func (s *redisClient) Sender(context.Context) (Sender, error) { return s, nil }

// Send implements Sender.
func (s *redisClient) Send(ctx context.Context, messages [][]byte) error {
	add := func(m []byte) *redis.XAddArgs { return &redis.XAddArgs{Stream: s.c.Name, Values: []any{redisField, m}} }
	if len(messages) == 1 {
		return s.db.XAdd(ctx, add(messages[0])).Err()
	}
	_, err := s.db.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, m := range messages {
			p.XAdd(ctx, add(m))
		}
		return nil
	})
	return err
}

func (s *redisClient) Work(ctx context.Context, l Listener) error {
	return each(ctx, s.c.Workers, func(ctx context.Context, worker int) error {
		args := &redis.XReadGroupArgs{Group: redisGroup, Consumer: strconv.Itoa(worker), Streams: []string{s.c.Name, ">"}, Count: int64(s.c.Batch), Block: waitMax}
		for ctx.Err() == nil {
			got, err := s.db.XReadGroup(ctx, args).Result()
			if errors.Is(err, redis.Nil) {
				continue
			}
			if err != nil {
				return err
			}
			var ids []string
			for i := range got[0].Messages {
				m := &got[0].Messages[i]
				text, _ := m.Values[redisField].(string)
				l.Begin([]byte(text), Now())
				ids = append(ids, m.ID)
			}
			own := context.WithoutCancel(ctx)
			if _, err := s.db.Pipelined(own, func(p redis.Pipeliner) error {
				p.XAck(own, s.c.Name, redisGroup, ids...)
				p.XDel(own, s.c.Name, ids...)
				return nil
			}); err != nil {
				return err
			}
			l.Settled(len(ids))
		}
		return nil
	})
}
