package drivers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sebbroker/seb/bench/sut"
)

const (
	jetStreamKeep = 4 << 30
	// jetStreamInFlight bounds the unacknowledged messages of a publisher; Publish waits beyond it.
	jetStreamInFlight  = 1 << 16
	jetStreamStallWait = 30 * time.Second
	jetStreamPullBytes = 16 << 20
	jetStreamPullMax   = 500
	jetStreamAckWait   = time.Minute
	unknown            = "unknown"

	// jetStreamInactive is how long a server keeps a silent consumer. The default of 5 seconds may be too
	// short for a server that flushes each message and has fallen behind.
	jetStreamInactive = time.Hour
)

func openJetStream(_ context.Context, c sut.Config) (sut.System, error) {
	r := readOptions(&c)
	s := &jetStream{
		natsBase: natsBase{c: c}, storage: r.OneOf("storage", "file", "memory"), keep: r.Int("keep-bytes", jetStreamKeep, 1<<20, math.MaxInt),
		monitor:    r.Text("monitor", ""),
		durability: sut.Durability(r.OneOf("durability", "", string(sut.PageCache), string(sut.FsyncInterval), string(sut.Fsync))),
	}
	return s, r.Done()
}

// jetStream is JetStream with a stream per run.
type jetStream struct {
	natsBase
	storage, monitor string
	durability       sut.Durability
	keep             int
	js               jetstream.JetStream
	made             jetstream.Stream
	group            jetstream.Consumer // of shared subscribers
}

func (s *jetStream) Setup(ctx context.Context) (sut.Info, error) {
	info := sut.Info{
		System: "nats jetstream", Settings: map[string]string{"storage": s.storage, "replicas": "1", "keep bytes": fmt.Sprint(s.keep)},
		Ack: "the stream has the message, in memory",
	}
	if err := s.setup(&info); err != nil {
		return info, err
	}
	var err error
	if s.js, err = jetstream.New(s.main); err != nil {
		return info, err
	}
	config := jetstream.StreamConfig{
		Name: s.c.Name, Subjects: []string{s.c.Name}, MaxBytes: int64(s.keep), Storage: jetstream.MemoryStorage, Replicas: 1,
		Discard: jetstream.DiscardOld,
	}
	info.Durability = sut.Memory
	if s.storage == "file" {
		config.Storage = jetstream.FileStorage
		info.Ack = "the stream has the message, in a file: flushed as sync_interval says"
		info.Settings["sync_interval"] = s.syncInterval(ctx)
		info.Durability = s.durable(info.Settings["sync_interval"])
	}
	if !s.c.Creates() {
		return info, nil
	}
	if s.made, err = s.js.CreateStream(ctx, config); err != nil {
		return info, fmt.Errorf("create stream %s: %w", s.c.Name, err)
	}
	return info, nil
}

