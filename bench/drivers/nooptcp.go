package drivers

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"

	"github.com/sebbroker/seb/bench/sut"
)

func openRelay(_ context.Context, c sut.Config) (sut.System, error) {
	r := readOptions(&c)
	return &relay{most: c.PayloadBytes, open: map[net.Conn]bool{}}, r.Done()
}

// relay is a minimal broker over TCP. It measures the generator, the kernel and the runtime. A
// baseline without sockets does not show when these are slow.
type relay struct {
	most   int // bytes of a message
	listen net.Listener
	work   sync.WaitGroup

	mu     sync.Mutex // guards the fields below
	closed bool
	open   map[net.Conn]bool
	own    []*outlet
	share  []*outlet
	turn   int
}

// outlet is the relay's end of a subscriber's connection.
type outlet struct {
	mu   sync.Mutex // held while a message is written
	conn net.Conn
}

// The first byte of a connection.
const (
	asPublisher = 'p'
	asOwn       = 's'
	asSharing   = 'g'
	welcome     = 'w' // a subscriber is connected
	taken       = 'a' // a message was forwarded
)

func (s *relay) Setup(ctx context.Context) (sut.Info, error) {
	var err error
	if s.listen, err = new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0"); err != nil {
		return sut.Info{}, err
	}
	s.work.Go(func() {
		for {
			c, err := s.listen.Accept()
			if err != nil {
				return
			}
			s.work.Go(func() { s.serve(c) })
		}
	})
	return sut.Info{
		System: "noop over TCP", Durability: sut.None,
		Ack: "a goroutine of this process has written the message to the connection of each subscriber",
	}, nil
}

// keep registers a connection for Teardown; it returns false after that.
func (s *relay) keep(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = c.Close()
		return false
	}
	s.open[c] = true
	return true
}

func (s *relay) drop(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gone := func(o *outlet) bool { return o.conn == c }
	delete(s.open, c)
	s.own, s.share = slices.DeleteFunc(slices.Clone(s.own), gone), slices.DeleteFunc(slices.Clone(s.share), gone)
	_ = c.Close()
}

// serve is the relay's side of a connection.
func (s *relay) serve(c net.Conn) {
	if !s.keep(c) {
		return
	}
	defer s.drop(c)
	r := bufio.NewReader(c)
	switch who, _ := r.ReadByte(); who {
	case asPublisher:
		s.hand(r, c)
	case asOwn, asSharing:
		o := &outlet{conn: c}
		s.mu.Lock()
		if who == asOwn {
			s.own = append(slices.Clone(s.own), o)
		} else {
			s.share = append(slices.Clone(s.share), o)
		}
		s.mu.Unlock()
		if _, err := c.Write([]byte{welcome}); err == nil {
			_, _ = r.ReadByte() // until it ends
		}
	}
}

// hand forwards a publisher's messages.
func (s *relay) hand(r *bufio.Reader, c net.Conn) {
	frame := make([]byte, headSize+s.most)
	for {
		n, err := readFrame(r, frame)
		if err != nil {
			return
		}
		s.mu.Lock()
		to := s.own
		if len(s.share) > 0 {
			s.turn++
			to = append(slices.Clone(to), s.share[s.turn%len(s.share)])
		}
		s.mu.Unlock()
		for _, o := range to {
			o.mu.Lock()
			_, _ = o.conn.Write(frame[:n]) // a closed connection gets nothing more
			o.mu.Unlock()
		}
		if _, err := c.Write([]byte{taken}); err != nil {
			return
		}
	}
}

const headSize = 4

// readFrame reads a message after its length, and returns the bytes of both.
func readFrame(r io.Reader, frame []byte) (int, error) {
	if _, err := io.ReadFull(r, frame[:headSize]); err != nil {
		return 0, err
	}
	n := int(binary.BigEndian.Uint32(frame))
	if n > len(frame)-headSize {
		return 0, fmt.Errorf("message of %d bytes, limit %d", n, len(frame)-headSize)
	}
	_, err := io.ReadFull(r, frame[headSize:headSize+n])
	return headSize + n, err
}

func (s *relay) dial(ctx context.Context, as byte) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", s.listen.Addr().String())
	if err != nil {
		return nil, err
	}
	if !s.keep(c) {
		return nil, errClosed
	}
	if _, err = c.Write([]byte{as}); err != nil {
		s.drop(c)
		return nil, err
	}
	return c, nil
}

func (s *relay) Publisher(ctx context.Context) (sut.Publisher, error) {
	c, err := s.dial(ctx, asPublisher)
	if err != nil {
		return nil, err
	}
	p := &tcpPublisher{s: s, c: c}
	s.work.Go(p.hear)
	return p, nil
}

func (s *relay) Subscriber(ctx context.Context, shared bool) (sut.Subscriber, error) {
	as := byte(asOwn)
	if shared {
		as = asSharing
	}
	c, err := s.dial(ctx, as)
	if err != nil {
		return nil, err
	}
	b := &tcpSubscriber{s: s, c: c, r: bufio.NewReader(c)}
	if said, err := b.r.ReadByte(); err != nil || said != welcome {
		s.drop(c)
		return nil, errors.Join(err, errClosed)
	}
	return b, nil
}

func (s *relay) Teardown(context.Context) error {
	s.mu.Lock()
	s.closed = true
	for c := range s.open {
		_ = c.Close()
	}
	s.mu.Unlock()
	if s.listen == nil {
		return nil
	}
	err := s.listen.Close()
	s.work.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil // already torn down
	}
	return err
}

// tcpPublisher sends messages and counts their acknowledgements, which arrive in order.
type tcpPublisher struct {
	s     *relay
	c     net.Conn
	frame []byte
	sent  uint64
	pending[uint64]
}

func (p *tcpPublisher) Publish(_ context.Context, _, payload []byte, done func(error)) {
	if !p.add(p.sent, done) {
		return
	}
	p.sent++
	p.frame = append(binary.BigEndian.AppendUint32(p.frame[:0], uint32(len(payload))), payload...)
	if _, err := p.c.Write(p.frame); err != nil {
		p.fail(err)
	}
}

// hear processes acknowledgements.
func (p *tcpPublisher) hear() {
	r := bufio.NewReader(p.c)
	for n := uint64(0); ; n++ {
		if _, err := r.ReadByte(); err != nil {
			p.fail(errors.Join(errClosed, err))
			return
		}
		p.settle(n, nil)
	}
}

func (p *tcpPublisher) Close(ctx context.Context) error {
	defer p.s.drop(p.c)
	return p.finish(ctx)
}

type tcpSubscriber struct {
	s *relay
	c net.Conn
	r *bufio.Reader
}

func (b *tcpSubscriber) Receive(ctx context.Context, f func([]byte)) error {
	defer context.AfterFunc(ctx, func() { _ = b.c.Close() })()
	frame := make([]byte, headSize+b.s.most)
	return receive(ctx, func() error {
		n, err := readFrame(b.r, frame)
		if err != nil {
			return errors.Join(errClosed, err)
		}
		f(frame[headSize:n])
		return nil
	})
}

func (b *tcpSubscriber) Close() error {
	b.s.drop(b.c)
	return nil
}

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
