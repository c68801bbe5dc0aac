package conn

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/sebbroker/seb/internal/tlsport"
)

const (
	readerBytes = 4 << 10  // of a connection's reader: heads, and requests as small as most
	stepBytes   = 64 << 10 // of a request, read at a time
	pieceBytes  = 256 << 10
	lengthBytes = 4
)

// link is one connection.
type link struct {
	s       *Server
	c       net.Conn
	tls     *tlsport.Conn // c, if it has TLS
	cut     func() error  // closes c at once; c.Close may tell the client
	r       *bufio.Reader
	session Session
	since   time.Time

	queue   chan pending // begun and not answered, in order
	room    chan struct{}
	queued  atomic.Int64 // bytes of them
	count   atomic.Int64 // of them, and of the one that is being read
	own     atomic.Int64 // of the allowance in use
	active  atomic.Int64 // when a request was answered last, or it began, by the server's clock
	secure  bool         // the handshake of tls is over; of the goroutine that reads
	trusted atomic.Bool
	end     context.CancelFunc // ends waits, and with them the reading
	leaving bool               // it has given its place away; guarded by the server's mu
}

// pending is a request that has begun.
type pending struct {
	finish Finish
	frame  *Frame
	size   int64
}

// errDone ends reading without a fault.
var errDone = errors.New("done")

// run serves the connection until it ends.
func (l *link) run(ctx context.Context) {
	defer l.end()
	stop := context.AfterFunc(ctx, func() { _ = l.c.SetReadDeadline(time.Now()) })
	defer stop()
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		l.finish(ctx)
	}()
	err := l.read(ctx)
	if err != nil && !errors.Is(err, errDone) && ctx.Err() == nil {
		l.s.o.Logger.Debug("kafka: connection ended", "remote", l.c.RemoteAddr().String(), "err", err)
	}
	close(l.queue)
	if errors.Is(err, errDone) || errors.Is(err, errGone) {
		l.end() // nobody waits for what could be waited for
	}
	<-finished
	switch {
	case errors.Is(err, errGone):
	case !l.trusted.Load() && l.s.isDraining():
		reset(l.c)
	default:
		l.linger()
	}
	_ = l.c.Close()
}

