package budget

import (
	"container/list"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Class is one share of a budget. All methods may be called concurrently.
type Class struct {
	kind  Kind
	limit int64

	shown   atomic.Int64 // used, for whoever can do without the lock
	high    atomic.Int64 // the most that was used since it last was at rest
	resting atomic.Bool  // a look at whether it is at rest is due
	rested  func()       // called when it is; nil: nobody wants to know

	mu      sync.Mutex // guards what follows
	used    int64
	peak    int64
	refused uint64
	waiting list.List // of *waiter, in order of arrival
}

// waiter is a caller of ReserveWait.
type waiter struct {
	n       int64
	granted chan struct{} // closed once its bytes are counted as used
}

// Kind is which class it is.
func (c *Class) Kind() Kind { return c.kind }

// Limit is the size of the class in bytes.
func (c *Class) Limit() int64 { return c.limit }

// Used is how many bytes are reserved now. It is never above Limit.
func (c *Class) Used() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used
}

// Peak is the most bytes that were ever reserved at once.
func (c *Class) Peak() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.peak
}

// Usage is a snapshot of the class.
func (c *Class) Usage() Usage {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Usage{
		Kind: c.kind, Limit: c.limit, Used: c.used, Peak: c.peak, Waiting: c.waiting.Len(), Refused: c.refused,
	}
}

// Reserve takes n bytes, or says at once with an *OverError why not. It does not overtake callers of ReserveWait: while
// one waits, there is nothing free. n must not be negative.
func (c *Class) Reserve(n int64) (*Reservation, error) {
	check(n)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting.Len() > 0 {
		return nil, c.refuseLocked(n, 0)
	}
	if n > c.limit-c.used {
		return nil, c.refuseLocked(n, c.limit-c.used)
	}
	c.takeLocked(n)
	return &Reservation{class: c, n: n}, nil
}

// ReserveWait takes n bytes, waiting until they are free: first come, first served, and a small reservation does not
// overtake a large one. It is for callers that hold no reservation of the same class; one that does could wait for
// itself. Errors: *OverError if n is larger than the class, at once; the context's.
func (c *Class) ReserveWait(ctx context.Context, n int64) (*Reservation, error) {
	check(n)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("wait for memory: %w", err)
	}
	c.mu.Lock()
	if n > c.limit {
		defer c.mu.Unlock()
		return nil, c.refuseLocked(n, c.limit-c.used)
	}
	if c.waiting.Len() == 0 && n <= c.limit-c.used {
		defer c.mu.Unlock()
		c.takeLocked(n)
		return &Reservation{class: c, n: n}, nil
	}
	w := &waiter{n: n, granted: make(chan struct{})}
	place := c.waiting.PushBack(w)
	c.mu.Unlock()

	select {
	case <-w.granted:
		return &Reservation{class: c, n: n}, nil
	case <-ctx.Done():
		c.leave(place)
		return nil, fmt.Errorf("wait for memory: %w", ctx.Err())
	}
}

// leave takes a waiter out of the queue; bytes granted meanwhile go to the next.
func (c *Class) leave(place *list.Element) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := place.Value.(*waiter)
	select {
	case <-w.granted:
		c.giveLocked(w.n)
	default:
		c.waiting.Remove(place)
	}
	c.grantLocked()
}

func (c *Class) release(n int64) {
	c.releaseLocking(n)
	if c.rested != nil && c.shown.Load() == 0 && c.resting.CompareAndSwap(false, true) {
		time.AfterFunc(restAfter, c.rest)
	}
}

// restAfter is when it is looked whether a class whose last byte was given back is still empty: then nobody needs it now.
const restAfter = time.Second

func (c *Class) rest() {
	c.resting.Store(false)
	if c.atRest() {
		c.rested()
	}
}

func (c *Class) atRest() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.used == 0 {
		c.high.Store(0)
	}
	return c.used == 0
}

func (c *Class) releaseLocking(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.giveLocked(n)
	if c.used < 0 {
		panic(fmt.Sprintf("budget: %s has %d bytes in use after a release of %d", c.kind, c.used, n))
	}
	c.grantLocked()
}

// grantLocked gives what is free to those who wait, in order.
func (c *Class) grantLocked() {
	for first := c.waiting.Front(); first != nil; first = c.waiting.Front() {
		w := first.Value.(*waiter)
		if w.n > c.limit-c.used {
			return
		}
		c.waiting.Remove(first)
		c.takeLocked(w.n)
		close(w.granted)
	}
}

func (c *Class) takeLocked(n int64) {
	c.used += n
	c.shown.Store(c.used)
	c.peak = max(c.peak, c.used)
	if c.used > c.high.Load() {
		c.high.Store(c.used)
	}
}

func (c *Class) giveLocked(n int64) {
	c.used -= n
	c.shown.Store(c.used)
}

// spare is what is free of the class, but no more than was used since it last was at rest.
func (c *Class) spare() int64 { return min(c.limit-c.shown.Load(), c.high.Load()) }

func (c *Class) refuseLocked(wanted, free int64) error {
	c.refused++
	return &OverError{Class: c.kind, Wanted: wanted, Free: free, Limit: c.limit}
}

func check(n int64) {
	if n < 0 {
		panic(fmt.Sprintf("budget: reservation of %d bytes", n))
	}
}
