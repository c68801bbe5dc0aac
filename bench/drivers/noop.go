package drivers

import (
	"context"
	"slices"
	"sync"

	"github.com/sebbroker/seb/bench/sut"
)

const noopQueueDefault, noopQueueMax = 1024, 1 << 20

func openNoop(_ context.Context, c sut.Config) (sut.System, error) {
	r := readOptions(&c)
	s := &noopSystem{waiting: r.Int("queue", noopQueueDefault, 1, noopQueueMax), end: make(chan struct{})}
	s.shared = s.newQueue()
	return s, r.Done()
}

type noopSystem struct {
	waiting int       // messages for a subscriber
	shared  noopQueue // of all shared subscribers; its gone is unused
	end     chan struct{}
	ending  sync.Once

	mu   sync.Mutex // guards the fields below; its lists are replaced, not modified
	own  []noopQueue
	join int // number of shared subscribers
}

// noopQueue holds messages for a subscriber, and tells whether it has ended.
type noopQueue struct {
	in   chan []byte
	gone chan struct{}
}

func (s *noopSystem) newQueue() noopQueue {
	return noopQueue{make(chan []byte, s.waiting), make(chan struct{})}
}

func (s *noopSystem) Setup(context.Context) (sut.Info, error) {
	return sut.Info{
		System: "noop", Durability: sut.None,
		Ack: "a copy of the message waits in the channel of each subscriber, in this process",
	}, nil
}

func (s *noopSystem) Publisher(context.Context) (sut.Publisher, error) { return noopPublisher{s}, nil }

func (s *noopSystem) Subscriber(_ context.Context, shared bool) (sut.Subscriber, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if shared {
		s.join++
		return &noopSubscriber{s: s, noopQueue: s.shared, shared: true}, nil
	}
	q := s.newQueue()
	s.own = append(slices.Clone(s.own), q)
	return &noopSubscriber{s: s, noopQueue: q}, nil
}

func (s *noopSystem) Teardown(context.Context) error {
	s.ending.Do(func() { close(s.end) })
	return nil
}

// targets returns the queues of a message.
func (s *noopSystem) targets() (own []noopQueue, shared bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.own, s.join > 0
}

type noopPublisher struct{ s *noopSystem }

func (p noopPublisher) Publish(ctx context.Context, _, payload []byte, done func(error)) {
	done(p.send(ctx, slices.Clone(payload)))
}

func (p noopPublisher) send(ctx context.Context, message []byte) error {
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

func (noopPublisher) Close(context.Context) error { return nil }

type noopSubscriber struct {
	s *noopSystem
	noopQueue
	shared bool
	once   sync.Once
}

func (b *noopSubscriber) Receive(ctx context.Context, f func([]byte)) error {
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

func (b *noopSubscriber) Close() error {
	b.once.Do(func() {
		b.s.mu.Lock()
		defer b.s.mu.Unlock()
		if b.shared {
			b.s.join--
			return
		}
		b.s.own = slices.DeleteFunc(slices.Clone(b.s.own), func(q noopQueue) bool { return q == b.noopQueue })
		close(b.gone)
	})
	return nil
}
