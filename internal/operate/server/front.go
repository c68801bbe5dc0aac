package server

import (
	"context"
	"fmt"
	"net"
	"sync"
)

// front is a listener besides the public one. The methods of a front that does not listen do nothing.
type front struct {
	unfinished string // what close may have to cut, for its error
	serving    interface {
		Drain()
		Close(ctx context.Context) error
	} // nil before the start

	mu       sync.Mutex   // guards listener
	listener net.Listener // nil: none, or not yet
}

// serve runs a listener's server. Its error ends the broker.
func (s *Server) serve(what string, run func() error) {
	s.serving.Go(func() {
		if err := run(); err != nil {
			s.end(fmt.Errorf("%s: %w", what, err))
		}
	})
}

// address is the address of the listener; "" without one.
func (f *front) address() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.listener == nil {
		return ""
	}
	return f.listener.Addr().String()
}

// abandon closes a listener that does not serve yet.
func (f *front) abandon() error {
	if f.listener == nil {
		return nil
	}
	return ignoreClosed(f.listener.Close())
}

func (f *front) drain() {
	if f.serving != nil {
		f.serving.Drain()
	}
}

func (f *front) close(ctx context.Context) error {
	if f.serving == nil {
		return nil
	}
	if err := f.serving.Close(ctx); err != nil {
		return fmt.Errorf("%s: %w", f.unfinished, err)
	}
	return nil
}
