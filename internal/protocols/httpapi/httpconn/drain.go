package httpconn

import (
	"context"
	"sync"
	"time"
)

// DrainGroup ends the waits of requests when the server shuts down. All methods may be called
// concurrently.
type DrainGroup struct {
	ended chan struct{} // closed by Stop

	mu      sync.Mutex // guards the fields below
	stopped bool
	waits   map[*waiter]struct{}
}

// waiter is a wait that Stop ends.
type waiter struct{ cancel context.CancelFunc }

// NewDrainGroup returns a group that is not stopped.
func NewDrainGroup() *DrainGroup {
	return &DrainGroup{ended: make(chan struct{}), waits: map[*waiter]struct{}{}}
}

// Until returns a context that also ends when Stop is called. The caller must call done.
func (s *DrainGroup) Until(parent context.Context) (ctx context.Context, done func()) {
	ctx, cancel := context.WithCancel(parent)
	w := &waiter{cancel: cancel}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		cancel()
		return ctx, cancel
	}
	s.waits[w] = struct{}{}
	return ctx, func() {
		s.mu.Lock()
		delete(s.waits, w)
		s.mu.Unlock()
		cancel()
	}
}

// Stop ends all contexts of Until, current and future ones. It may be called more than once and
// does not wait.
func (s *DrainGroup) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopped {
		close(s.ended)
	}
	s.stopped = true
	for w := range s.waits {
		w.cancel()
	}
}

// Wait returns when done was called for all contexts of Until, or when ctx ends.
func (s *DrainGroup) Wait(ctx context.Context) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for s.Waits() > 0 && ctx.Err() == nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// Stopped reports whether Stop was called.
func (s *DrainGroup) Stopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped
}

// Waits returns the number of contexts of Until whose done was not called.
func (s *DrainGroup) Waits() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waits)
}
