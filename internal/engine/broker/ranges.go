// This file and the others named ranges_* read committed batches from ranges of objects in the
// store. A caller names a range, the first wanted offset and the number of bytes. It gets whole
// batches with verified checksums and offsets, in memory that is reserved in the budget or as a
// section of a file. Adjacent ranges are read with one request, equal reads may share one, and
// damaged data is read again before it is reported. A Catalog supplies the locations.

package broker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
)

// atOnce is the number of concurrent requests of one Read.
const atOnce = 8

// segmentsMax is the limit of the index, in segments: about 3 MiB.
const segmentsMax = 64 << 10

// RangesOptions configure a Reader. Every field but Elsewhere and Share must be set.
type RangesOptions struct {
	// Store is the bucket, perhaps behind a cache.
	Store objstore.Store
	// Budget supplies the memory: its class Fetch, and its buffers.
	Budget *budget.Budget
	// Timeout is the limit for one attempt to read from the store, plus PerMiB for each MiB.
	Timeout, PerMiB time.Duration
	// Elsewhere, if not nil, reports whether another broker can answer instead. Then an attempt takes at most
	// standbyTimeout plus PerMiB for each MiB, and a store that does not answer is not asked again.
	Elsewhere func() bool
	// Share makes equal concurrent reads share one request: for remote stores without a cache in
	// front. No chunk is then a section of a file.
	Share bool
	// Metrics registers the counters of requests and bytes.
	Metrics *metrics.Set
}

// Reader reads ranges. Its methods may be called concurrently.
type Reader struct {
	opt         RangesOptions
	index       *Segments
	flights     flights
	gets, bytes *metrics.Counter // requests to the store, and their bytes
}

// OpenRanges returns a reader. It makes no request.
func OpenRanges(o RangesOptions) *Reader {
	if o.Elsewhere == nil {
		o.Elsewhere = func() bool { return false }
	}
	r := &Reader{
		opt: o, index: NewSegments(segmentsMax),
		gets:  o.Metrics.GetOrCreateCounter(`seb_broker_store_reads_total`),
		bytes: o.Metrics.GetOrCreateCounter(`seb_broker_store_read_bytes_total`),
	}
	r.flights.of = objstore.Flights[flightKey, shared]{
		Lock:    &r.flights.mu,
		Retain:  func(s shared, uses int) { s.mem.retain(uses) },
		Release: func(s shared) { s.mem.release() },
	}
	return r
}

// Close cancels the shared reads and waits for them. With Share, every later read fails with
// ErrClosed. Chunks stay valid until they are released. Further calls wait too.
func (r *Reader) Close() { r.flights.stop() }

// Read reads the pieces that have neither a chunk nor an error, a few at a time, until every piece
// has one of the two. See Piece for the errors.
//
// The pieces of one Part are adjacent in the slice. Without its first piece the others are useless,
// so they free their memory for it if the budget is short. The reader owns the pieces until Read
// returns.
func (r *Reader) Read(ctx context.Context, where Catalog, pieces []Piece) {
	var open []*Piece
	for i := range pieces {
		if p := &pieces[i]; p.Release == nil && p.Err == nil {
			open = append(open, p)
		}
	}
	jobs := runs(open)
	if len(jobs) < 2 {
		for _, job := range jobs {
			r.readRun(ctx, where, job)
		}
		return
	}
	var next atomic.Int32
	var wg sync.WaitGroup
	for range min(atOnce, len(jobs)) {
		wg.Go(func() {
			for i := next.Add(1) - 1; int(i) < len(jobs); i = next.Add(1) - 1 {
				r.readRun(ctx, where, jobs[i])
			}
		})
	}
	wg.Wait()
	r.readStarved(ctx, where, pieces)
}

// readStarved retries the first piece of each part that the budget refused, after it has released
// the part's other chunks.
func (r *Reader) readStarved(ctx context.Context, where Catalog, pieces []Piece) {
	for i := range pieces {
		p := &pieces[i]
		if !errors.Is(p.Err, state.ErrOverBudget) || i > 0 && pieces[i-1].Part == p.Part {
			continue
		}
		for j := i + 1; j < len(pieces) && pieces[j].Part == p.Part; j++ {
			if later := &pieces[j]; later.Release != nil {
				later.Release()
				later.Release, later.Err = nil, p.Err
			}
		}
		r.readPiece(ctx, where, p)
	}
}

// memory is a chunk's memory: a reserved buffer, or an open file. It counts its users.
type memory struct {
	buf     []byte
	res     *budget.Reservation
	buffers *budget.Buffers
	file    io.Closer
	refs    atomic.Int32
}

func newMemory(file io.Closer) *memory {
	m := &memory{file: file}
	m.refs.Store(1)
	return m
}

// reserve returns a buffer of want bytes. If the budget has less, it halves want down to least.
func (r *Reader) reserve(want, least int64) (*memory, error) {
	class := r.opt.Budget.Class(budget.Fetch)
	for {
		res, err := class.Reserve(int64(budget.SizeFor(int(want))))
		if err == nil {
			m := &memory{buf: r.opt.Budget.Buffers().Get(int(want)), res: res, buffers: r.opt.Budget.Buffers()}
			m.refs.Store(1)
			return m, nil
		}
		if want == least {
			if _, ok := errors.AsType[*budget.OverError](err); ok {
				err = fmt.Errorf("%w: %w", state.ErrOverBudget, err)
			}
			return nil, err
		}
		want = max(want/2, least)
	}
}

func (m *memory) retain(n int) { m.refs.Add(int32(n)) }

// release drops one use. The last one frees the buffer or closes the file.
func (m *memory) release() {
	if m.refs.Add(-1) > 0 {
		return
	}
	if m.file != nil {
		m.file.Close()
		return
	}
	m.buffers.Put(m.buf)
	m.res.Release()
}

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
