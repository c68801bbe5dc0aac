package framed

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// large bounds the requests over slowBytes that are being read. The methods of a nil large do not.
type large struct {
	size    int64
	free    *semaphore.Weighted
	waiting atomic.Int64 // connections in begin
}

// begin waits until a request of n bytes may be read, as long as for its memory. The caller calls done,
// perhaps more than once, when it has been read.
func (l *large) begin(ctx context.Context, a *Admission, n int) (done func(), err error) {
	if l == nil || n <= slowBytes {
		return func() {}, nil
	}
	size := min(int64(n), l.size)
	if !l.free.TryAcquire(size) {
		if a.Wait > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, a.Wait)
			defer cancel()
		}
		l.waiting.Add(1)
		err = l.free.Acquire(ctx, size)
		l.waiting.Add(-1)
	}
	if err != nil {
		return nil, fmt.Errorf("wait for other large requests: %w", err)
	}
	return sync.OnceFunc(func() { l.free.Release(size) }), nil
}

// wanted reports whether a connection waits.
func (l *large) wanted() bool { return l != nil && l.waiting.Load() > 0 }
