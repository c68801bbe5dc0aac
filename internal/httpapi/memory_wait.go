package httpapi

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/budget"
	"github.com/sebbroker/seb/internal/httpapi/encoding"
	"github.com/sebbroker/seb/record"
)

// gatherSize is the buffer in which small pieces of an answer are collected.
const gatherSize = 64 << 10

// Values collects values. If the reading waits for memory and its answer is short for lack of it,
// Values starts again with more. After Options.BudgetWait it returns what it has.
func (g *Reading) Values(ctx context.Context) (*encoding.Values, error) {
	if !g.Waits {
		return g.tryValues(ctx)
	}
	from, need := g.Offset, g.estimate()
	fits := need <= g.s.semSize
	if need > 0 {
		if err := g.acquire(ctx, need); err != nil && !lacksMemory(err) {
			return nil, err
		}
	}
	v, err := g.tryValues(ctx)
	for until := time.Now().Add(g.s.o.BudgetWait); lacksMemory(err) || err == nil && g.short && fits; {
		if need >= g.s.fetch.Limit() || time.Now().After(until) {
			break // the whole class is too small, or the deadline passed
		}
		need = min(max(2*need, windowSize), g.s.fetch.Limit())
		g.restart(from)
		if err := g.acquireAlone(ctx, need, until); err != nil && !lacksMemory(err) {
			return nil, err
		}
		v, err = g.tryValues(ctx)
	}
	g.settle()
	return v, err
}

// tryValues collects once.
func (g *Reading) tryValues(ctx context.Context) (*encoding.Values, error) {
	v := &encoding.Values{SizesMax: g.MaxBytes}
	err := g.Collect(ctx, v)
	if err == nil && g.Count > 0 && g.gathers {
		g.buf, err = g.memory.Get(gatherSize)
	}
	return v, err
}

// lacksMemory reports whether an error may disappear when other requests release memory.
func lacksMemory(err error) bool {
	return errors.Is(err, budget.ErrOver) || errors.Is(err, broker.ErrOverBudget)
}

// estimate returns the approximate memory of the requested answer; 0 if no record is available.
func (g *Reading) estimate() int64 {
	p, err := g.s.b.Partition(g.Topic, g.Partition)
	if err != nil {
		return 0
	}
	if g.Offset < p.Start || g.Offset >= p.Next {
		return 0
	}
	const perRecord = 128 // overhead of a sink beside the value
	each := p.Bytes/max(p.Records, 1) + 1
	n := min(g.MaxRecords, p.Next-g.Offset, p.Records)
	want := n * each
	if g.MaxBytes > 0 {
		want = min(want, g.MaxBytes) + each
		n = min(n, want/each)
	}
	// Whole batches are read into buffers that are not full, and the first and last batch are only
	// partly wanted.
	return 2*(want+min(p.Bytes, record.BatchTarget)) + n*perRecord + gatherSize
}

// acquire acquires a share of the semaphore.
func (g *Reading) acquire(ctx context.Context, need int64) error {
	ctx, done := g.s.waitContext(ctx, time.Now().Add(g.s.o.BudgetWait))
	defer done()
	need = min(need, g.s.semSize)
	if g.s.sem.Acquire(ctx, need) != nil {
		return tooLong(context.Cause(ctx))
	}
	g.acquired = need
	return nil
}

// acquireAlone waits until no other waiting read is running and need bytes of memory are free,
// which other reads then leave free. It holds no memory while it waits.
func (g *Reading) acquireAlone(ctx context.Context, need int64, until time.Time) error {
	ctx, done := g.s.waitContext(ctx, until)
	defer done()
	if g.acquired < g.s.semSize {
		g.s.sem.Release(g.acquired)
		g.acquired = 0
		if g.s.sem.Acquire(ctx, g.s.semSize) != nil {
			return tooLong(context.Cause(ctx))
		}
		g.acquired = g.s.semSize
	}
	room, err := g.s.fetch.ReserveWait(ctx, need)
	if err != nil {
		return tooLong(err)
	}
	room.Release() // the broker reserves part of it itself
	return nil
}

// waitContext returns the context of a wait for memory.
func (s *Source) waitContext(ctx context.Context, until time.Time) (context.Context, func()) {
	ctx, done := s.o.Drain.Until(ctx)
	ctx, cancel := context.WithDeadline(ctx, until)
	return ctx, func() { cancel(); done() }
}

// tooLong turns the deadline of a wait for memory into budget.ErrOver.
func tooLong(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", budget.ErrOver, err)
	}
	return err
}

// settle reduces the share of the semaphore to the real size of the collected answer, while it is
// sent.
func (g *Reading) settle() {
	used := g.memory.Reservation().Size()
	for _, f := range g.fetched {
		for i := range f.Parts {
			for j := range f.Parts[i].Chunks {
				if c := &f.Parts[i].Chunks[j]; c.Section == nil {
					used += c.Size
				}
			}
		}
	}
	if used < g.acquired {
		g.s.sem.Release(g.acquired - used)
		g.acquired = used
	}
}

// restart releases everything except the semaphore and starts the collection again.
func (g *Reading) restart(from int64) {
	g.release()
	g.Offset, g.Count, g.Bytes, g.full, g.short, g.buf = from, 0, 0, false, false, nil
}
