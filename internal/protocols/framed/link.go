package framed

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/sebbroker/seb/internal/engine/base/wake"
	"github.com/sebbroker/seb/internal/protocols/connlimit"
	"github.com/sebbroker/seb/internal/protocols/tlsport"
)

const (
	readerBytes = 1 << 10  // of a connection's reader: heads and small requests
	stepBytes   = 64 << 10 // of a request, read at a time
	pieceBytes  = 256 << 10
	lengthBytes = 4
)

// link is one connection.
type link struct {
	s       *Server
	c       net.Conn
	tls     *tlsport.Conn // c if it uses TLS
	cut     func() error  // closes c at once, without a TLS alert
	r       *bufio.Reader
	session Session
	since   time.Time

	slot          *connlimit.Slot
	queue         chan *pending // begun and not answered, in order
	room          wake.Signal
	queued        atomic.Int64 // bytes in queue
	count         atomic.Int64 // requests in queue, and the one being read
	own           atomic.Int64 // bytes of the allowance in use
	active        atomic.Int64 // time of the last answer, or of the start, by the server's clock
	secure        bool         // TLS handshake completed; used by the reader
	authenticated atomic.Bool
	end           context.CancelFunc // cancels waits, and with them the reader
	leaving       bool               // evicted, its slot is free; guarded by the server's mu
}

// pending is a request that has begun.
type pending struct {
	finish Finish
	frame  *Frame // nil: refused before it was read
	size   int64
	waits  bool // for records: a write may take the slot meanwhile
}

var (
	// errDone ends the reader without a fault.
	errDone = errors.New("connection done")
	// errNoSlot ends a connection that would become that of a reader, for which there is no slot.
	errNoSlot = fmt.Errorf("%w: no slot for a reader", errDone)
)

// run serves the connection until it ends.
func (l *link) run(ctx context.Context) {
	defer l.end()
	stop := context.AfterFunc(ctx, func() { _ = l.c.SetReadDeadline(time.Now()) })
	defer stop()
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		// Answer requests in order until the queue is closed.
		alive := true
		for p := range l.queue {
			alive = l.complete(ctx, p, alive)
		}
	}()
	err := l.read(ctx)
	if err != nil && !errors.Is(err, errDone) && ctx.Err() == nil {
		l.s.o.Logger.Debug("connection ended", "listener", l.s.o.Name, "remote", l.c.RemoteAddr().String(), "err", err)
	}
	close(l.queue)
	if errors.Is(err, errDone) || errors.Is(err, errClientGone) {
		l.end() // the client is gone: cancel pending waits
	}
	<-finished
	switch {
	case errors.Is(err, errClientGone):
	case !l.authenticated.Load() && l.s.isDraining():
		reset(l.c)
	default:
		l.linger()
	}
	_ = l.c.Close()
	l.session.Close()
}

// reset makes closing c send a TCP RST. Use it for connections that never authenticated: franz-go
// treats a clean close before authentication as a configuration error and gives up, but retries
// after a reset.
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

// linger closes the sending side and waits for the client to close. If unread bytes of the client
// were left, the kernel would reset the connection and drop the last answers.
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

// errClientGone means that the client has closed or lost the connection.
var errClientGone = errors.New("client closed the connection")

// read reads requests until the connection ends.
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
		head, err := l.r.Peek(lengthBytes + l.s.o.HeadBytes)
		if err != nil {
			return errClientGone
		}
		admission, err := l.session.Admit(ctx, head[lengthBytes:], n)
		if err != nil {
			return err
		}
		if admission.Last != nil {
			l.queue <- &pending{finish: admission.Last}
			return nil
		}
		if !l.mayUse(admission.Use) {
			l.s.slots.Refuse(l.c.RemoteAddr().String())
			return errNoSlot
		}
		if err := l.mute(ctx, head[lengthBytes:], n); err != nil {
			return err
		}
		if err := l.wait(ctx, int64(n)); err != nil {
			return err
		}
		p, err := l.begin(ctx, &admission, n)
		if err != nil {
			return err
		}
		l.authenticated.Store(l.session.Authenticated())
		l.queued.Add(p.size)
		p.waits = admission.Use == Waits
		l.queue <- &p // finish drains the queue until it is closed
	}
}

