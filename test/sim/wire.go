package sim

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"time"

	"github.com/sebbroker/seb/internal/protocols/framed"
)

// wire is a connection of a sender to a front end. It is the front end's net.Conn. The bytes of a
// message arrive in pieces; those in each direction keep their order.
type wire struct {
	f         *frontend
	s         *sender
	conn      *framed.Stepped
	in        []byte // arrived and not read
	out       []byte // of an answer that is written in part
	reader    *task
	answering bool
	arrives   int64 // when the newest bytes arrive
	left      bool  // the client has closed it
	ended     bool  // the server has
	waiting   []*message
}

// connect opens a connection.
func (f *frontend) connect(s *sender) *wire {
	c := &wire{f: f, s: s}
	c.conn = f.server.Connect(c)
	f.conns = append(f.conns, c)
	f.r.deliver(func() {
		f.begin(func(ctx context.Context) {
			c.reader = taskOf(ctx)
			_ = c.conn.Read(ctx)
			c.ended = true
			c.answer() // nothing arrives any more, and a request may have waited for its topic
		})
	})
	return c
}

// arrive runs f when bytes that the client sends now arrive at a broker that lives.
func (c *wire) arrive(f func()) {
	w := c.f.r.n.w
	c.arrives = max(c.arrives, w.now+int64(w.upTo(w.eventRand, 2*time.Millisecond)))
	w.after(time.Duration(c.arrives-w.now), func() {
		c.f.r.deliver(func() {
			f()
			c.reader.resume()
			c.answer()
		})
	})
}

// send sends bytes in one to three pieces.
func (c *wire) send(b []byte) {
	r := c.f.r.n.w.eventRand
	for left := r.IntN(3); len(b) > 0; left-- {
		n := len(b)
		if left > 0 {
			n = 1 + r.IntN(n)
		}
		piece := slices.Clone(b[:n])
		b = b[n:]
		c.arrive(func() { c.in = append(c.in, piece...) })
	}
}

// hangUp closes the connection at the client's end.
func (c *wire) hangUp() { c.arrive(func() { c.left = true }) }

// answer answers requests one after the other, in their order.
func (c *wire) answer() {
	if c.answering {
		return
	}
	c.answering = true
	c.f.begin(func(ctx context.Context) {
		for c.conn.Answer(ctx) {
		}
		c.answering = false
		if c.ended {
			c.conn.Close()
		}
	})
}

func (c *wire) Read(p []byte) (int, error) {
	c.reader.until(func() bool { return len(c.in) > 0 || c.left || c.ended })
	if len(c.in) == 0 || c.ended || c.f.dead {
		return 0, io.EOF
	}
	n := copy(p, c.in)
	c.in = c.in[n:]
	return n, nil
}

// Write gives the sender the answers when they are sent, which is the moment of the promise.
func (c *wire) Write(p []byte) (int, error) {
	if c.ended || c.left || c.f.dead {
		return 0, io.ErrClosedPipe
	}
	c.out = append(c.out, p...)
	for len(c.out) >= 4 {
		end := 4 + int(binary.BigEndian.Uint32(c.out))
		if len(c.out) < end {
			break
		}
		c.s.answered(c, c.out[4:end])
		c.out = c.out[end:]
	}
	return len(p), nil
}

func (c *wire) Close() error {
	c.ended = true
	return nil
}

func (c *wire) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c *wire) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (c *wire) SetDeadline(time.Time) error      { return nil }
func (c *wire) SetReadDeadline(time.Time) error  { return nil }
func (c *wire) SetWriteDeadline(time.Time) error { return nil }