// reset has c, which has not shown who it is, reset when it is closed. Clients take the end of a connection that has shown nothing for a mistake in how they are
// set up, which they do not try again (franz-go); a reset is a fault of the network to them, which they do.
func reset(c net.Conn) {
	if tls, ok := c.(*tlsport.Conn); ok {
		c = tls.Plain()
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
}

// lingerTime and lingerBytes bound linger.
const (
	lingerTime  = time.Second
	lingerBytes = 1 << 20
)

// linger says that nothing more comes and waits for the client to close: what it has sent and nobody has read would have the
// kernel reset the connection, and with it the last answers on their way.
func (l *link) linger() {
	c := l.c
	if l.tls != nil && !l.secure {
		c = l.tls.Plain()
	}
	half, ok := c.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	_ = c.SetReadDeadline(time.Now().Add(lingerTime))
	_, _ = io.CopyN(io.Discard, c, lingerBytes)
}

// errGone says that the client has closed or lost the connection.
var errGone = errors.New("the client has gone")

// read takes requests until the connection ends.
func (l *link) read(ctx context.Context) error {
	if err := l.handshake(ctx); err != nil {
		return err
	}
	for {
		n, err := l.next(ctx)
		if err != nil {
			return err
		}
		l.count.Add(1)
		head, err := l.r.Peek(lengthBytes + HeadMin)
		if err != nil {
			return errGone
		}
		admission, err := l.session.Admit(head[lengthBytes:], n)
		if err != nil {
			return err
		}
		if err := l.wait(ctx, int64(n)); err != nil {
			return err
		}
		f, err := l.newFrame(ctx, admission, n)
		if err != nil {
			return fmt.Errorf("%w: %w", errDone, err)
		}
		if err := l.fill(ctx, f); err != nil {
			f.Release()
			return err
		}
		finish, err := l.session.Begin(ctx, f)
		if err != nil {
			f.Release()
			return err
		}
		l.trusted.Store(l.session.Trusted())
		l.queued.Add(int64(n))
		l.queue <- pending{finish, f, int64(n)} // finish takes them until it is closed
	}
}

// handshake begins TLS, where there is to be any.
func (l *link) handshake(ctx context.Context) error {
	if l.tls == nil {
		return nil
	}
	_ = l.c.SetReadDeadline(earlier(l.since.Add(l.s.o.TrustWithin), time.Now().Add(l.s.o.Step)))
	if ctx.Err() != nil {
		return errDone // the deadline that it has set may be gone
	}
	if err := l.tls.Handshake(); err != nil {
		return fmt.Errorf("%w: %w", errDone, err) // which was logged
	}
	l.secure = true
	return nil
}

// next waits for a request and returns its length. Its first bytes can be peeked at then.
func (l *link) next(ctx context.Context) (n int, err error) {
	for {
		until := time.Now().Add(l.s.o.Idle)
		if !l.trusted.Load() {
			until = l.since.Add(l.s.o.TrustWithin)
		}
		_ = l.c.SetReadDeadline(until)
		if ctx.Err() != nil {
			return 0, errDone // the deadline that it has set may be gone
		}
		_, err = l.r.Peek(1)
		if err == nil {
			break
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return 0, errGone
		}
		if ctx.Err() != nil || l.count.Load() == 0 || !l.trusted.Load() {
			return 0, errDone
		}
	}
	_ = l.c.SetReadDeadline(time.Now().Add(l.s.o.Step))
	head, err := l.r.Peek(lengthBytes)
	if err != nil {
		return 0, errGone
	}
	if l.tls == nil && tlsport.IsTLS(head) { // the length of a request of 352 MiB
		l.s.o.Port.FoundTLS(l.c.RemoteAddr())
		return 0, errDone
	}
	length := int32(binary.BigEndian.Uint32(head))
	if length < HeadMin {
		return 0, fmt.Errorf("request of %d bytes, at least %d are needed", length, HeadMin)
	}
	return int(length), nil
}

// wait returns when the queue has room for n bytes more.
func (l *link) wait(ctx context.Context, n int64) error {
	for q := l.queued.Load(); q > 0 && q+n > l.s.o.QueueBytes; q = l.queued.Load() {
		select {
		case <-l.room:
		case <-ctx.Done():
			return errDone
		}
	}
	return nil
}

// fill reads a request behind its length.
func (l *link) fill(ctx context.Context, f *Frame) error {
	if _, err := l.r.Discard(lengthBytes); err != nil {
		return errGone
	}
	l.s.met.in.AddInt64(int64(len(f.Bytes)) + lengthBytes)
	refused := f.refusals()
	for b := f.Bytes; len(b) > 0; {
		step := b[:min(len(b), stepBytes)]
		b = b[len(step):]
		for until := time.Now().Add(l.s.o.Step); len(step) > 0; {
			_ = l.c.SetReadDeadline(earlier(until, time.Now().Add(patience)))
			if ctx.Err() != nil {
				return errDone
			}
			n, err := io.ReadFull(l.r, step)
			step = step[n:]
			if err == nil {
				break
			}
			if !errors.Is(err, os.ErrDeadlineExceeded) || ctx.Err() != nil || time.Now().After(until) {
				return fmt.Errorf("%w: %w", errGone, err)
			}
			if f.wanted(refused) {
				return fmt.Errorf("%w: its request comes slowly, and others need the memory", errGone)
			}
		}
	}
	return nil
}

// patience is how long nothing of a request comes before it is looked whether others need its memory.
const patience = time.Second

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// finish answers requests in order until the queue is closed.
func (l *link) finish(ctx context.Context) {
	failed := false
	for p := range l.queue {
		if !failed {
			failed = !l.answer(ctx, p)
			if failed {
				l.end()
				_ = l.c.Close()
			}
		}
		p.frame.Release()
		l.queued.Add(-p.size)
		l.active.Store(l.s.clock())
		l.count.Add(-1)
		select {
		case l.room <- struct{}{}:
		default:
		}
	}
}

// answer finishes one request; false: the connection is over.
func (l *link) answer(ctx context.Context, p pending) bool {
	a, err := p.finish(ctx)
	if err != nil {
		l.s.o.Logger.Debug("kafka: connection ended by a request", "remote", l.c.RemoteAddr().String(), "err", err)
		return false
	}
	defer a.release()
	if len(a.Head) > 0 {
		binary.BigEndian.PutUint32(a.Head, uint32(a.Size()-lengthBytes))
		if err := l.send(&a); err != nil {
			return false
		}
	}
	return !a.Last
}
