package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sebbroker/seb/bench/sut"
)

// Subscriber implements sut.System.
func (s *system) Subscriber(ctx context.Context, shared bool) (sut.Subscriber, error) {
	options := []kgo.Opt{
		kgo.FetchMaxWait(s.fetchWait), kgo.FetchMinBytes(1), kgo.DisableFetchSessions(),
		kgo.FetchMaxBytes(64 << 20), kgo.FetchMaxPartitionBytes(int32(max(1<<20, s.c.PayloadBytes+recordRoom))),
	}
	if shared {
		// All messages of the run are newer than the group, so it starts at the beginning.
		s.groups = 1
		options = append(options, kgo.ConsumerGroup(s.c.Name), kgo.ConsumeTopics(s.c.Name), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	} else {
		ends, err := kadm.NewClient(s.main).ListEndOffsets(ctx, s.c.Name)
		if err != nil {
			return nil, fmt.Errorf("ends of topic %s: %w", s.c.Name, err)
		}
		if err := ends.Error(); err != nil {
			return nil, fmt.Errorf("ends of topic %s: %w", s.c.Name, err)
		}
		from := map[string]map[int32]kgo.Offset{s.c.Name: {}}
		ends.Each(func(o kadm.ListedOffset) { from[o.Topic][o.Partition] = kgo.NewOffset().At(o.Offset) })
		options = append(options, kgo.ConsumePartitions(from))
	}
	c, err := s.client(options...)
	if err != nil {
		return nil, err
	}
	s.opened(c)
	return &subscriber{c, s.main}, nil
}

// subscriber uses the client's default retries, because a group cannot form without them.
type subscriber struct{ c, main *kgo.Client }

// pingEvery is the interval of checks for the broker while a subscriber gets nothing, because the
// client hides its absence.
const pingEvery = time.Second

// Receive implements sut.Subscriber.
func (b *subscriber) Receive(ctx context.Context, f func([]byte)) error {
	for {
		err := b.poll(ctx, f)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (b *subscriber) poll(ctx context.Context, f func([]byte)) error {
	within, cancel := context.WithTimeout(ctx, pingEvery)
	defer cancel()
	fetches := b.c.PollFetches(within)
	var fault error
	fetches.EachError(func(topic string, partition int32, err error) {
		if !errors.Is(err, context.DeadlineExceeded) {
			fault = fmt.Errorf("topic %s, partition %d: %w", topic, partition, err)
		}
	})
	fetches.EachRecord(func(r *kgo.Record) { f(r.Value) })
	if fault == nil && fetches.NumRecords() == 0 {
		return b.main.Ping(ctx)
	}
	return fault
}

// Close implements sut.Subscriber.
func (b *subscriber) Close() error {
	b.c.Close()
	return nil
}
