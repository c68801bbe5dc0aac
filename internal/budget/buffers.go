package budget

import (
	"fmt"
	"math/bits"
	"sync"
)

const (
	bufferMin = 1 << 9  // the smallest buffer
	bufferMax = 1 << 22 // the largest that is kept; larger ones are left to the collector
	// Four sizes to each doubling waste at most a fifth of a buffer.
	stepsLog  = 2
	steps     = 1 << stepsLog
	sizeCount = (22-9)*steps + 1
)

// Buffers is a pool of byte slices in fixed sizes, bounded by the bytes that idle in it. It counts nothing against a
// class: callers reserve SizeFor(n) bytes before they Get(n). All methods may be called concurrently.
//
// An object of 10 MiB gives all its buffers back at once, which the next requests take again one by one. So while there
// are requests more may idle than the pool's own share: what the classes whose buffers these are leave free, as far as
// they were in use since they last were at rest, and not below a limit of tight. Together that is never more than all their
// shares.
type Buffers struct {
	idleMax int64
	more    func() int64 // beyond idleMax; nil: none

	mu     sync.Mutex // guards what follows
	free   [sizeCount][][]byte
	idle   int64
	hand   int // the size that evictLocked looked at last
	poison bool
}

// NewBuffers makes a pool that keeps at most idleMax bytes for reuse.
func NewBuffers(idleMax int64) *Buffers { return &Buffers{idleMax: idleMax} }

// Poison makes Put overwrite what it is given, so that a test sees whoever reads a buffer after it was put back.
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

// sizeClass is the index and size of the smallest buffers that hold n <= bufferMax bytes. Sizes are (4+s)<<e for
// s in 0..3: 512, 640, 768, 896, 1024, 1280, ...
func sizeClass(n int) (index, size int) {
	if n <= bufferMin {
		return 0, bufferMin
	}
	exponent := bits.Len(uint(n-1)) - 1 // 2^exponent <= n-1 < 2^(exponent+1)
	unit := 1 << (exponent - stepsLog)
	step := (n - 1 - 1<<exponent) / unit // which quarter n-1 lies in
	return (exponent-9)*steps + step + 1, 1<<exponent + (step+1)*unit
}

// Get returns a slice of length n whose content is anything. The caller owns it until it is Put back; not putting it
// back costs nothing but its reuse.
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
	b.evictLocked(b.idleMost()) // what was reserved for this one may have left less for idle ones
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

// Put gives a slice back that Get returned; no one may use it afterwards, nor any slice of it. It must begin where the
// slice from Get began; its length does not matter. Slices that are not from Get are left to the collector.
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

// trim drops what may no longer idle: who has no requests keeps no more than the pool's share.
func (b *Buffers) trim() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.evictLocked(b.idleMost())
}

// evictLocked drops idle buffers until at most idleMax bytes are left. It goes round the sizes, so that sizes which
// nobody asks for any more make room for those in use.
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

// Idle is how many bytes wait for reuse. Without a budget it is never above the bound given to NewBuffers.
func (b *Buffers) Idle() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.idle
}
