package queues

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// natsClient uses a stream with the retention of a work queue, with a connection for each producer and each
// worker.
type natsClient struct {
	c      *Config
	double bool // a worker waits until its acknowledgements are confirmed

	mu   sync.Mutex // guards open
	open []*nats.Conn
}

const natsConsumer = "workers"

func openNATS(double bool) func(ctx context.Context, c *Config) (Client, error) {
	return func(ctx context.Context, c *Config) (Client, error) {
		s := &natsClient{c: c, double: double}
		_, js, err := s.connect()
		if err != nil {
			return s, err
		}
		_, err = js.CreateStream(ctx, jetstream.StreamConfig{
			Name: c.Name, Subjects: []string{c.Name}, Retention: jetstream.WorkQueuePolicy, Storage: jetstream.FileStorage, AllowAtomicPublish: c.Batch > 1,
		})
		if err != nil {
			return s, fmt.Errorf("create stream: %w", err)
		}
		_, err = js.CreateConsumer(ctx, c.Name, jetstream.ConsumerConfig{Durable: natsConsumer, AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: -1})
		return s, err
	}
}

func (s *natsClient) connect() (*nats.Conn, jetstream.JetStream, error) {
	c, err := nats.Connect(s.c.target("nats-jetstream").Address, nats.NoReconnect(), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		return nil, nil, err
	}
	s.mu.Lock()
	s.open = append(s.open, c)
	s.mu.Unlock()
	js, err := jetstream.New(c)
	return c, js, err
}

func (s *natsClient) Processes() []int { return nil }

func (s *natsClient) Close() error {
	for _, c := range s.open {
		c.Close()
	}
	return nil
}

func (s *natsClient) Sender(context.Context) (Sender, error) {
	c, js, err := s.connect()
	return &natsSender{s, c, js}, err
}

type natsSender struct {
	*natsClient
	conn *nats.Conn
	js   jetstream.JetStream
}

// Send sends several messages as an atomic batch: the last one commits it and is acknowledged.
func (s *natsSender) Send(ctx context.Context, messages [][]byte) error {
	if len(messages) == 1 {
		_, err := s.js.Publish(ctx, s.c.Name, messages[0])
		return err
	}
	id := rand.Text()
	for i, m := range messages {
		m := &nats.Msg{Subject: s.c.Name, Data: m, Header: nats.Header{"Nats-Batch-Id": {id}, "Nats-Batch-Sequence": {strconv.Itoa(i + 1)}}}
		if i < len(messages)-1 {
			if err := s.conn.PublishMsg(m); err != nil {
				return err
			}
			continue
		}
		m.Header["Nats-Batch-Commit"] = []string{"1"}
		if _, err := s.js.PublishMsg(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

func (s *natsClient) Work(ctx context.Context, l Listener) error {
	return each(ctx, s.c.Workers, func(ctx context.Context, _ int) error {
		_, js, err := s.connect()
		if err != nil {
			return err
		}
		consumer, err := js.Consumer(ctx, s.c.Name, natsConsumer)
		if err != nil {
			return err
		}
		for ctx.Err() == nil {
			if err := s.batch(ctx, consumer, l); err != nil {
				return err
			}
		}
		return nil
	})
}

// batch pulls messages, and acknowledges them.
func (s *natsClient) batch(ctx context.Context, consumer jetstream.Consumer, l Listener) error {
	own, cancel := context.WithTimeout(ctx, waitMax)
	defer cancel()
	got, err := consumer.Fetch(s.c.Batch, jetstream.FetchContext(own))
	if err != nil {
		return err
	}
	var list []jetstream.Msg
	for m := range got.Messages() {
		l.Begin(m.Data(), Now())
		if list = append(list, m); !s.double {
			if err := m.Ack(); err != nil {
				return err
			}
			l.Settled(1)
		}
	}
	if err := got.Error(); err != nil && !errors.Is(err, nats.ErrTimeout) && own.Err() == nil {
		return err
	}
	if s.double {
		return s.confirm(context.WithoutCancel(ctx), list, l)
	}
	return nil
}

// confirm acknowledges messages at the same time and waits for all answers.
func (s *natsClient) confirm(ctx context.Context, list []jetstream.Msg, l Listener) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	ended := make(chan error, len(list))
	for _, m := range list {
		go func() { ended <- m.DoubleAck(ctx) }()
	}
	var faults []error
	for range list {
		faults = append(faults, <-ended)
	}
	l.Settled(len(list))
	return errors.Join(faults...)
}
