package broker

import (
	"context"
	"sync"

	"github.com/sebbroker/seb/internal/log/state"
)

// flightKey names a read: equal ones give the same bytes.
type flightKey struct {
	state.Source
	offset, max int64
}

// flights are the store reads under way that readers share.
type flights struct {
	wg sync.WaitGroup

	mu      sync.Mutex // guards the fields below and those of each flight until it is done
	of      map[flightKey]*flight
	stopped bool
}

type flight struct {
	done    chan struct{}
	cancel  context.CancelFunc
	waiting int
	chunk   Chunk
	mem     *memory
	err     error
}

// readShared reads a piece, together with whoever wants the same at the same time if reads are shared.
func (r *Reader) readShared(ctx context.Context, p *Piece) error {
	if !r.opt.Share {
		chunk, mem, err := r.readOnce(ctx, p)
		if err == nil {
			p.Give(chunk, mem.release)
		}
		return err
	}
	key := flightKey{p.Range.Source(), p.Offset, p.Max}
	f := r.flights.join(ctx, key, func(ctx context.Context) (Chunk, *memory, error) {
		own := *p // the one that began it may leave before it ends
		return r.readOnce(ctx, &own)
	})
	if f == nil {
		return ErrClosed
	}
	select {
	case <-f.done:
	case <-ctx.Done():
		r.flights.leave(key, f)
		return context.Cause(ctx)
	}
	if f.err == nil {
		p.Give(f.chunk, f.mem.release)
	}
	return f.err
}

// join adds a reader to a flight, which it begins if there is none; nil once stopped.
func (s *flights) join(ctx context.Context, key flightKey, read func(context.Context) (Chunk, *memory, error)) *flight {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil
	}
	if f := s.of[key]; f != nil {
		f.waiting++
		return f
	}
	if s.of == nil {
		s.of = map[flightKey]*flight{}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f := &flight{done: make(chan struct{}), cancel: cancel, waiting: 1}
	s.of[key] = f
	s.wg.Go(func() {
		defer cancel()
		chunk, mem, err := read(ctx)
		s.land(key, f, chunk, mem, err)
	})
	return f
}

// land hands a flight's result to those that wait: each has one use of the memory.
func (s *flights) land(key flightKey, f *flight, chunk Chunk, mem *memory, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.of, key)
	f.chunk, f.mem, f.err = chunk, mem, err
	if err == nil {
		mem.retain(f.waiting)
		mem.release()
	}
	close(f.done)
}

// leave takes a reader off a flight that it does not wait for any more; without readers the flight ends.
func (s *flights) leave(key flightKey, f *flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-f.done:
		if f.err == nil {
			f.mem.release()
		}
		return
	default:
	}
	if f.waiting--; f.waiting == 0 {
		f.cancel()
		delete(s.of, key)
	}
}

// stop ends all flights and waits for them.
func (s *flights) stop() {
	s.mu.Lock()
	s.stopped = true
	for _, f := range s.of {
		f.cancel()
	}
	s.mu.Unlock()
	s.wg.Wait()
}