// mayUse reports whether the connection has a slot for a request. A client whose connection ends
// instead of an answer backs off before it connects again.
func (l *link) mayUse(u Use) bool {
	switch u {
	case Writes:
		l.slot.Promote() // without a reader to displace it stays beyond the limit
	case Joins, Waits:
		return l.slot.Read(linkBytes + l.s.o.TLSBytes)
	}
	return true
}

// displace ends a connection that waits for records, with what there is, because a write needs its slot.
func (l *link) displace() {
	l.s.mu.Lock()
	l.s.leaveLocked(l)
	l.s.mu.Unlock()
	l.end()
}

// begin reads a request of n bytes and begins it, or refuses it.
func (l *link) begin(ctx context.Context, a *Admission, n int) (p pending, err error) {
	if a.Look != nil && n > slowBytes {
		start, err := l.r.Peek(readerBytes)
		if err != nil {
			return p, errClientGone
		}
		a.Scan = a.Look(start[lengthBytes:])
	}
	if a.Scan != nil {
		r := l.unread(ctx, n)
		if _, err := l.r.Discard(lengthBytes); err != nil {
			return p, errClientGone
		}
		if p.finish, err = a.Scan(r); err == nil {
			err = r.skip()
		}
		return p, err
	}
	done, err := l.s.large.begin(ctx, a, n)
	var f *Frame
	if err == nil {
		defer done()
		f, err = l.newFrame(ctx, a, n)
	}
	switch {
	case err != nil && a.Refuse != nil && ctx.Err() == nil:
		return pending{finish: a.Refuse(err)}, l.unread(ctx, n+lengthBytes).skip()
	case err != nil:
		return p, fmt.Errorf("%w: %w", errDone, err)
	}
	p = pending{frame: f, size: int64(n)}
	if err = l.fill(ctx, f); err == nil {
		done()
		p.finish, err = l.session.Begin(ctx, f)
	}
	if err != nil {
		f.Release()
	}
	return p, err
}

// unread is a request, or the rest of one, that is read without memory.
type unread struct {
	ctx  context.Context
	l    *link
	left int
	step int // value of left at which the read deadline is extended
}

func (l *link) unread(ctx context.Context, n int) *unread {
	return &unread{ctx: ctx, l: l, left: n, step: n}
}

// Read implements io.Reader.
func (u *unread) Read(p []byte) (int, error) {
	if u.left == 0 {
		return 0, io.EOF
	}
	if u.left <= u.step {
		u.step = u.left - stepBytes
		_ = u.l.c.SetReadDeadline(time.Now().Add(u.l.s.o.Step))
		if u.ctx.Err() != nil {
			return 0, errDone
		}
	}
	n, err := u.l.r.Read(p[:min(len(p), u.left)])
	u.left -= n
	u.l.s.met.in.AddInt64(int64(n))
	if err != nil {
		err = fmt.Errorf("%w: %w", errClientGone, err)
	}
	return n, err
}

// skip reads the rest and drops it.
func (u *unread) skip() error {
	_, err := io.Copy(io.Discard, u)
	return err
}

// handshake performs the TLS handshake if the connection uses TLS.
func (l *link) handshake(ctx context.Context) error {
	if l.tls == nil {
		return nil
	}
	_ = l.c.SetReadDeadline(earlier(l.since.Add(l.s.o.AuthTimeout), time.Now().Add(l.s.o.Step)))
	if ctx.Err() != nil {
		return errDone // SetReadDeadline may have replaced the deadline that stops reads
	}
	if err := l.tls.Handshake(); err != nil {
		return fmt.Errorf("%w: %w", errDone, err) // already logged
	}
	l.secure = true
	return nil
}

