package drivers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sebbroker/seb/bench/sut"
)

// The client of RabbitMQ is amqp091-go.

const (
	rabbitAddress     = "amqp://guest:guest@127.0.0.1:5672/"
	rabbitPrefetch    = 1000
	rabbitPrefetchMax = 2000 // the limit of quorum queues
	rabbitConfirms    = 1024
	rabbitWait        = 10 * time.Second
)

// rabbitVariant is the difference between the two drivers.
type rabbitVariant struct {
	system, ack string
	durability  sut.Durability
	consume     []string // the first is the default
	mode        uint8
	durable     bool
	arguments   amqp.Table
}

var rabbitClassic = rabbitVariant{
	system: "rabbitmq classic", durability: sut.Memory, consume: []string{"auto", "manual"}, mode: amqp.Transient,
	ack: "the queue of each subscriber has the message, in memory; without any subscriber it is discarded",
	// Newer servers refuse queues that are neither durable nor exclusive.
	arguments: amqp.Table{"x-queue-type": "classic"},
}

var rabbitQuorum = rabbitVariant{
	system: "rabbitmq quorum", durability: sut.Fsync, consume: []string{"manual", "auto"}, mode: amqp.Persistent, durable: true,
	ack:       "the queue of each subscriber, or a queue without any, has the message in its log, which is flushed before",
	arguments: amqp.Table{"x-queue-type": "quorum"},
}

func openClassic(_ context.Context, c sut.Config) (sut.System, error) {
	return openRabbit(c, &rabbitClassic)
}

func openQuorum(_ context.Context, c sut.Config) (sut.System, error) {
	return openRabbit(c, &rabbitQuorum)
}

func openRabbit(c sut.Config, v *rabbitVariant) (sut.System, error) {
	r := readOptions(&c)
	s := &rabbitSystem{
		c: c, v: v, manual: r.OneOf("consume", v.consume...) == "manual",
		prefetch: r.Int("prefetch", rabbitPrefetch, 1, rabbitPrefetchMax),
	}
	if err := r.Done(); err != nil {
		return nil, err
	}
	s.c.Address = cmp.Or(s.c.Address, rabbitAddress)
	if _, err := amqp.ParseURI(s.c.Address); err != nil {
		return nil, fmt.Errorf("address: want amqp://user:password@host:port/: %w", err)
	}
	return s, nil
}

// rabbitSystem is an exchange for all publishers, and a queue for each subscriber, or for all
// shared ones.
type rabbitSystem struct {
	c        sut.Config
	v        *rabbitVariant
	manual   bool
	prefetch int
	main     *amqp.Connection
	queues   []string
	shared   bool
	made     bool
	opened
}

// connect opens a connection with one channel.
func (s *rabbitSystem) connect() (*amqp.Connection, *amqp.Channel, error) {
	c, err := amqp.DialConfig(s.c.Address, amqp.Config{Dial: amqp.DefaultDial(rabbitWait), Properties: amqp.Table{"connection_name": "seb-bench"}})
	if err != nil {
		return nil, nil, fmt.Errorf("connect: %w", hidePassword(err, s.c.Address))
	}
	s.add(func() error { return closeRabbit(c) })
	ch, err := c.Channel()
	return c, ch, err
}

// hidePassword removes the password from an error of the client.
func hidePassword(err error, address string) error {
	if u, parsed := url.Parse(address); parsed == nil && u.User != nil {
		return errors.New(u.Redacted() + ": " + err.Error())
	}
	return err
}

func (s *rabbitSystem) Setup(context.Context) (sut.Info, error) {
	var ch *amqp.Channel
	var err error
	if s.main, ch, err = s.connect(); err != nil {
		return sut.Info{}, err
	}
	if s.c.Creates() {
		if err := ch.ExchangeDeclare(s.c.Name, amqp.ExchangeFanout, s.v.durable, false, false, false, nil); err != nil {
			return sut.Info{}, fmt.Errorf("declare exchange %s: %w", s.c.Name, err)
		}
		s.made = true
	}
	settings := map[string]string{"exchange": amqp.ExchangeFanout, "consume": "auto", "frame bytes": strconv.Itoa(s.main.Config.FrameSize)}
	if s.manual {
		settings["consume"], settings["prefetch"] = "manual", strconv.Itoa(s.prefetch)
	}
	settings["confirms"] = "in the order of delivery tags, the client's default"
	version, _ := s.main.Properties["version"].(string)
	if platform, ok := s.main.Properties["platform"].(string); ok {
		version += ", " + platform
	}
	return sut.Info{
		System: s.v.system, Version: version, Client: linkedVersion("github.com/rabbitmq/amqp091-go"), Durability: s.v.durability, Ack: s.v.ack,
		Settings: settings, PID: s.c.PID,
	}, ch.Close()
}

func (s *rabbitSystem) Subscriber(_ context.Context, shared bool) (sut.Subscriber, error) {
	c, ch, err := s.connect()
	if err != nil {
		return nil, err
	}
	name := s.sharedQueue()
	if !shared {
		name = s.ownQueue(s.c.SubscriberNumber(len(s.queues)))
	}
	if !shared || !s.shared {
		// Queues that are deleted with their connection would be exclusive, and could not be
		// shared.
		if err := s.queue(ch, name); err != nil {
			return nil, err
		}
	}
	s.shared = s.shared || shared
	if s.manual {
		if err := ch.Qos(s.prefetch, 0, false); err != nil {
			return nil, fmt.Errorf("prefetch of %d: %w", s.prefetch, err)
		}
	}
	deliveries, err := ch.Consume(name, "", !s.manual, false, false, false, nil)
	if err != nil {
		return nil, fmt.Errorf("consume queue %s: %w", name, err)
	}
	return &rabbitSubscriber{c: c, ch: ch, deliveries: deliveries, manual: s.manual, closed: ch.NotifyClose(make(chan *amqp.Error, 1))}, nil
}

