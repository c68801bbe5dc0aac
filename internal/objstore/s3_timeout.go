package objstore

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// adaptiveTimeout is the time limit for responses of the store. With a fixed limit, a store that
// always needs longer would never succeed, and every request would be repeated permanently. So a
// timeout doubles the limit, up to three times base, and quick responses reduce it step by step.
// All methods may be called concurrently.
type adaptiveTimeout struct {
	base  time.Duration
	extra atomic.Int64 // nanoseconds beyond base
}

func (p *adaptiveTimeout) limit() time.Duration { return p.base + time.Duration(p.extra.Load()) }

// late records that there was no response within limit.
func (p *adaptiveTimeout) late(limit time.Duration) {
	// Concurrent requests with the same limit raise it once.
	p.extra.CompareAndSwap(int64(limit-p.base), int64(min(2*limit, 3*p.base)-p.base))
}

// answered records a response.
func (p *adaptiveTimeout) answered(took time.Duration) {
	if extra := p.extra.Load(); extra > 0 && took < p.base/2 {
		p.extra.CompareAndSwap(extra, max(0, extra-int64(p.base/2)))
	}
}

// wait returns a context for a request and a function to call after it. The context ends after the
// limit plus more, which is the time for the bytes to move.
func (p *adaptiveTimeout) wait(ctx context.Context, more time.Duration) (context.Context, func()) {
	limit, begin := p.limit(), time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, limit+more, errStalled)
	return ctx, func() {
		p.note(ctx, limit, begin)
		cancel()
	}
}

// note records the outcome of a request.
func (p *adaptiveTimeout) note(ctx context.Context, limit time.Duration, begin time.Time) {
	switch {
	case ctx.Err() == nil:
		p.answered(time.Since(begin))
	case errors.Is(context.Cause(ctx), errStalled):
		p.late(limit)
	}
}
