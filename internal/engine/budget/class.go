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

	usedHint  atomic.Int64 // copy of used for lock-free readers; may lag
	high      atomic.Int64 // maximum of used since the class was last idle
	idleCheck atomic.Bool  // a call of checkIdle is scheduled
	onIdle    func()       // called when used stayed 0 for idleAfter, may be nil

	mu      sync.Mutex // guards the fields below
	used    int64
	peak    int64
	refused uint64
	waiting list.List // of *waiter, in order of arrival
}

// waiter is a caller of ReserveWait.
type waiter struct {
	n       int64
	granted chan struct{} // closed once its bytes are counted in used
}

// Kind is the kind of the class.
func (c *Class) Kind() Kind { return c.kind }

// Limit is the size of the class in bytes.
func (c *Class) Limit() int64 { return c.limit }

// Used is how many bytes are reserved now; never above Limit.
func (c *Class) Used() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used
}

// Peak is the maximum of Used since the start.
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

// Reserve reserves n bytes, or fails at once with an *OverError. It does not overtake callers of
// ReserveWait: while one waits, nothing is free. n must not be negative.
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

// ReserveWait reserves n bytes and waits until they are free: first come, first served, and a small
// reservation does not overtake a large one. The caller must hold no reservation of the same class,
// because it could then wait for itself. Errors: *OverError at once if n exceeds the class; the
// context's.
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
	element := c.waiting.PushBack(w)
	c.mu.Unlock()

	select {
	case <-w.granted:
		return &Reservation{class: c, n: n}, nil
	case <-ctx.Done():
		c.leave(element)
		return nil, fmt.Errorf("wait for memory: %w", ctx.Err())
	}
}

// leave removes a waiter from the queue. Bytes that were granted before it took the lock go to the
// next waiter.
func (c *Class) leave(element *list.Element) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := element.Value.(*waiter)
	select {
	case <-w.granted:
		c.giveLocked(w.n)
	default:
		c.waiting.Remove(element)
	}
	c.grantLocked()
}

func (c *Class) release(n int64) {
	c.releaseLocking(n)
	if c.onIdle != nil && c.usedHint.Load() == 0 && c.idleCheck.CompareAndSwap(false, true) {
		time.AfterFunc(idleAfter, c.checkIdle)
	}
}

// idleAfter is how long a class must be empty to count as idle.
const idleAfter = time.Second

func (c *Class) checkIdle() {
	c.idleCheck.Store(false)
	if c.resetIfIdle() {
		c.onIdle()
	}
}

func (c *Class) resetIfIdle() bool {
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

// grantLocked grants free bytes to the waiters in order. It stops at the first that does not fit,
// so a small reservation cannot starve a large one.
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
	c.usedHint.Store(c.used)
	c.peak = max(c.peak, c.used)
	if c.used > c.high.Load() {
		c.high.Store(c.used)
	}
}

func (c *Class) giveLocked(n int64) {
	c.used -= n
	c.usedHint.Store(c.used)
}

// spare is the free bytes of the class, but at most the maximum that was used since the class was
// last idle.
func (c *Class) spare() int64 { return min(c.limit-c.usedHint.Load(), c.high.Load()) }

func (c *Class) refuseLocked(wanted, free int64) error {
	c.refused++
	return &OverError{Class: c.kind, Wanted: wanted, Free: free, Limit: c.limit}
}

func check(n int64) {
	if n < 0 {
		panic(fmt.Sprintf("budget: reservation of %d bytes", n))
	}
}

// Reservation is bytes reserved in a class. Its holder releases it once nothing refers to the
// memory any more. All methods may be called concurrently. Methods of a nil Reservation do nothing.
type Reservation struct {
	mu    sync.Mutex // guards what follows; taken before a class's lock
	class *Class
	n     int64
	done  bool
}

// ReserveNow is Reserve for optional memory: it returns nil if n bytes are not free, and does not
// count a refusal.
func (c *Class) ReserveNow(n int64) *Reservation {
	check(n)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting.Len() > 0 || n > c.limit-c.used {
		return nil
	}
	c.takeLocked(n)
	return &Reservation{class: c, n: n}
}

// Size is how many bytes are reserved; 0 after Release.
func (r *Reservation) Size() int64 {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n
}

// Grow reserves n more bytes, or fails at once with an *OverError and changes nothing. It never
// waits and it overtakes callers of ReserveWait, because they may be waiting for the very request
// that grows. Growing a released reservation panics.
func (r *Reservation) Grow(n int64) error {
	check(n)
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mustBeHeldLocked()
	c := r.class
	c.mu.Lock()
	defer c.mu.Unlock()
	if free := c.limit - c.used; n > free {
		wanted := n // if r.n+n could overflow, n alone is too large
		if r.n <= c.limit && n <= c.limit {
			wanted += r.n
		}
		return c.refuseLocked(wanted, free)
	}
	c.takeLocked(n)
	r.n += n
	return nil
}

// Shrink releases n bytes, or all if fewer are reserved.
func (r *Reservation) Shrink(n int64) {
	check(n)
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done {
		return
	}
	n = min(n, r.n)
	r.n -= n
	r.class.release(n)
}

// Move transfers the reserved bytes to another class of the same budget, for memory that changes
// its owner without a copy. If they do not fit there it returns an *OverError and changes nothing.
func (r *Reservation) Move(to *Class) error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mustBeHeldLocked()
	if to == r.class {
		return nil
	}
	taken, err := to.Reserve(r.n)
	if err != nil {
		return err
	}
	r.class.release(taken.n)
	r.class = to
	return nil
}

// Release releases all bytes. Further calls have no effect.
func (r *Reservation) Release() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done {
		return
	}
	r.done = true
	r.class.release(r.n)
	r.n = 0
}

func (r *Reservation) mustBeHeldLocked() {
	if r.done {
		panic("budget: use of a reservation that was released")
	}
}
