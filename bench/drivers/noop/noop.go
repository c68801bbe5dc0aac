// Package noop is the baseline: messages go from a publisher to the subscribers inside the process,
// through a channel each. It measures the generator itself.
package noop

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/sebbroker/seb/bench/sut"
)

func init() {
	sut.Register(sut.Driver{
		Name: "noop", Open: open, Inside: true,
		Doc: "nothing: messages go from publisher to subscribers in the process. Options: queue=1024 (messages that wait for a subscriber)",
	})
}

const queueDefault, queueMax = 1024, 1 << 20

var errClosed = errors.New("closed")

func open(_ context.Context, c sut.Config) (sut.System, error) {
	r := sut.ReadOptions(&c)
	s := &system{queue: r.Int("queue", queueDefault, 1, queueMax), end: make(chan struct{})}
	s.shared = s.newQueue()
	return s, r.Done()
}

type system struct {
	queue  int
	shared queue // of all shared subscribers; its gone is unused
	end    chan struct{}
	ending sync.Once

	mu   sync.Mutex // guards the fields below; its lists are replaced, not modified
	own  []queue
	join int // number of shared subscribers
}

// queue holds messages for a subscriber, and tells whether it has ended.
type queue struct {
	in   chan []byte
	gone chan struct{}
}

func (s *system) newQueue() queue { return queue{make(chan []byte, s.queue), make(chan struct{})} }

// Setup implements sut.System.
func (s *system) Setup(context.Context) (sut.Info, error) {
	return sut.Info{
		System: "noop", Durability: sut.None,
		Ack: "a copy of the message waits in the channel of each subscriber, in this process",
	}, nil
}

// Publisher implements sut.System.
func (s *system) Publisher(context.Context) (sut.Publisher, error) { return publisher{s}, nil }

// Subscriber implements sut.System.
func (s *system) Subscriber(_ context.Context, shared bool) (sut.Subscriber, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if shared {
		s.join++
		return &subscriber{s: s, queue: s.shared, shared: true}, nil
	}
	q := s.newQueue()
	s.own = append(slices.Clone(s.own), q)
	return &subscriber{s: s, queue: q}, nil
}

// Teardown implements sut.System.
func (s *system) Teardown(context.Context) error {
	s.ending.Do(func() { close(s.end) })
	return nil
}

// targets returns the queues of a message.
func (s *system) targets() (own []queue, shared bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.own, s.join > 0
}

type publisher struct{ s *system }

// Publish implements sut.Publisher.
func (p publisher) Publish(ctx context.Context, _, payload []byte, done func(error)) {
	done(p.send(ctx, slices.Clone(payload)))
}

func (p publisher) send(ctx context.Context, message []byte) error {
	own, shared := p.s.targets()
	if shared {
		own = append(slices.Clone(own), p.s.shared)
	}
	for _, to := range own {
		select {
		case to.in <- message:
		case <-to.gone:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-p.s.end:
			return errClosed
		}
	}
	return nil
}

// Close implements sut.Publisher.
func (publisher) Close(context.Context) error { return nil }

type subscriber struct {
	s *system
	queue
	shared bool
	once   sync.Once
}

// Receive implements sut.Subscriber.
func (b *subscriber) Receive(ctx context.Context, f func([]byte)) error {
	for {
		select {
		case m := <-b.in:
			f(m)
		case <-ctx.Done():
			return nil
		case <-b.s.end:
			return errClosed
		}
	}
}

// Close implements sut.Subscriber.
func (b *subscriber) Close() error {
	b.once.Do(func() {
		b.s.mu.Lock()
		defer b.s.mu.Unlock()
		if b.shared {
			b.s.join--
			return
		}
		b.s.own = slices.DeleteFunc(slices.Clone(b.s.own), func(q queue) bool { return q == b.queue })
		close(b.gone)
	})
	return nil
}
