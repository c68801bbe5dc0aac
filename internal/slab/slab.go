// Package slab gives large byte slices memory beside Go's heap.
package slab

import (
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

const (
	// Size is how many bytes of memory are asked for at a time. What is not written to takes none.
	Size = 32 << 20
	// Min is the smallest slice, in bytes, that lies in a slab: who holds little has none.
	Min = 64 << 10
)

// Slab is memory beside Go's heap, in the huge pages of the system if it has any: gigabytes of objects in small pages take
// longer to get than to fill, and in the heap they let garbage pile up, as much again, before it is collected. It is given
// back with the last of its users: the objects in it, those who read them, the arena while it is the one being filled. The
// collector gives back what nobody refers to any more all the same: a store that was dropped, a body that was not closed.
type Slab struct {
	bytes   []byte
	users   atomic.Int64
	cleanup runtime.Cleanup
}

// newSlab returns a slab with one user, or nil if the system has no more to give.
func newSlab(size int) *Slab {
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil
	}
	hugePages(b)
	s := &Slab{bytes: b}
	s.users.Store(1)
	s.cleanup = runtime.AddCleanup(s, giveBack, b)
	return s
}

func giveBack(b []byte) { _ = unix.Munmap(b) }

// Retain adds a user; whoever calls it knows of one. A nil slab has none.
func (s *Slab) Retain() {
	if s != nil {
		s.users.Add(1)
	}
}

// Release drops a user, who must not touch its bytes any more.
func (s *Slab) Release() {
	if s == nil {
		return
	}
	switch n := s.users.Add(-1); {
	case n < 0:
		panic("slab: released too often")
	case n == 0:
		s.cleanup.Stop()
		giveBack(s.bytes)
	}
}

// Users is how many users a slab has now.
func (s *Slab) Users() int64 { return s.users.Load() }

// Arena gives slices their memory. The zero value is ready; safe for concurrent use.
type Arena struct {
	mu   sync.Mutex // guards the fields below
	slab *Slab      // that is being filled
	used int
}

// Take returns a slice of n bytes, and the slab that it lies in, of which it is a user; nil if it is of Go's heap.
func (a *Arena) Take(n int) ([]byte, *Slab) {
	if n < Min {
		return make([]byte, n), nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.slab == nil || n > len(a.slab.bytes)-a.used {
		a.slab.Release()
		a.slab, a.used = newSlab(max(n, Size)), 0
		if a.slab == nil {
			return make([]byte, n), nil // which says what happens to a program without memory
		}
	}
	from := a.used
	a.used += n
	a.slab.Retain()
	return a.slab.bytes[from:a.used:a.used], a.slab
}
