// Package rabbitmq measures RabbitMQ: classic and quorum queues, with the client amqp091-go.
package rabbitmq

import (
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

func init() {
	sut.Register(sut.Driver{
		Name: "rabbitmq-classic", Open: openClassic,
		Doc: "RabbitMQ, transient messages in classic queues, amqp://guest:guest@127.0.0.1:5672/. Options: consume=auto|manual " +
			"(acknowledgement of what is received), prefetch=1000 (with manual)",
	})
	sut.Register(sut.Driver{
		Name: "rabbitmq-quorum", Open: openQuorum,
		Doc: "RabbitMQ, persistent messages in quorum queues, amqp://guest:guest@127.0.0.1:5672/. Options: consume=manual|auto, prefetch=1000",
	})
}

const (
	addressDefault  = "amqp://guest:guest@127.0.0.1:5672/"
	prefetchDefault = 1000
	prefetchMax     = 2000 // the limit of quorum queues
	confirmsBuffer  = 1024
	dialWait        = 10 * time.Second
)

// variant is the difference between the two drivers.
type variant struct {
	system, ack string
	durability  sut.Durability
	consume     []string // the first is the default
	mode        uint8
	durable     bool
	arguments   amqp.Table
}

var classic = variant{
	system: "rabbitmq classic", durability: sut.Memory, consume: []string{"auto", "manual"}, mode: amqp.Transient,
	ack: "the queue of each subscriber has the message, in memory; without any subscriber it is discarded",
	// Newer servers refuse queues that are neither durable nor exclusive.
	arguments: amqp.Table{"x-queue-type": "classic"},
}

var quorum = variant{
	system: "rabbitmq quorum", durability: sut.Fsync, consume: []string{"manual", "auto"}, mode: amqp.Persistent, durable: true,
	ack:       "the queue of each subscriber has the message in its log, which is flushed before; without any subscriber it is discarded",
	arguments: amqp.Table{"x-queue-type": "quorum"},
}

func openClassic(_ context.Context, c sut.Config) (sut.System, error) { return open(c, &classic) }

func openQuorum(_ context.Context, c sut.Config) (sut.System, error) { return open(c, &quorum) }

func open(c sut.Config, v *variant) (sut.System, error) {
	r := sut.ReadOptions(&c)
	s := &system{
		c: c, v: v, manual: r.OneOf("consume", v.consume...) == "manual",
		prefetch: r.Int("prefetch", prefetchDefault, 1, prefetchMax),
	}
	if err := r.Done(); err != nil {
		return nil, err
	}
	if s.c.Address == "" {
		s.c.Address = addressDefault
	}
	if _, err := amqp.ParseURI(s.c.Address); err != nil {
		return nil, fmt.Errorf("address: want amqp://user:password@host:port/: %w", err)
	}
	return s, nil
}

// system is an exchange for all publishers, and a queue for each subscriber, or for all shared
// ones.
type system struct {
	c        sut.Config
	v        *variant
	manual   bool
	prefetch int
	main     *amqp.Connection
	queues   []string
	shared   bool
	made     bool

	mu   sync.Mutex // guards open
	open []*amqp.Connection
}

// connect opens a connection with one channel.
func (s *system) connect() (*amqp.Connection, *amqp.Channel, error) {
	c, err := amqp.DialConfig(s.c.Address, amqp.Config{Dial: amqp.DefaultDial(dialWait), Properties: amqp.Table{"connection_name": "seb-bench"}})
	if err != nil {
		return nil, nil, fmt.Errorf("connect: %w", hide(err, s.c.Address))
	}
	s.mu.Lock()
	s.open = append(s.open, c)
	s.mu.Unlock()
	ch, err := c.Channel()
	return c, ch, err
}

// hide removes the password from an error of the client.
func hide(err error, address string) error {
	if u, parsed := url.Parse(address); parsed == nil && u.User != nil {
		return errors.New(u.Redacted() + ": " + err.Error())
	}
	return err
}

// Setup implements sut.System.
func (s *system) Setup(context.Context) (sut.Info, error) {
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
		System: s.v.system, Version: version, Client: sut.LinkedVersion("github.com/rabbitmq/amqp091-go"), Durability: s.v.durability, Ack: s.v.ack,
		Settings: settings, PID: s.c.PID,
	}, ch.Close()
}

// Subscriber implements sut.System.
func (s *system) Subscriber(_ context.Context, shared bool) (sut.Subscriber, error) {
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
		if _, err := ch.QueueDeclare(name, s.v.durable, false, false, false, s.v.arguments); err != nil {
			return nil, fmt.Errorf("declare queue %s: %w", name, err)
		}
		s.queues = append(s.queues, name)
		if err := ch.QueueBind(name, "", s.c.Name, false, nil); err != nil {
			return nil, fmt.Errorf("bind queue %s: %w", name, err)
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
	return &subscriber{c: c, ch: ch, deliveries: deliveries, manual: s.manual, closed: ch.NotifyClose(make(chan *amqp.Error, 1))}, nil
}

// ownQueue is the queue of a subscriber that gets all, sharedQueue that of all shared ones.
func (s *system) ownQueue(number int) string { return s.c.Name + "-" + strconv.Itoa(number) }

func (s *system) sharedQueue() string { return s.c.Name + "-shared" }

type subscriber struct {
	c          *amqp.Connection
	ch         *amqp.Channel
	deliveries <-chan amqp.Delivery
	manual     bool
	closed     chan *amqp.Error
}

// Receive implements sut.Subscriber.
func (b *subscriber) Receive(ctx context.Context, f func([]byte)) error {
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
func (b *subscriber) why() error {
	select {
	case err := <-b.closed:
		if err != nil {
			return err
		}
	default:
	}
	return amqp.ErrClosed
}

// Close implements sut.Subscriber.
func (b *subscriber) Close() error {
	// Without the handshake, because a stuck broker would not answer.
	if err := b.c.CloseDeadline(time.Now().Add(dialWait)); err != nil && !errors.Is(err, amqp.ErrClosed) {
		return err
	}
	return nil
}

// Teardown implements sut.System.
func (s *system) Teardown(context.Context) error {
	err := s.remove()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.open {
		if fault := c.CloseDeadline(time.Now().Add(dialWait)); fault != nil && !errors.Is(fault, amqp.ErrClosed) {
			err = errors.Join(err, fault)
		}
	}
	s.open = nil
	return err
}

func (s *system) remove() error {
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
