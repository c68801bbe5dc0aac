package framed

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"github.com/sebbroker/seb/internal/engine/budget"
)

// Frame is a request: its bytes after the length, and its memory. It is freed when every Retain has
// its Release. Methods may be called concurrently, except Charge, which only Begin and Finish may
// call.
type Frame struct {
	Bytes []byte

	l     *link
	class *budget.Class // nil: the connection's allowance, then spill
	spill *budget.Class
	held  *budget.Reservation // of class or spill; nil: none
	own   int64               // bytes of the connection's allowance
	refs  atomic.Int32
}

// slowBytes is the size up to which a slow request may keep its memory.
const slowBytes = 64 << 10

// refusals is the number of reservations that the frame's class has refused so far.
func (f *Frame) refusals() uint64 {
	if f.class == nil {
		return 0
	}
	return f.class.Usage().Refused
}

// wanted reports whether other requests need memory of the frame's class: they wait for it, or some
// were refused since refusals returned refused.
func (f *Frame) wanted(refused uint64) bool {
	if f.class == nil || len(f.Bytes) <= slowBytes {
		return false
	}
	u := f.class.Usage()
	return u.Waiting > 0 || u.Refused != refused
}

// Memory is the reservation of the frame; nil if the connection's allowance covers it.
func (f *Frame) Memory() *budget.Reservation { return f.held }

// Retain delays freeing the frame until one more Release.
func (f *Frame) Retain() { f.refs.Add(1) }

// Release ends one use of the frame. After the last one Bytes must not be used.
func (f *Frame) Release() {
	if f.refs.Add(-1) > 0 {
		return
	}
	f.l.s.o.Buffers.Put(f.Bytes)
	f.held.Release()
	f.l.own.Add(-f.own)
	f.Bytes = nil
}

// Shed frees the bytes of the request, and their part of Memory, before the request is answered. Only
// Begin may call it.
func (f *Frame) Shed() {
	n := int64(budget.SizeFor(len(f.Bytes)))
	f.l.s.o.Buffers.Put(f.Bytes)
	f.Bytes = nil
	if f.own > 0 {
		f.l.own.Add(-n)
		f.own -= n
		return
	}
	f.held.Shrink(n)
}

// Charge reserves n more bytes for the request, until the frame is freed. It does not wait: the
// error is a *budget.OverError.
func (f *Frame) Charge(n int64) error {
	if f.held != nil {
		return f.held.Grow(n)
	}
	if f.l.take(n) {
		f.own += n
		return nil
	}
	held, err := f.spill.Reserve(n)
	f.held = held
	return err
}

// ChargeWait is Charge for what other requests leave free soon: without memory of its own yet, the
// request waits for it until ctx ends.
func (f *Frame) ChargeWait(ctx context.Context, n int64) error {
	err := f.Charge(n)
	if err == nil || f.held != nil {
		return err
	}
	f.held, err = f.spill.ReserveWait(ctx, n)
	return err
}

// newFrame reserves the memory of a request of n bytes, waiting for it, and gets a buffer.
func (l *link) newFrame(ctx context.Context, a *Admission, n int) (*Frame, error) {
	f := &Frame{l: l, class: a.Class, spill: a.Spill}
	f.refs.Store(1)
	size := int64(budget.SizeFor(n))
	from := a.Class
	if from == nil {
		if l.take(size) {
			f.own = size
		} else {
			from = a.Spill
		}
	}
	if from != nil {
		var err error
		if f.held, err = a.reserve(ctx, from, size); err != nil {
			return nil, err
		}
	}
	f.Bytes = l.s.o.Buffers.Get(n)
	return f, nil
}

// reserve reserves n bytes of a class, waiting for them.
func (a *Admission) reserve(ctx context.Context, from *budget.Class, n int64) (*budget.Reservation, error) {
	if r := from.ReserveNow(n); r != nil {
		return r, nil
	}
	if a.Wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, a.Wait)
		defer cancel()
	}
	return from.ReserveWait(ctx, n)
}

// take takes n bytes of the connection's allowance, and reports whether they were available.
func (l *link) take(n int64) bool {
	if l.own.Add(n) <= AllowanceBytes {
		return true
	}
	l.own.Add(-n)
	return false
}

// large bounds the requests over slowBytes that are being read. The methods of a nil large do not.
type large struct {
	size    int64
	free    *semaphore.Weighted
	waiting atomic.Int64 // connections in begin
}

// begin waits until a request of n bytes may be read, as long as for its memory. The caller calls done,
// perhaps more than once, when it has been read.
func (l *large) begin(ctx context.Context, a *Admission, n int) (done func(), err error) {
	if l == nil || n <= slowBytes {
		return func() {}, nil
	}
	size := min(int64(n), l.size)
	if !l.free.TryAcquire(size) {
		if a.Wait > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, a.Wait)
			defer cancel()
		}
		l.waiting.Add(1)
		err = l.free.Acquire(ctx, size)
		l.waiting.Add(-1)
	}
	if err != nil {
		return nil, fmt.Errorf("wait for other large requests: %w", err)
	}
	return sync.OnceFunc(func() { l.free.Release(size) }), nil
}

// wanted reports whether a connection waits.
func (l *large) wanted() bool { return l != nil && l.waiting.Load() > 0 }

// Stepped is a connection without goroutines, for callers that decide the order of events, such as a
// simulator. Its methods must not be called concurrently. Read may be suspended in a read of the
// net.Conn and Answer in a Finish while the other one runs.
type Stepped struct {
	l     *link
	ended bool
}

// Stepped returns a connection that is not one of those that Serve has accepted.
func (s *Server) Stepped(c net.Conn) *Stepped {
	l := s.newLink(c)
	l.end = func() {}
	return &Stepped{l: l}
}

// Read begins requests until the connection ends, and returns why. Less than Options.QueueRequests
// may wait for their answers.
func (c *Stepped) Read(ctx context.Context) error { return c.l.read(ctx) }

// Answer answers the oldest request that has begun. It returns false if there is none.
func (c *Stepped) Answer(ctx context.Context) bool {
	select {
	case p := <-c.l.queue:
		c.ended = !c.l.complete(ctx, p, !c.ended)
		return true
	default:
		return false
	}
}

// Close ends the connection. Read and Answer must have returned.
func (c *Stepped) Close() { c.l.session.Close() }
