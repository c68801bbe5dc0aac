package kafka

import (
	"context"
	"errors"
	"hash/fnv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sebbroker/seb/bench/sut"
)

// Publisher implements sut.System.
func (s *system) Publisher(ctx context.Context) (sut.Publisher, error) {
	options := []kgo.Opt{
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(s.linger), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerBatchMaxBytes(int32(s.batch)), kgo.MaxBufferedRecords(buffered), kgo.RequestRetries(0), kgo.RecordRetries(0), kgo.UnknownTopicRetries(0),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.BrokerMaxWriteBytes(int32(max(100<<20, 2*s.batch))),
	}
	if s.idempotent {
		// A message that a publisher gives up is reported as failed, although the broker may have
		// stored it.
		options = append(options, kgo.AllowIdempotentProduceCancellation())
	} else {
		options = append(options, kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(inFlight))
	}
	c, err := s.client(options...)
	if err != nil {
		return nil, err
	}
	s.opened(c)
	if err := s.begin(ctx, c); err != nil {
		return nil, err
	}
	s.publishers++
	within, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	p := &publisher{s: s, c: c, partition: int32(s.c.PublisherNumber(s.publishers-1) % s.c.Partitions), cancel: cancel}
	// Records are produced within a context that ends with the publisher and not with a call.
	p.produce = func(r *kgo.Record, done func(error)) {
		c.Produce(within, r, func(_ *kgo.Record, err error) { done(err) })
	}
	return p, nil
}

// begin connects and gets the producer id, which a broker may not provide immediately after its
// start.
func (s *system) begin(ctx context.Context, c *kgo.Client) error {
	if err := c.Ping(ctx); err != nil || !s.idempotent {
		return err
	}
	for {
		_, _, err := c.ProducerID(ctx)
		if !errors.Is(err, kerr.CoordinatorLoadInProgress) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(beginEvery):
		}
	}
}

const beginEvery = 20 * time.Millisecond

type publisher struct {
	s         *system
	c         *kgo.Client
	partition int32
	produce   func(r *kgo.Record, done func(error))
	cancel    context.CancelCauseFunc
}

// Publish implements sut.Publisher. Messages without a key go to one partition per publisher,
// others to that of the key's hash.
func (p *publisher) Publish(_ context.Context, key, payload []byte, done func(error)) {
	partition := p.partition
	if key != nil {
		h := fnv.New32a()
		_, _ = h.Write(key) // cannot fail
		partition = int32(h.Sum32() % uint32(p.s.c.Partitions))
	}
	p.produce(&kgo.Record{Topic: p.s.c.Name, Partition: partition, Key: key, Value: payload}, done)
}

// Close implements sut.Publisher.
func (p *publisher) Close(ctx context.Context) error {
	err := p.c.Flush(ctx)
	p.cancel(errors.Join(errors.New("publisher is closed"), err))
	p.c.Close() // the remaining ones fail
	return err
}
