package drivers

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sebbroker/seb/bench/sut"
)

// The client of NATS is nats.go.

const (
	natsWait          = 10 * time.Second
	natsPendingBytes  = 1 << 30 // buffer of a subscriber before the client drops messages
	natsPendingCounts = 1 << 24
)

// natsBase is common to both drivers.
type natsBase struct {
	c    sut.Config
	main *nats.Conn
	opened
}

// connect opens a connection that does not reconnect.
func (s *natsBase) connect(options ...nats.Option) (*nats.Conn, error) {
	c, err := nats.Connect(cmp.Or(s.c.Address, nats.DefaultURL), append([]nats.Option{
		nats.NoReconnect(), nats.Name("seb-bench"), nats.Timeout(natsWait),
		// Without a handler the client prints errors.
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	}, options...)...)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	s.add(noError(c.Close))
	return c, nil
}

// setup connects, checks the size of payloads, and fills in the known information.
func (s *natsBase) setup(info *sut.Info) error {
	var err error
	if s.main, err = s.connect(); err != nil {
		return err
	}
	if limit := s.main.MaxPayload(); int64(s.c.PayloadBytes) > limit {
		return fmt.Errorf("payloads of %d bytes: the server's max_payload is %d", s.c.PayloadBytes, limit)
	}
	info.Version, info.Client, info.PID = s.main.ConnectedServerVersion(), linkedVersion("github.com/nats-io/nats.go"), s.c.PID
	info.Settings["max_payload"] = fmt.Sprint(s.main.MaxPayload())
	return nil
}

func openNATS(_ context.Context, c sut.Config) (sut.System, error) {
	r := readOptions(&c)
	s := &natsCore{natsBase: natsBase{c: c}, ack: r.OneOf("ack", "none", "pong")}
	return s, r.Done()
}

// natsCore is NATS without JetStream.
type natsCore struct {
	natsBase
	ack string
}

func (s *natsCore) Setup(context.Context) (sut.Info, error) {
	info := sut.Info{
		System: "nats", Durability: sut.None, Settings: map[string]string{"ack": s.ack},
		Ack: "none: the client has buffered the message",
	}
	if s.ack == "pong" {
		info.Ack = "the server has read the message: it has answered a PING sent after it"
	}
	return info, s.setup(&info)
}

func (s *natsCore) Publisher(ctx context.Context) (sut.Publisher, error) {
	c, err := s.connect()
	if err != nil {
		return nil, err
	}
	p := &natsCorePublisher{c: c, subject: s.c.Name}
	if s.ack == "pong" {
		p.asked = newOutbox(natsPendingBytes, 0)
		ctx := context.WithoutCancel(ctx)
		p.loop.Go(func() { p.ask(ctx) })
	}
	return p, nil
}

// natsCorePublisher publishes to a subject.
type natsCorePublisher struct {
	c       *nats.Conn
	subject string
	asked   *outbox // messages that wait for a PONG; nil: none do
	loop    sync.WaitGroup
}

func (p *natsCorePublisher) Publish(ctx context.Context, _, payload []byte, done func(error)) {
	err := p.c.Publish(p.subject, payload) // it copies the payload
	if err != nil || p.asked == nil {
		done(err)
		return
	}
	p.asked.Put(ctx, queued{Payload: payload, Done: done})
}

// ask sends one PING for all messages published before it.
func (p *natsCorePublisher) ask(ctx context.Context) {
	for {
		list, err := p.asked.Take(natsPendingCounts, natsPendingBytes)
		if err != nil {
			return
		}
		within, cancel := context.WithTimeout(ctx, natsWait)
		doneAll(list, p.c.FlushWithContext(within))
		cancel()
	}
}

