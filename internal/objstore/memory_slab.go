package objstore

import (
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

const (
	// slabSize is how much memory is asked for at a time. What is not written to takes none.
	slabSize = 32 << 20
	// slabMin is the smallest object that lies in a slab: a store of little has none.
	slabMin = 64 << 10
)

// slab is memory beside Go's heap, in the huge pages of the system if it has any: gigabytes of objects in small pages take
// longer to get than to fill, and in the heap they let garbage pile up, as much again, before it is collected. It is given
// back with the last of its users: the objects in it, those who read them, the arena while it is the one being filled. The
// collector gives back what nobody refers to any more all the same: a store that was dropped, a body that was not closed.
type slab struct {
	bytes   []byte
	users   atomic.Int64
	cleanup runtime.Cleanup
}

// newSlab returns a slab with one user, or nil if the system has no more to give.
func newSlab(size int) *slab {
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil
	}
	hugePages(b)
	s := &slab{bytes: b}
	s.users.Store(1)
	s.cleanup = runtime.AddCleanup(s, giveBack, b)
	return s
}

func giveBack(b []byte) { _ = unix.Munmap(b) }

// retain adds a user; whoever calls it knows of one. A nil slab has none.
func (s *slab) retain() {
	if s != nil {
		s.users.Add(1)
	}
}

// release drops a user, who must not touch its bytes any more.
func (s *slab) release() {
	if s == nil {
		return
	}
	switch n := s.users.Add(-1); {
	case n < 0:
		panic("objstore: slab released too often")
	case n == 0:
		s.cleanup.Stop()
		giveBack(s.bytes)
	}
}

// arena gives objects their memory.
type arena struct {
	mu   sync.Mutex // guards the fields below
	slab *slab      // that is being filled
	used int
}

// take returns room for an object of n bytes, which is a user of its slab.
func (a *arena) take(n int) stored {
	if n < slabMin {
		return stored{data: make([]byte, n)}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.slab == nil || n > len(a.slab.bytes)-a.used {
		a.slab.release()
		a.slab, a.used = newSlab(max(n, slabSize)), 0
		if a.slab == nil {
			return stored{data: make([]byte, n)} // which says what happens to a program without memory
		}
	}
	from := a.used
	a.used += n
	a.slab.retain()
	return stored{data: a.slab.bytes[from:a.used:a.used], slab: a.slab}
}
