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

// gatherSize is the buffer that small pieces of an answer are copied together in.
const gatherSize = 64 << 10

// Values collects values. A patient reading waits for memory, and if its answer comes out short for want of it, it begins
// again with more; when it has waited Options.BudgetWait it takes what there is.
func (g *Reading) Values(ctx context.Context) (*encoding.Values, error) {
	if !g.Patient {
		return g.tryValues(ctx)
	}
	from, need := g.Offset, g.estimate()
	fits := need <= g.s.gateSize
	if need > 0 {
		if err := g.enter(ctx, need); err != nil && !lacksMemory(err) {
			return nil, err
		}
	}
	v, err := g.tryValues(ctx)
	for until := time.Now().Add(g.s.o.BudgetWait); lacksMemory(err) || err == nil && g.short && fits; {
		if need >= g.s.fetch.Limit() || time.Now().After(until) {
			break // all there is was not enough, or there is no hope
		}
		need = min(max(2*need, windowSize), g.s.fetch.Limit())
		g.restart(from)
		if err := g.alone(ctx, need, until); err != nil && !lacksMemory(err) {
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

// lacksMemory says whether an error goes away when others give memory back.
func lacksMemory(err error) bool {
	return errors.Is(err, budget.ErrOver) || errors.Is(err, broker.ErrOverBudget)
}

// estimate is about how much memory the answer takes if it is what is asked for; 0 if nothing is there yet, or ever.
func (g *Reading) estimate() int64 {
	p, err := g.s.b.Partition(g.Topic, g.Partition)
	if err != nil {
		return 0
	}
	if g.Offset < p.Start || g.Offset >= p.Next {
		return 0
	}
	const perRecord = 128 // what a sink keeps beside the value
	each := p.Bytes/max(p.Records, 1) + 1
	n := min(g.MaxRecords, p.Next-g.Offset, p.Records)
	want := n * each
	if g.MaxBytes > 0 {
		want = min(want, g.MaxBytes) + each
		n = min(n, want/each)
	}
	// Whole batches are read, into buffers that are not quite filled, and the first and last only to a part.
	return 2*(want+min(p.Bytes, record.BatchTarget)) + n*perRecord + gatherSize
}

// enter waits at the gate.
func (g *Reading) enter(ctx context.Context, need int64) error {
	ctx, done := g.s.waiting(ctx, time.Now().Add(g.s.o.BudgetWait))
	defer done()
	need = min(need, g.s.gateSize)
	if g.s.gate.Acquire(ctx, need) != nil {
		return tooLong(context.Cause(ctx))
	}
	g.entered = need
	return nil
}

// alone waits until no other patient reading is under way and need bytes of memory are free, which the others leave alone
// then. Nothing is held meanwhile.
func (g *Reading) alone(ctx context.Context, need int64, until time.Time) error {
	ctx, done := g.s.waiting(ctx, until)
	defer done()
	if g.entered < g.s.gateSize {
		g.s.gate.Release(g.entered)
		g.entered = 0
		if g.s.gate.Acquire(ctx, g.s.gateSize) != nil {
			return tooLong(context.Cause(ctx))
		}
		g.entered = g.s.gateSize
	}
	room, err := g.s.fetch.ReserveWait(ctx, need)
	if err != nil {
		return tooLong(err)
	}
	room.Release() // the broker reserves part of it itself
	return nil
}

// waiting is the context of a wait for memory.
func (s *Source) waiting(ctx context.Context, until time.Time) (context.Context, func()) {
	ctx, done := s.o.Stops.Until(ctx)
	ctx, cancel := context.WithDeadline(ctx, until)
	return ctx, func() { cancel(); done() }
}

// tooLong makes the end of a wait for memory what it is to the client.
func tooLong(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", budget.ErrOver, err)
	}
	return err
}

// settle keeps as much of the gate as the collected answer really takes while it is sent.
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
	if used < g.entered {
		g.s.gate.Release(g.entered - used)
		g.entered = used
	}
}

// restart gives everything back but the place at the gate and begins anew.
func (g *Reading) restart(from int64) {
	g.release()
	g.Offset, g.Count, g.Bytes, g.full, g.short, g.buf = from, 0, 0, false, false, nil
}
