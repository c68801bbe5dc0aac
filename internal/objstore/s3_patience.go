package objstore

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// patience is how long a store is waited for. One that always needs longer than the first limit would never be heard, and
// what it is sent would be sent again for ever: so the limit doubles, up to three times the first, when an answer did not
// come, and shrinks step by step with answers that come soon. All methods may be called concurrently.
type patience struct {
	base  time.Duration
	extra atomic.Int64 // nanoseconds beyond base
}

func (p *patience) limit() time.Duration { return p.base + time.Duration(p.extra.Load()) }

// late notes that there was no answer within limit.
func (p *patience) late(limit time.Duration) {
	// Requests that were sent with the same limit raise it once.
	p.extra.CompareAndSwap(int64(limit-p.base), int64(min(2*limit, 3*p.base)-p.base))
}

// heard notes an answer.
func (p *patience) heard(took time.Duration) {
	if extra := p.extra.Load(); extra > 0 && took < p.base/2 {
		p.extra.CompareAndSwap(extra, max(0, extra-int64(p.base/2)))
	}
}

// wait returns a context for a request, which ends when the store has had its time and so much more for the bytes it
// moves, and what is to be called after it.
func (p *patience) wait(ctx context.Context, more time.Duration) (context.Context, func()) {
	limit, begin := p.limit(), time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, limit+more, errStalled)
	return ctx, func() {
		p.note(ctx, limit, begin)
		cancel()
	}
}

// note takes what became of a request.
func (p *patience) note(ctx context.Context, limit time.Duration, begin time.Time) {
	switch {
	case ctx.Err() == nil:
		p.heard(time.Since(begin))
	case errors.Is(context.Cause(ctx), errStalled):
		p.late(limit)
	}
}