// queue declares a queue of the exchange.
func (s *rabbitSystem) queue(ch *amqp.Channel, name string) error {
	if _, err := ch.QueueDeclare(name, s.v.durable, false, false, false, s.v.arguments); err != nil {
		return fmt.Errorf("declare queue %s: %w", name, err)
	}
	s.queues = append(s.queues, name)
	if err := ch.QueueBind(name, "", s.c.Name, false, nil); err != nil {
		return fmt.Errorf("bind queue %s: %w", name, err)
	}
	return nil
}

// ownQueue is the queue of a subscriber that gets all, sharedQueue that of all shared ones.
func (s *rabbitSystem) ownQueue(number int) string { return s.c.Name + "-" + strconv.Itoa(number) }

func (s *rabbitSystem) sharedQueue() string { return s.c.Name + "-shared" }

type rabbitSubscriber struct {
	c          *amqp.Connection
	ch         *amqp.Channel
	deliveries <-chan amqp.Delivery
	manual     bool
	closed     chan *amqp.Error
}

func (b *rabbitSubscriber) Receive(ctx context.Context, f func([]byte)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case d, ok := <-b.deliveries:
			if !ok {
				return b.why()
			}
			f(d.Body)
			if b.manual {
				if err := d.Ack(false); err != nil {
					return fmt.Errorf("acknowledge: %w", err)
				}
			}
		}
	}
}

// why returns the error that has ended the channel.
func (b *rabbitSubscriber) why() error {
	select {
	case err := <-b.closed:
		if err != nil {
			return err
		}
	default:
	}
	return amqp.ErrClosed
}

func (b *rabbitSubscriber) Close() error {
	return closeRabbit(b.c)
}

// closeRabbit closes a connection without the handshake, because a stuck broker would not answer.
func closeRabbit(c *amqp.Connection) error {
	if err := c.CloseDeadline(time.Now().Add(rabbitWait)); !errors.Is(err, amqp.ErrClosed) {
		return err
	}
	return nil
}

func (s *rabbitSystem) Teardown(context.Context) error {
	return errors.Join(s.remove(), s.closeAll())
}

func (s *rabbitSystem) remove() error {
	if !s.made {
		return nil
	}
	s.made = false
	ch, err := s.main.Channel()
	if err != nil {
		return fmt.Errorf("remove queues: %w", err)
	}
	if s.c.Group != nil { // the guests' queues; RabbitMQ ignores missing ones
		s.queues = nil
		for i := range s.c.Group.SubscribersAll {
			s.queues = append(s.queues, s.ownQueue(i))
		}
		if s.c.Group.Shared {
			s.queues = []string{s.sharedQueue()}
		}
	}
	var faults []error
	for _, name := range s.queues {
		_, err := ch.QueueDelete(name, false, false, false)
		faults = append(faults, err)
	}
	return errors.Join(append(faults, ch.ExchangeDelete(s.c.Name, false, false), ch.Close())...)
}

var errNack = errors.New("broker refused the message (basic.nack)")

func (s *rabbitSystem) Publisher(context.Context) (sut.Publisher, error) {
	c, ch, err := s.connect()
	if err != nil {
		return nil, err
	}
	if s.v.durable && s.c.Group == nil && len(s.queues) == 0 { // without a queue, messages are discarded
		if err := s.queue(ch, s.ownQueue(0)); err != nil {
			return nil, err
		}
	}
	if err := ch.Confirm(false); err != nil {
		return nil, err
	}
	p := &rabbitPublisher{c: c, ch: ch, exchange: s.c.Name, mode: s.v.mode}
	confirms := ch.NotifyPublish(make(chan amqp.Confirmation, rabbitConfirms))
	p.loop.Go(func() { p.confirm(confirms) })
	return p, nil
}

// rabbitPublisher publishes, and matches confirms with messages by their delivery tags.
type rabbitPublisher struct {
	c        *amqp.Connection
	ch       *amqp.Channel
	exchange string
	mode     uint8
	loop     sync.WaitGroup
	pending[uint64]
}

// confirm settles messages until the channel ends, and then the rest.
func (p *rabbitPublisher) confirm(confirms <-chan amqp.Confirmation) {
	for c := range confirms {
		var err error
		if !c.Ack {
			err = errNack
		}
		p.settle(c.DeliveryTag, err)
	}
	p.fail(amqp.ErrClosed)
}

func (p *rabbitPublisher) Publish(ctx context.Context, _, payload []byte, done func(error)) {
	tag := p.ch.GetNextPublishSeqNo()
	if !p.add(tag, done) {
		return
	}
	err := p.ch.PublishWithContext(ctx, p.exchange, "", false, false, amqp.Publishing{Body: payload, DeliveryMode: p.mode})
	if err != nil {
		p.settle(tag, err)
	}
}

func (p *rabbitPublisher) Close(ctx context.Context) error {
	err := p.finish(ctx)
	fault := closeRabbit(p.c)
	p.loop.Wait()
	return errors.Join(err, fault)
}
