package drivers

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/sebbroker/seb"
	"github.com/sebbroker/seb/bench/sut"
	"github.com/sebbroker/seb/record"
)

func openSebEmbedded(ctx context.Context, c sut.Config) (sut.System, error) {
	r := readOptions(&c)
	s := &sebEmbedded{c: c, queues: readQueueOptions(r)}
	o := seb.Options{
		Bucket: c.Address, BatchWait: r.Duration("batch-wait", 0), DataDir: r.Text("data-dir", ""),
		MemoryLimit: int64(r.Int("memory-limit", 0, 1<<20, math.MaxInt)),
	}
	if err := r.Done(); err != nil {
		return nil, err
	}
	if o.Bucket == "" {
		o.Bucket = "mem:"
	}
	s.options = o
	var err error
	s.broker, err = seb.Open(ctx, o)
	return s, err
}

// sebEmbedded is a broker in this process.
type sebEmbedded struct {
	c          sut.Config
	queues     sebQueueOptions
	options    seb.Options
	broker     *seb.Broker
	sharing    sharing
	publishers int
	made       bool
}

func (s *sebEmbedded) Setup(ctx context.Context) (sut.Info, error) {
	spec := seb.TopicSpec{Partitions: s.c.Partitions, Settings: sebTopicSettings(s.c.PayloadBytes)}
	if _, err := s.broker.CreateTopic(ctx, s.c.Name, spec); err != nil {
		return sut.Info{}, fmt.Errorf("create topic %s: %w", s.c.Name, err)
	}
	s.made = true
	settings := s.queues.settings()
	settings["bucket"], settings["batch wait"] = s.options.Bucket, "Seb's default for the bucket"
	if s.options.BatchWait != 0 {
		settings["batch wait"] = s.options.BatchWait.String()
	}
	sebModule := linkedVersion(sebModule)
	return sut.Info{
		System: "seb embedded", Version: sebModule, Client: sebModule, Durability: durabilityOf(s.options.Bucket), Settings: settings,
		Ack: "the object with the message is in the bucket",
	}, nil
}

func (s *sebEmbedded) Publisher(context.Context) (sut.Publisher, error) {
	o := s.queues
	o.isGap = func(err error) bool { return errors.Is(err, seb.ErrSequenceGap) }
	o.produceTo = func(ctx context.Context, partition int32, batches []byte) error {
		_, err := s.broker.ProduceBatches(ctx, s.c.Name, partition, batches)
		return err
	}
	s.publishers++
	return newSebPublisher(s.publishers-1, s.c.Partitions, o, func() {}), nil
}

func (s *sebEmbedded) Subscriber(ctx context.Context, shared bool) (sut.Subscriber, error) {
	t, err := s.broker.Topic(ctx, s.c.Name)
	if err != nil {
		return nil, fmt.Errorf("topic %s: %w", s.c.Name, err)
	}
	b := &sebSubscriber{close: func() {}, read: s.read}
	for i, p := range t.Partitions {
		b.parts = append(b.parts, sebPart{int32(i), p.Next})
	}
	return b, b.join(&s.sharing, &s.c, shared)
}

// read follows a partition until ctx or the broker ends.
func (s *sebEmbedded) read(ctx context.Context, p sebPart) iter.Seq2[*record.Record, error] {
	return func(yield func(*record.Record, error) bool) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		over := make(chan struct{})
		defer close(over)
		go func() {
			select {
			case <-s.broker.Done():
				cancel(s.broker.Err())
			case <-over:
			}
		}()
		for r, err := range s.broker.Records(ctx, s.c.Name, seb.ReadOptions{Partition: p.partition, Offset: p.from, Follow: true}) {
			if err != nil && ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// sebCloseWait bounds the end of a broker whose store does not answer.
const sebCloseWait = 10 * time.Second

func (s *sebEmbedded) Teardown(ctx context.Context) error {
	var err error
	if s.made && s.broker.Err() == nil {
		if err = s.broker.DeleteTopic(ctx, s.c.Name); errors.Is(err, seb.ErrUnknownTopic) {
			err = nil
		}
	}
	s.made = false
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), sebCloseWait)
	defer cancel()
	return errors.Join(err, s.broker.Close(within))
}
