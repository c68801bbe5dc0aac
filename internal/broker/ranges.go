// The ranges reads committed batches from where they lie: ranges of objects in the store. Callers say which range, from
// which offset on and how many bytes; they get whole batches whose checksums and offsets were verified, in memory that is
// reserved in the budget, or as a section of a file. What lies side by side is one request, equal reads may share one, and
// damage is read again before it is believed. Where data lies is the caller's to know (Catalog).

package broker

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/budget"
	"github.com/sebbroker/seb/internal/flight"
	"github.com/sebbroker/seb/internal/objstore"
)

// atOnce is how many requests of one Read run at a time.
const atOnce = 8

// Options are what a Reader is opened with. Every field but Share must be set.
type rangesOptions struct {
	// Store is the bucket, perhaps behind a cache.
	Store objstore.Store
	// Budget gives the memory: its class Fetch, and its buffers.
	Budget *budget.Budget
	// Timeout bounds one attempt to read from the store, with PerMiB more for each MiB.
	Timeout, PerMiB time.Duration
	// Share lets equal reads at the same time be one request: for remote stores without a cache in front. Nothing is given
	// out as a section of a file then.
	Share bool
	// Metrics gets the counters of requests and bytes.
	Metrics *metrics.Set
}

// Reader reads ranges. Its methods may be called concurrently.
type Reader struct {
	opt         rangesOptions
	index       *segmentIndex
	flights     flights
	gets, bytes *metrics.Counter // requests to the store, and what they asked for
}

// Open makes a reader. It makes no request.
func openRanges(o rangesOptions) *Reader {
	r := &Reader{
		opt: o, index: newSegmentIndex(segmentsMax),
		gets:  o.Metrics.GetOrCreateCounter(`seb_broker_store_reads_total`),
		bytes: o.Metrics.GetOrCreateCounter(`seb_broker_store_read_bytes_total`),
	}
	r.flights.of = flight.Group[flightKey, shared]{
		Lock:    &r.flights.mu,
		Retain:  func(s shared, uses int) { s.mem.retain(uses) },
		Release: func(s shared) { s.mem.release() },
	}
	return r
}

// Close ends the reads that are shared and waits for them; with Share every further one fails with ErrClosed. What was
// given out stays good until it is released. Closing twice waits again.
func (r *Reader) Close() { r.flights.stop() }

// Read reads those of the pieces that have neither a chunk nor an error yet, a few at a time, and returns when every piece
// has one of them: see Piece for the errors. Pieces of one Part stand together, and without the first of them the others are
// of no use: they give their memory up to it. The pieces are the reader's until it returns.
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

// readStarved reads the first piece of a part again, if the others have taken the memory that it needed.
func (r *Reader) readStarved(ctx context.Context, where Catalog, pieces []Piece) {
	for i := range pieces {
		p := &pieces[i]
		if !errors.Is(p.Err, ErrOverBudget) || i > 0 && pieces[i-1].Part == p.Part {
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
