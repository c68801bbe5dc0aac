// Package nats measures NATS: core and JetStream, with the client nats.go.
package nats

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sebbroker/seb/bench/sut"
)

func init() {
	sut.Register(sut.Driver{
		Name: "nats", Open: openCore,
		Doc: "NATS core, nats://127.0.0.1:4222. Options: ack=none|pong (none: done when the client has buffered the message; pong: when the" +
			"server has answered a PING sent after it)",
	})
	sut.Register(sut.Driver{
		Name: "nats-jetstream", Open: openStream,
		Doc: "NATS JetStream, nats://127.0.0.1:4222. Options: storage=file|memory, keep-bytes=4294967296 (a stream is cut to that), " +
			"monitor (http address of the server's monitoring, which tells when it flushes), durability (where it does not)",
	})
}

const (
	flushWait     = 10 * time.Second
	pendingBytes  = 1 << 30 // buffer of a subscriber before the client drops messages
	pendingCounts = 1 << 24
)

// base is common to both drivers.
type base struct {
	c    sut.Config
	main *nats.Conn

	mu   sync.Mutex // guards open
	open []*nats.Conn
}

// connect opens a connection that does not reconnect.
func (s *base) connect(options ...nats.Option) (*nats.Conn, error) {
	address := s.c.Address
	if address == "" {
		address = nats.DefaultURL
	}
	c, err := nats.Connect(address, append([]nats.Option{
		nats.NoReconnect(), nats.Name("seb-bench"), nats.Timeout(flushWait),
		// Without a handler the client prints errors.
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	}, options...)...)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = append(s.open, c)
	return c, nil
}

func (s *base) closeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.open {
		c.Close()
	}
}

// setup connects, checks the size of payloads, and fills in the known information.
func (s *base) setup(info *sut.Info) error {
	var err error
	if s.main, err = s.connect(); err != nil {
		return err
	}
	if limit := s.main.MaxPayload(); int64(s.c.PayloadBytes) > limit {
		return fmt.Errorf("payloads of %d bytes: the server's max_payload is %d", s.c.PayloadBytes, limit)
	}
	info.Version, info.Client, info.PID = s.main.ConnectedServerVersion(), sut.LinkedVersion("github.com/nats-io/nats.go"), s.c.PID
	info.Settings["max_payload"] = fmt.Sprint(s.main.MaxPayload())
	return nil
}

func openCore(_ context.Context, c sut.Config) (sut.System, error) {
	r := sut.ReadOptions(&c)
	s := &core{base: base{c: c}, ack: r.OneOf("ack", "none", "pong")}
	return s, r.Done()
}

// core is NATS without JetStream.
type core struct {
	base
	ack string
}

// Setup implements sut.System.
func (s *core) Setup(context.Context) (sut.Info, error) {
	info := sut.Info{
		System: "nats", Durability: sut.None, Settings: map[string]string{"ack": s.ack},
		Ack: "none: the client has buffered the message",
	}
	if s.ack == "pong" {
		info.Ack = "the server has read the message: it has answered a PING sent after it"
	}
	return info, s.setup(&info)
}

// Publisher implements sut.System.
func (s *core) Publisher(ctx context.Context) (sut.Publisher, error) {
	c, err := s.connect()
	if err != nil {
		return nil, err
	}
	p := &corePublisher{c: c, subject: s.c.Name}
	if s.ack == "pong" {
		p.asked = sut.NewOutbox(pendingBytes)
		ctx := context.WithoutCancel(ctx)
		p.loop.Go(func() { p.ask(ctx) })
	}
	return p, nil
}

// corePublisher publishes to a subject.
type corePublisher struct {
	c       *nats.Conn
	subject string
	asked   *sut.Outbox // messages that wait for a PONG; nil: none do
	loop    sync.WaitGroup
}

// Publish implements sut.Publisher.
func (p *corePublisher) Publish(ctx context.Context, _, payload []byte, done func(error)) {
	err := p.c.Publish(p.subject, payload) // it copies the payload
	if err != nil || p.asked == nil {
		done(err)
		return
	}
	p.asked.Put(ctx, sut.Queued{Payload: payload, Done: done})
}

// ask sends one PING for all messages published before it.
func (p *corePublisher) ask(ctx context.Context) {
	for {
		list, err := p.asked.Take(pendingCounts, pendingBytes)
		if err != nil {
			return
		}
		within, cancel := context.WithTimeout(ctx, flushWait)
		sut.DoneAll(list, p.c.FlushWithContext(within))
		cancel()
	}
}

// Close implements sut.Publisher.
func (p *corePublisher) Close(ctx context.Context) error {
	defer p.c.Close()
	if p.asked == nil {
		within, cancel := context.WithTimeout(ctx, flushWait)
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

// Subscriber implements sut.System.
func (s *core) Subscriber(ctx context.Context, shared bool) (sut.Subscriber, error) {
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
	if err := sub.SetPendingLimits(pendingCounts, pendingBytes); err != nil {
		return nil, err
	}
	within, cancel := context.WithTimeout(ctx, flushWait)
	defer cancel()
	if err := c.FlushWithContext(within); err != nil { // the server has subscribed it
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	return &coreSubscriber{c, sub}, nil
}

type coreSubscriber struct {
	c   *nats.Conn
	sub *nats.Subscription
}

// Receive implements sut.Subscriber.
func (b *coreSubscriber) Receive(ctx context.Context, f func([]byte)) error {
	for {
		m, err := b.sub.NextMsgWithContext(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return errors.Join(err, b.c.LastError())
		}
		f(m.Data)
	}
}

// Close implements sut.Subscriber.
func (b *coreSubscriber) Close() error {
	b.c.Close()
	return nil
}

// Teardown implements sut.System.
func (s *core) Teardown(context.Context) error {
	s.closeAll()
	return nil
}
