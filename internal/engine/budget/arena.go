package budget

import (
	"errors"
	"fmt"
	"math/bits"
	"sync"
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

const (
	bufferMin = 1 << 9  // the smallest buffer
	bufferMax = 1 << 22 // the largest that is pooled
	// Four sizes per doubling waste at most a fifth of a buffer.
	stepsLog  = 2
	steps     = 1 << stepsLog
	sizeCount = (22-9)*steps + 1
)

// Buffers is a pool of byte slices in fixed sizes. It bounds the bytes of idle buffers and counts
// nothing against a class: callers reserve SizeFor(n) bytes before they Get(n). All methods may be
// called concurrently.
//
// An object of 10 MiB returns all its buffers at once, and the next requests take them again one by
// one. During requests more bytes than idleMax may therefore idle: those that the classes of these
// buffers leave free, up to their use since they were last idle, and only if the limit is above
// tight. Idle and used buffers together never exceed the shares of these classes and the pool.
type Buffers struct {
	idleMax int64
	more    func() int64 // bytes beyond idleMax that may idle now; nil: none

	mu     sync.Mutex // guards the fields below
	free   [sizeCount][][]byte
	idle   int64
	hand   int // size class that evictLocked visited last
	poison bool
}

// NewBuffers makes a pool that keeps at most idleMax bytes for reuse.
func NewBuffers(idleMax int64) *Buffers { return &Buffers{idleMax: idleMax} }

// Poison makes Put overwrite each buffer, so that a test detects reads after Put.
func (b *Buffers) Poison() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.poison = true
}

// SizeFor is how much memory a buffer for n bytes takes.
func SizeFor(n int) int {
	if n > bufferMax {
		return n
	}
	_, size := sizeClass(n)
	return size
}

// sizeClass is the index and size of the smallest buffers that hold n <= bufferMax bytes. Sizes are
// (4+s)<<e for s in 0..3: 512, 640, 768, 896, 1024, 1280, ...
func sizeClass(n int) (index, size int) {
	if n <= bufferMin {
		return 0, bufferMin
	}
	exponent := bits.Len(uint(n-1)) - 1 // 2^exponent <= n-1 < 2^(exponent+1)
	unit := 1 << (exponent - stepsLog)
	step := (n - 1 - 1<<exponent) / unit // the quarter of the doubling that n-1 lies in
	return (exponent-9)*steps + step + 1, 1<<exponent + (step+1)*unit
}

// Get returns a slice of length n with arbitrary content. The caller owns it until Put; a slice
// that is not put back is garbage collected.
func (b *Buffers) Get(n int) []byte {
	if n < 0 {
		panic(fmt.Sprintf("budget: buffer of %d bytes", n))
	}
	if n > bufferMax {
		return make([]byte, n)
	}
	index, size := sizeClass(n)
	b.mu.Lock()
	if have := len(b.free[index]); have > 0 {
		buf := b.free[index][have-1]
		b.free[index][have-1] = nil
		b.free[index] = b.free[index][:have-1]
		b.idle -= int64(size)
		b.mu.Unlock()
		return buf[:n]
	}
	b.evictLocked(b.idleMost()) // the reservation for this buffer may leave less for idle ones
	b.mu.Unlock()
	return make([]byte, n, size)
}

// idleMost is how many bytes may idle now.
func (b *Buffers) idleMost() int64 {
	if b.more == nil {
		return b.idleMax
	}
	return b.idleMax + b.more()
}

// Put returns a slice of Get to the pool. Neither it nor any slice of it may be used afterwards. It
// must begin where the slice of Get began; its length does not matter. Slices that are not from Get
// are ignored.
func (b *Buffers) Put(buf []byte) {
	size := cap(buf)
	if size < bufferMin || size > bufferMax {
		return
	}
	index, exact := sizeClass(size)
	if exact != size {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.poison {
		for i := range buf[:size] {
			buf[:size][i] = 0xdb
		}
	}
	most := b.idleMost()
	if int64(size) > most {
		b.evictLocked(most)
		return
	}
	b.evictLocked(most - int64(size))
	b.idle += int64(size)
	b.free[index] = append(b.free[index], buf[:0])
}

// trim drops idle buffers beyond the current bound. When the classes are idle, that bound is the
// pool's own share.
func (b *Buffers) trim() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.evictLocked(b.idleMost())
}

// evictLocked drops idle buffers until at most idleMax bytes are left. It rotates through the
// sizes, so that unused sizes make room for those in use.
func (b *Buffers) evictLocked(idleMax int64) {
	for b.idle > idleMax {
		b.hand = (b.hand + 1) % sizeCount
		if have := len(b.free[b.hand]); have > 0 {
			b.idle -= int64(cap(b.free[b.hand][have-1]))
			b.free[b.hand][have-1] = nil
			b.free[b.hand] = b.free[b.hand][:have-1]
		}
	}
}

// Idle is how many bytes of buffers are idle. Without a budget it never exceeds the bound of
// NewBuffers.
func (b *Buffers) Idle() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.idle
}
