package broker

import (
	"context"
	"sync"

	"github.com/sebbroker/seb/internal/flight"
	"github.com/sebbroker/seb/internal/log/state"
)

// flightKey names a read: equal ones give the same bytes.
type flightKey struct {
	state.Source
	offset, max int64
}

// shared is what readers of one flight share: each has one use of the memory.
type shared struct {
	chunk Chunk
	mem   *memory
}

// flights are the store reads under way that readers share.
type flights struct {
	wg sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	of      flight.Group[flightKey, shared]
	stopped bool
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
	f := r.join(ctx, p)
	if f == nil {
		return ErrClosed
	}
	s, _, err := r.flights.of.Wait(ctx, f)
	if err == nil {
		p.Give(s.chunk, s.mem.release)
	}
	return err
}

// join adds a reader to a flight, which it begins if there is none; nil once stopped.
func (r *Reader) join(ctx context.Context, p *Piece) *flight.Flight[flightKey, shared] {
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
		own := *p // the one that begins it may leave before it ends
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

// stop ends all flights and waits for them.
func (s *flights) stop() {
	s.mu.Lock()
	s.stopped = true
	s.of.CancelLocked()
	s.mu.Unlock()
	s.wg.Wait()
}
