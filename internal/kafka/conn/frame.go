package conn

import (
	"context"
	"sync/atomic"

	"github.com/sebbroker/seb/internal/budget"
)

// Frame is a request: its bytes behind the length, and the memory that it takes. It is freed when everybody who retained it
// has released it. Methods may be called concurrently, Charge only by who begins it.
type Frame struct {
	Bytes []byte

	l     *link
	class *budget.Class // nil: it takes the connection's allowance, then spill
	spill *budget.Class
	held  *budget.Reservation // of class or spill; nil: none
	own   int64               // of the connection's allowance
	refs  atomic.Int32
}

// slowBytes is a request that is small enough not to be in others' way while it comes slowly.
const slowBytes = 64 << 10

// refusals is how often there was no memory of the frame's class so far.
func (f *Frame) refusals() uint64 {
	if f.class == nil {
		return 0
	}
	return f.class.Usage().Refused
}

// wanted says whether others wait for memory of the frame's class, or were refused since refusals was as given.
func (f *Frame) wanted(refused uint64) bool {
	if f.class == nil || len(f.Bytes) <= slowBytes {
		return false
	}
	u := f.class.Usage()
	return u.Waiting > 0 || u.Refused != refused
}

// Memory is the reservation that covers the frame; nil if the connection's allowance does.
func (f *Frame) Memory() *budget.Reservation { return f.held }

// Retain keeps the frame until another Release.
func (f *Frame) Retain() { f.refs.Add(1) }

// Release gives the frame back: nobody may use Bytes afterwards who does not retain it.
func (f *Frame) Release() {
	if f.refs.Add(-1) > 0 {
		return
	}
	f.l.s.o.Buffers.Put(f.Bytes)
	f.held.Release()
	f.l.own.Add(-f.own)
	f.Bytes = nil
}

// Charge counts n bytes more that the request takes, until the frame is freed. It does not wait: an error is an
// *budget.OverError.
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

// newFrame takes the memory of a request of n bytes, waiting for it, and a buffer.
func (l *link) newFrame(ctx context.Context, a Admission, n int) (*Frame, error) {
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
		if f.held, err = from.ReserveWait(ctx, size); err != nil {
			return nil, err
		}
	}
	f.Bytes = l.s.o.Buffers.Get(n)
	return f, nil
}

// take takes n bytes of the connection's allowance, if they are there.
func (l *link) take(n int64) bool {
	if l.own.Add(n) <= AllowanceBytes {
		return true
	}
	l.own.Add(-n)
	return false
}
