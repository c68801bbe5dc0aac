package httpconn

import (
	"context"
	"sync"
	"time"
)

// Stops ends the waits of requests when the server shuts down. All methods may be called concurrently.
type Stops struct {
	ended chan struct{} // closed by Stop

	mu      sync.Mutex // guards what follows
	stopped bool
	waits   map[*stoppable]struct{}
}

// stoppable is a wait that Stop ends.
type stoppable struct{ cancel context.CancelFunc }

// NewStops returns Stops that Stop was not called of yet.
func NewStops() *Stops {
	return &Stops{ended: make(chan struct{}), waits: map[*stoppable]struct{}{}}
}

// Until returns a context that also ends when Stop is called. done must be called.
func (s *Stops) Until(parent context.Context) (ctx context.Context, done func()) {
	ctx, cancel := context.WithCancel(parent)
	w := &stoppable{cancel: cancel}
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

// Stop ends the contexts of Until, now and from now on. It may be called more than once and does not wait.
func (s *Stops) Stop() {
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

// Wait returns when all contexts of Until are done with, or ctx ends.
func (s *Stops) Wait(ctx context.Context) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for s.Waits() > 0 && ctx.Err() == nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// Stopped says whether Stop was called.
func (s *Stops) Stopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped
}

// Waits returns how many contexts of Until are not done with.
func (s *Stops) Waits() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waits)
}
