package budget

import (
	"fmt"
	"math/bits"
	"sync"
)

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
