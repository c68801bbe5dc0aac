package budget

import (
	"errors"
)

// Arena is the memory that one request holds of a class: buffers, and other memory that is only
// counted. All memory is reserved before it is used. An Arena must not be used concurrently, but
// the function that Detach returns may be called from any goroutine. Apart from Class and Buffers
// the zero value is ready to use.
type Arena struct {
	Class   *Class
	Buffers *Buffers
	// Wait, if not nil, makes a reservation that does not fit at once by waiting. It is called only
	// while the Arena holds no reservation.
	Wait func(n int64) (*Reservation, error)

	res   *Reservation
	slack int64 // reserved and not in use
	fixed int64 // in use, counted by Hold
	bufs  [][]byte
	one   [1][]byte // storage of bufs for most requests
}

// Adopt makes the Arena grow r, a reservation of its class, instead of making one. The caller holds r
// and releases it after the buffers of the Arena. Call Adopt before other methods.
func (m *Arena) Adopt(r *Reservation) { m.res = r }

// Need reserves memory until n bytes are reserved and not in use. Errors: *OverError, and those of
// Wait.
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
	// No buffers are held, so release everything before waiting in the queue: a request that waits
	// while it holds memory could block the requests before it.
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

// Get returns a buffer of length n, which the Arena holds until Put, Detach or Release.
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

// Put returns a buffer of Get to the pool; its bytes stay reserved.
func (m *Arena) Put(b []byte) {
	if m.drop(b) {
		m.slack += int64(cap(b))
		m.Buffers.Put(b)
	}
}

// Grow copies the first n bytes of a buffer of Get into a new one of length size and puts the old
// one back.
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

// Hold reserves and counts n bytes that are not in a buffer of Get, until Release or Hold(-n).
func (m *Arena) Hold(n int64) error {
	if err := m.Need(n); err != nil {
		return err
	}
	m.slack -= n
	m.fixed += n
	return nil
}

// Detach removes a buffer of Get, or a slice from its beginning, from the Arena together with its
// bytes of the reservation. Release no longer affects it. The caller must call the returned
// function once to return both.
func (m *Arena) Detach(b []byte) (release func()) {
	if !m.drop(b) {
		panic("budget: Detach of a buffer that the arena does not hold")
	}
	res, buffers := m.res, m.Buffers
	return func() {
		buffers.Put(b)
		res.Shrink(int64(cap(b)))
	}
}

// Reservation is the reservation that covers detached buffers.
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

// Release returns everything except detached buffers. It may be called again, and the Arena may be
// used again.
func (m *Arena) Release() {
	n := m.slack + m.fixed
	for _, b := range m.bufs {
		n += int64(cap(b))
		m.Buffers.Put(b)
	}
	m.res.Shrink(n)
	m.res, m.slack, m.fixed, m.bufs = nil, 0, 0, m.bufs[:0]
}
