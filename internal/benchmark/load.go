package benchmark

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sebbroker/seb/internal/machine"
	"github.com/sebbroker/seb/internal/progress"
)

// request sends request number i and returns the number of records and of their bytes. A worker
// calls its own request from one goroutine.
type request func(ctx context.Context, i int) (records, bytes int64, err error)

// load is n requests by a number of workers.
type load struct {
	workers, n int
	worker     func() request // returns the request of one worker
	bar        *progress.Bar
}

// run sends all requests; the first error ends it.
func (l *load) run(ctx context.Context) (run, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		sum  run
		next atomic.Int64
		mu   sync.Mutex // guards sum
		took = newLatencies()
		wg   sync.WaitGroup
	)
	cpu, heap, start := machine.CPUTime(), allocated(), time.Now()
	for w := range l.workers {
		wg.Go(func() {
			mine, err := l.loop(ctx, &next, took.of(w))
			if err != nil {
				cancel(err)
			}
			mu.Lock()
			defer mu.Unlock()
			sum.Requests += mine.Requests
			sum.Records += mine.Records
			sum.Bytes += mine.Bytes
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return run{}, err
	}
	sum.finish(time.Since(start), machine.CPUTime()-cpu)
	sum.Allocated = allocated().since(heap, sum.Requests)
	sum.Latency = took.info()
	return sum, nil
}

// loop is one worker.
func (l *load) loop(ctx context.Context, next *atomic.Int64, took *latencies) (run, error) {
	var r run
	send := l.worker()
	for ctx.Err() == nil {
		i := int(next.Add(1)) - 1
		if i >= l.n {
			break
		}
		start := time.Now()
		records, bytes, err := send(ctx, i)
		if err != nil {
			return r, fmt.Errorf("request %d: %w", i, err)
		}
		took.add(time.Since(start))
		r.Requests++
		r.Records += records
		r.Bytes += bytes
		l.bar.Add(1)
	}
	return r, nil
}
