package budget

import (
	"errors"
)

// Memory is what one request holds of a class of the budget: buffers, and other things that are counted only. All is
// reserved before it is used. It belongs to one goroutine; what Hand returns may be called from any. The zero value but
// for Class and Buffers holds nothing.
type Arena struct {
	Class   *Class
	Buffers *Buffers
	// Wait, if not nil, reserves by waiting what does not fit at once. It is called only then, while nothing is held.
	Wait func(n int64) (*Reservation, error)

	res   *Reservation
	slack int64 // reserved and in no use
	fixed int64 // counted by Hold
	bufs  [][]byte
	one   [1][]byte // bufs of most requests
}

// Need makes sure that n bytes are reserved and not in use yet. Errors: *budget.OverError, those of Wait.
func (m *Arena) Need(n int64) error {
	if n <= m.slack {
		return nil
	}
	if m.res == nil {
		return m.reserve(n)
	}
	err := m.res.Grow(n - m.slack)
	if err == nil {
		m.slack = n
		return nil
	}
	if m.Wait == nil || len(m.bufs) > 0 || errors.Is(err, ErrTooLarge) {
		return err
	}
	// Nothing of size is held yet: let go, so that nobody waits for us, and queue.
	m.res.Release()
	m.res, m.slack = nil, 0
	return m.reserve(n)
}

func (m *Arena) reserve(n int64) (err error) {
	n += m.fixed
	if m.Wait == nil {
		m.res, err = m.Class.Reserve(n)
	} else if m.res = m.Class.ReserveNow(n); m.res == nil {
		m.res, err = m.Wait(n)
	}
	if err != nil {
		m.res = nil
		return err
	}
	m.slack = n - m.fixed
	return nil
}

// Get returns a buffer of length n, which is held until Put, Hand or Release.
func (m *Arena) Get(n int) ([]byte, error) {
	size := int64(SizeFor(n))
	if err := m.Need(size); err != nil {
		return nil, err
	}
	m.slack -= size
	b := m.Buffers.Get(n)
	if m.bufs == nil {
		m.bufs = m.one[:0]
	}
	m.bufs = append(m.bufs, b)
	return b, nil
}

// Put takes back a buffer of Get; its bytes stay reserved.
func (m *Arena) Put(b []byte) {
	if m.drop(b) {
		m.slack += int64(cap(b))
		m.Buffers.Put(b)
	}
}

// Grow moves the first n bytes of a buffer of Get into a new one.
func (m *Arena) Grow(buf []byte, n, size int) ([]byte, error) {
	larger, err := m.Get(size)
	if err != nil {
		return nil, err
	}
	copy(larger, buf[:n])
	if buf != nil {
		m.Put(buf)
	}
	return larger, nil
}

// Hold counts n bytes that are not in a buffer of Get, as long as Release is not called, or Hold(-n).
func (m *Arena) Hold(n int64) error {
	if err := m.Need(n); err != nil {
		return err
	}
	m.slack -= n
	m.fixed += n
	return nil
}

// Hand takes a buffer of Get, or a slice from its beginning, out of the request's hands, with its bytes of the
// reservation. It returns what gives both back: call it once. Release leaves them alone.
func (m *Arena) Hand(b []byte) (release func()) {
	if !m.drop(b) {
		panic("forms: a buffer was handed on that is not the request's")
	}
	res, buffers := m.res, m.Buffers
	return func() {
		buffers.Put(b)
		res.Shrink(int64(cap(b)))
	}
}

// Reservation is what covers the buffers handed on.
func (m *Arena) Reservation() *Reservation { return m.res }

func (m *Arena) drop(b []byte) bool {
	for i := len(m.bufs) - 1; i >= 0; i-- {
		if &m.bufs[i][:1][0] == &b[:1][0] {
			m.bufs = append(m.bufs[:i], m.bufs[i+1:]...)
			return true
		}
	}
	return false
}

// Release gives everything back but what was handed on. It may be called again; what comes next reserves anew.
func (m *Arena) Release() {
	n := m.slack + m.fixed
	for _, b := range m.bufs {
		n += int64(cap(b))
		m.Buffers.Put(b)
	}
	m.res.Shrink(n)
	m.res, m.slack, m.fixed, m.bufs = nil, 0, 0, m.bufs[:0]
}
