package budget

import "sync"

// Reservation is bytes taken from a class. Whoever holds it releases it once nothing refers to the memory any more. All
// methods may be called concurrently; those of a nil Reservation do nothing and count nothing.
type Reservation struct {
	mu    sync.Mutex // guards what follows; taken before a class's lock
	class *Class
	n     int64
	done  bool
}

// ReserveNow is Reserve for who can do without: nil is not counted as a refusal.
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

// Size is how many bytes are held; 0 after Release.
func (r *Reservation) Size() int64 {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n
}

// Grow takes n bytes more, or says at once with an *OverError why not; what is held stays held then. It never waits,
// and it overtakes callers of ReserveWait: they may be waiting for the very request that grows. Growing a released
// reservation is a fault of the program and panics.
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
		wanted := n // of a sum that overflows, n alone is too large as well
		if r.n <= c.limit && n <= c.limit {
			wanted += r.n
		}
		return c.refuseLocked(wanted, free)
	}
	c.takeLocked(n)
	r.n += n
	return nil
}

// Shrink gives n bytes back, at most all of them, and holds the rest.
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

// Move makes the held bytes those of another class of the same budget, for memory that is handed on without a copy.
// If they do not fit there it returns an *OverError and they stay where they are.
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

// Release gives everything back. It may be called again, to no effect.
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