// syncInterval asks the server's monitoring when it flushes files.
func (s *jetStream) syncInterval(ctx context.Context) string {
	if s.monitor == "" {
		return unknown
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.monitor+"/varz", http.NoBody)
	if err != nil {
		return unknown + ": " + err.Error()
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return unknown + ": " + err.Error()
	}
	defer resp.Body.Close()
	var v struct {
		JetStream struct {
			Config struct {
				SyncInterval time.Duration `json:"sync_interval"`
				SyncAlways   bool          `json:"sync_always"`
			} `json:"config"`
		} `json:"jetstream"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&v); err != nil {
		return unknown + ": " + err.Error()
	}
	if v.JetStream.Config.SyncAlways {
		return "always"
	}
	return v.JetStream.Config.SyncInterval.String()
}

func (s *jetStream) durable(sync string) sut.Durability {
	switch {
	case s.durability != "":
		return s.durability
	case sync == "always":
		return sut.Fsync
	}
	return sut.FsyncInterval // the default is two minutes
}

func (s *jetStream) Publisher(context.Context) (sut.Publisher, error) {
	p := &jetStreamPublisher{subject: s.c.Name}
	c, err := s.connect(nats.ClosedHandler(func(c *nats.Conn) { p.fail(errors.Join(nats.ErrConnectionClosed, c.LastError())) }))
	if err != nil {
		return nil, err
	}
	p.c = c
	p.js, err = jetstream.New(c, jetstream.WithPublishAsyncMaxPending(jetStreamInFlight),
		jetstream.WithPublishAsyncAckHandler(func(_ jetstream.JetStream, m *nats.Msg, _ *jetstream.PubAck) { p.settle(m, nil) }),
		jetstream.WithPublishAsyncErrHandler(func(_ jetstream.JetStream, m *nats.Msg, err error) { p.settle(m, err) }))
	return p, err
}

// jetStreamPublisher publishes and gets a callback for each acknowledgement.
type jetStreamPublisher struct {
	c       *nats.Conn
	js      jetstream.JetStream
	subject string
	pending[*nats.Msg]
}

// Publish implements sut.Publisher. It does not retry a message that no stream accepts.
func (p *jetStreamPublisher) Publish(_ context.Context, _, payload []byte, done func(error)) {
	m := &nats.Msg{Subject: p.subject, Data: payload}
	if !p.add(m, done) {
		return
	}
	if _, err := p.js.PublishMsgAsync(m, jetstream.WithRetryAttempts(0), jetstream.WithStallWait(jetStreamStallWait)); err != nil {
		p.settle(m, err)
	}
}

func (p *jetStreamPublisher) Close(ctx context.Context) error {
	defer p.c.Close()
	return p.finish(ctx)
}

func (s *jetStream) Subscriber(ctx context.Context, shared bool) (sut.Subscriber, error) {
	c, err := s.connect()
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(c)
	if err != nil {
		return nil, err
	}
	config := jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverNewPolicy, AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, InactiveThreshold: jetStreamInactive,
	}
	if shared {
		config.AckPolicy, config.AckWait, config.Durable, config.MaxAckPending = jetstream.AckExplicitPolicy, jetStreamAckWait, s.c.Name, -1
	}
	consumer := s.group
	if !shared || consumer == nil {
		if consumer, err = js.CreateConsumer(ctx, s.c.Name, config); err != nil {
			return nil, fmt.Errorf("create consumer: %w", err)
		}
	}
	if shared {
		s.group = consumer
		// Over this connection.
		if consumer, err = js.Consumer(ctx, s.c.Name, s.c.Name); err != nil {
			return nil, err
		}
	}
	count := min(max(jetStreamPullBytes/max(s.c.PayloadBytes, 1), 1), jetStreamPullMax)
	messages, err := consumer.Messages(jetstream.PullMaxMessages(count))
	if err != nil {
		return nil, fmt.Errorf("pull: %w", err)
	}
	return &jetStreamSubscriber{c: c, messages: messages, ack: shared}, nil
}

// jetStreamSubscriber pulls from a consumer.
type jetStreamSubscriber struct {
	c        *nats.Conn
	messages jetstream.MessagesContext
	ack      bool
}

func (b *jetStreamSubscriber) Receive(ctx context.Context, f func([]byte)) error {
	return receive(ctx, func() error {
		m, err := b.messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return errors.Join(err, b.c.LastError())
		}
		f(m.Data())
		if b.ack {
			if err := m.Ack(); err != nil {
				return fmt.Errorf("acknowledge: %w", err)
			}
		}
		return nil
	})
}

func (b *jetStreamSubscriber) Close() error {
	b.messages.Stop()
	b.c.Close()
	return nil
}

func (s *jetStream) Teardown(ctx context.Context) error {
	defer s.closeAll()
	if s.made == nil {
		return nil
	}
	s.made = nil
	if err := s.js.DeleteStream(ctx, s.c.Name); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("delete stream %s: %w", s.c.Name, err)
	}
	return nil
}
