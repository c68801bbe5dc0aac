package budget

import "sync"

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
