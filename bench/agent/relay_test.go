package agent_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/sebbroker/seb/bench/sut"
	"github.com/sebbroker/seb/test/must"
)

// relay is a broker over TCP that loses and doubles messages, and counts them. Its clients are the
// driver "relay".
type relay struct {
	l net.Listener
	// deliver returns how often the n-th message goes to the i-th subscriber.
	deliver func(n, i int) int

	mu            sync.Mutex // guards the fields below
	subscribers   []net.Conn
	n             int
	lost, doubled int64
	conns         []net.Conn
	serving       sync.WaitGroup
}

func startRelay(t *testing.T, deliver func(n, i int) int) *relay {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	r := &relay{l: l, deliver: deliver}
	r.serving.Go(r.accept)
	t.Cleanup(func() {
		_ = l.Close()
		r.mu.Lock()
		for _, c := range r.conns {
			_ = c.Close()
		}
		r.mu.Unlock()
		r.serving.Wait()
	})
	return r
}

func (r *relay) accept() {
	for {
		c, err := r.l.Accept()
		if err != nil {
			return
		}
		r.mu.Lock()
		r.conns = append(r.conns, c)
		r.mu.Unlock()
		r.serving.Go(func() { r.serve(c) })
	}
}

func (r *relay) serve(c net.Conn) {
	in := bufio.NewReader(c)
	who, err := in.ReadByte()
	if err != nil {
		return
	}
	if who == 's' {
		r.mu.Lock()
		r.subscribers = append(r.subscribers, c)
		r.mu.Unlock()
		_, _ = c.Write([]byte{'!'}) // subscribed from now on
		return
	}
	for {
		m, err := readMessage(in)
		if err != nil {
			return
		}
		r.mu.Lock()
		for i, to := range r.subscribers {
			times := r.deliver(r.n, i)
			if times == 0 {
				r.lost++
			}
			r.doubled += int64(max(0, times-1))
			for range times {
				_, _ = to.Write(m) // a closed connection gets nothing
			}
		}
		r.n++
		r.mu.Unlock()
		if _, err := c.Write([]byte{'!'}); err != nil {
			return
		}
	}
}

// readMessage reads a message after its length.
func readMessage(in io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return nil, err
	}
	m := make([]byte, 4+binary.BigEndian.Uint32(head[:]))
	copy(m, head[:])
	_, err := io.ReadFull(in, m[4:])
	return m, err
}

func init() {
	sut.Register(sut.Driver{Name: "relay", Open: func(_ context.Context, c sut.Config) (sut.System, error) { return relayed{c}, nil }})
}

type relayed struct{ c sut.Config }

func (s relayed) Setup(context.Context) (sut.Info, error) {
	if s.c.Group == nil {
		return sut.Info{}, errors.New("relay needs several processes")
	}
	return sut.Info{System: "relay", Durability: sut.None, Ack: "the message was forwarded"}, nil
}

func (s relayed) Publisher(context.Context) (sut.Publisher, error) {
	c, err := net.Dial("tcp", s.c.Address)
	if err != nil {
		return nil, err
	}
	p := &relayPublisher{c: c, waits: make(chan func(error), 1<<16)}
	p.reading.Go(p.read)
	_, err = c.Write([]byte{'p'})
	return p, err
}

func (s relayed) Subscriber(context.Context, bool) (sut.Subscriber, error) {
	c, err := net.Dial("tcp", s.c.Address)
	if err != nil {
		return nil, err
	}
	_, err = c.Write([]byte{'s'})
	if err == nil {
		_, err = io.ReadFull(c, make([]byte, 1))
	}
	return relaySubscriber{c}, err
}

func (s relayed) Teardown(context.Context) error { return nil }

type relayPublisher struct {
	c       net.Conn
	waits   chan func(error)
	reading sync.WaitGroup
}

func (p *relayPublisher) Publish(_ context.Context, _, payload []byte, done func(error)) {
	p.waits <- done
	// A message that cannot be written is not answered.
	_, _ = p.c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(payload))), payload...))
}

func (p *relayPublisher) read() {
	in := bufio.NewReader(p.c)
	for {
		if _, err := in.ReadByte(); err != nil {
			for {
				select {
				case done := <-p.waits:
					done(err)
				default:
					return
				}
			}
		}
		(<-p.waits)(nil)
	}
}

func (p *relayPublisher) Close(context.Context) error {
	err := p.c.Close()
	p.reading.Wait()
	return err
}

type relaySubscriber struct{ c net.Conn }

func (s relaySubscriber) Receive(ctx context.Context, f func([]byte)) error {
	defer context.AfterFunc(ctx, func() { _ = s.c.Close() })()
	in := bufio.NewReader(s.c)
	for {
		m, err := readMessage(in)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		f(m[4:])
	}
}

func (s relaySubscriber) Close() error {
	_ = s.c.Close() // Receive may have done so
	return nil
}