func (p *natsCorePublisher) Close(ctx context.Context) error {
	defer p.c.Close()
	if p.asked == nil {
		within, cancel := context.WithTimeout(ctx, natsWait)
		defer cancel()
		return p.c.FlushWithContext(within)
	}
	p.asked.Close()
	stop := context.AfterFunc(ctx, func() {
		p.c.Close() // ends a flush in progress
		p.asked.Fail(context.Cause(ctx))
	})
	defer stop()
	p.loop.Wait()
	return context.Cause(ctx)
}

func (s *natsCore) Subscriber(ctx context.Context, shared bool) (sut.Subscriber, error) {
	c, err := s.connect()
	if err != nil {
		return nil, err
	}
	var sub *nats.Subscription
	if shared {
		sub, err = c.QueueSubscribeSync(s.c.Name, s.c.Name)
	} else {
		sub, err = c.SubscribeSync(s.c.Name)
	}
	if err != nil {
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	if err := sub.SetPendingLimits(natsPendingCounts, natsPendingBytes); err != nil {
		return nil, err
	}
	within, cancel := context.WithTimeout(ctx, natsWait)
	defer cancel()
	if err := c.FlushWithContext(within); err != nil { // the server has subscribed it
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	return &natsCoreSubscriber{c, sub}, nil
}

type natsCoreSubscriber struct {
	c   *nats.Conn
	sub *nats.Subscription
}

func (b *natsCoreSubscriber) Receive(ctx context.Context, f func([]byte)) error {
	return receive(ctx, func() error {
		m, err := b.sub.NextMsgWithContext(ctx)
		if err != nil {
			return errors.Join(err, b.c.LastError())
		}
		f(m.Data)
		return nil
	})
}

func (b *natsCoreSubscriber) Close() error {
	b.c.Close()
	return nil
}

func (s *natsCore) Teardown(context.Context) error {
	return s.closeAll()
}

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
		Discard: jetstream.DiscardOld, AllowAtomicPublish: s.c.Batch > 1,
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
	p := &jetStreamPublisher{subject: s.c.Name, batch: s.c.Batch}
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

	batch int           // messages of an atomic batch; up to 1: each message alone
	id    string        // of the batch that is begun
	begun []func(error) // done of its messages
}

// Publish implements sut.Publisher. It does not retry a message that no stream accepts.
func (p *jetStreamPublisher) Publish(_ context.Context, _, payload []byte, done func(error)) {
	m := &nats.Msg{Subject: p.subject, Data: payload}
	if p.batch > 1 {
		if done = p.together(m, done); done == nil {
			return
		}
	}
	if !p.add(m, done) {
		return
	}
	if _, err := p.js.PublishMsgAsync(m, jetstream.WithRetryAttempts(0), jetstream.WithStallWait(jetStreamStallWait)); err != nil {
		p.settle(m, err)
	}
}

// together adds a message to the atomic batch. It returns nil if the batch is not complete. The last
// message commits the batch and gets the acknowledgement of all, for which it returns the function.
func (p *jetStreamPublisher) together(m *nats.Msg, done func(error)) func(error) {
	if len(p.begun) == 0 {
		p.id = rand.Text()
	}
	p.begun = append(p.begun, done)
	m.Header = nats.Header{"Nats-Batch-Id": {p.id}, "Nats-Batch-Sequence": {strconv.Itoa(len(p.begun))}}
	if len(p.begun) == p.batch {
		m.Header["Nats-Batch-Commit"] = []string{"1"}
		return p.takeBegun()
	}
	if err := p.c.PublishMsg(m); err != nil { // it copies the payload
		p.takeBegun()(err)
	}
	return nil
}

// takeBegun ends the batch that is begun, and returns the function that reports its outcome.
func (p *jetStreamPublisher) takeBegun() func(error) {
	list := p.begun
	p.begun = nil
	return func(err error) {
		for _, done := range list {
			done(err)
		}
	}
}

func (p *jetStreamPublisher) Close(ctx context.Context) error {
	defer p.c.Close()
	p.takeBegun()(errClosed)
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
