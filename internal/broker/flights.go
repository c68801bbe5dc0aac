package broker

import (
	"context"
	"sync"

	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/internal/objstore"
)

// flightKey names a read. Reads with equal keys return the same bytes.
type flightKey struct {
	state.Source
	offset, max int64
}

// shared is the result of a flight. Each of its readers has one use of the memory.
type shared struct {
	chunk Chunk
	mem   *memory
}

// flights are the store reads under way that readers share.
type flights struct {
	wg sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	of      objstore.Flights[flightKey, shared]
	stopped bool
}

// readShared reads a piece. If reads are shared, it joins an equal read under way.
func (r *Reader) readShared(ctx context.Context, p *Piece) error {
	if !r.opt.Share {
		chunk, mem, err := r.readOnce(ctx, p)
		if err == nil {
			p.Finish(chunk, mem.release)
		}
		return err
	}
	f := r.join(ctx, p)
	if f == nil {
		return ErrClosed
	}
	s, _, err := r.flights.of.Wait(ctx, f)
	if err == nil {
		p.Finish(s.chunk, s.mem.release)
	}
	return err
}

// join adds a reader to a flight, and begins the flight if there is none. It returns nil once
// stopped.
//
// The lock is held from the lookup to JoinLocked, so the flight cannot finish without this reader.
// The flight has its own context and its own copy of the piece, because the reader that began it
// may leave before it ends.
func (r *Reader) join(ctx context.Context, p *Piece) *objstore.Flight[flightKey, shared] {
	s := &r.flights
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil
	}
	key := flightKey{p.Range.Source(), p.Offset, p.Max}
	f := s.of.FindLocked(key)
	if f == nil {
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		f = s.of.BeginLocked(key, cancel)
		own := *p
		s.wg.Go(func() {
			defer cancel()
			chunk, mem, err := r.readOnce(ctx, &own)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.of.FinishLocked(f, shared{chunk, mem}, err)
		})
	}
	f.JoinLocked()
	return f
}

// stop cancels all flights and waits for them. No flight begins after stopped is set, so Wait does
// not race with Go.
func (s *flights) stop() {
	s.mu.Lock()
	s.stopped = true
	s.of.CancelLocked()
	s.mu.Unlock()
	s.wg.Wait()
}
