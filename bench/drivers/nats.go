package drivers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

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
		p.asked = newOutbox(natsPendingBytes)
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