// next waits for a request and returns its length. The fixed part of its head can then be peeked.
func (l *link) next(ctx context.Context) (n int, err error) {
	for {
		until := time.Now().Add(l.s.o.Idle)
		if !l.authenticated.Load() {
			until = l.since.Add(l.s.o.AuthTimeout)
		}
		_ = l.c.SetReadDeadline(until)
		if ctx.Err() != nil {
			return 0, errDone // SetReadDeadline may have replaced the deadline that stops reads
		}
		_, err = l.r.Peek(1)
		if err == nil {
			break
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return 0, errClientGone
		}
		if ctx.Err() != nil || l.count.Load() == 0 || !l.authenticated.Load() {
			return 0, errDone
		}
	}
	_ = l.c.SetReadDeadline(time.Now().Add(l.s.o.Step))
	head, err := l.r.Peek(lengthBytes)
	if err != nil {
		return 0, errClientGone
	}
	if l.tls == nil && tlsport.IsTLS(head) { // as a length it would be 352 MiB
		l.s.o.Port.FoundTLS(l.c.RemoteAddr())
		return 0, errDone
	}
	length := int64(int32(binary.BigEndian.Uint32(head)))
	if l.s.o.Unsigned {
		length = int64(binary.BigEndian.Uint32(head))
	}
	if length < int64(l.s.o.HeadBytes) {
		return 0, fmt.Errorf("request of %d bytes: want at least %d", length, l.s.o.HeadBytes)
	}
	return int(min(length, math.MaxInt)), nil // int may have 32 bits
}

// muteCheck is how often a muted connection is checked.
const muteCheck = time.Second

// mute waits while the client is over its quota (KIP-219). The request stays unread, without memory.
func (l *link) mute(ctx context.Context, head []byte, n int) error {
	for {
		left, changed := l.session.Delay(head, n)
		if left <= 0 {
			return nil
		}
		timer := time.NewTimer(min(left, muteCheck))
		select {
		case <-timer.C:
		case <-changed:
		case <-ctx.Done():
		}
		timer.Stop()
		switch {
		case ctx.Err() != nil || !l.session.Valid():
			return errDone
		case l.left():
			return errClientGone
		}
	}
}

// wait waits until the queue has room for n more bytes.
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

// fill reads a request after its length.
func (l *link) fill(ctx context.Context, f *Frame) error {
	if _, err := l.r.Discard(lengthBytes); err != nil {
		return errClientGone
	}
	l.s.met.in.AddInt64(int64(len(f.Bytes)) + lengthBytes)
	refused := f.refusals()
	for b := f.Bytes; len(b) > 0; {
		step := b[:min(len(b), stepBytes)]
		b = b[len(step):]
		for until := time.Now().Add(l.s.o.Step); len(step) > 0; {
			_ = l.c.SetReadDeadline(earlier(until, time.Now().Add(slowCheck)))
			if ctx.Err() != nil {
				return errDone
			}
			n, err := io.ReadFull(l.r, step)
			step = step[n:]
			if err == nil {
				break
			}
			if !errors.Is(err, os.ErrDeadlineExceeded) || ctx.Err() != nil || time.Now().After(until) {
				return fmt.Errorf("%w: %w", errClientGone, err)
			}
			if f.wanted(refused) || len(f.Bytes) > slowBytes && l.s.large.wanted() {
				return fmt.Errorf("%w: request is too slow while others wait for memory", errClientGone)
			}
		}
	}
	return nil
}

// slowCheck is the time without progress after which fill checks whether other requests need the
// memory.
const slowCheck = time.Second

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// complete answers a request, if the connection is alive, and frees it. It reports whether the
// connection is still alive.
func (l *link) complete(ctx context.Context, p *pending, alive bool) bool {
	if p.waits && alive {
		l.slot.Wait(l.displace)
	}
	if alive && !l.answer(ctx, p) {
		alive = false
		l.end()
		_ = l.c.Close()
	}
	if p.frame != nil {
		p.frame.Release()
	}
	l.queued.Add(-p.size)
	l.active.Store(l.s.clock())
	l.count.Add(-1)
	l.room.Send()
	return alive
}

// answer finishes one request. It returns false if the connection must end.
func (l *link) answer(ctx context.Context, p *pending) bool {
	a, err := p.finish(ctx)
	l.slot.EndWait()
	if err != nil {
		l.s.o.Logger.Debug("request failed, connection closed", "listener", l.s.o.Name, "remote", l.c.RemoteAddr().String(), "err", err)
		return false
	}
	defer a.release()
	if !l.session.Valid() {
		return false // the client's secret was revoked meanwhile
	}
	if len(a.Head) > 0 {
		binary.BigEndian.PutUint32(a.Head, uint32(a.Size()-lengthBytes))
		if err := l.send(&a); err != nil {
			return false
		}
	}
	return !a.Last
}
