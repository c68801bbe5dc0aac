package broker

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/sebbroker/seb/internal/log/state"
)

// progress wakes callers that wait for a position. The zero value is ready.
type progress struct {
	waiting atomic.Int64 // callers in WaitApplied

	mu      sync.Mutex    // guards changed
	changed chan struct{} // closed at the next change; nil: no caller waits for it
}

// next returns a channel that is closed at the next change of the state.
func (p *progress) next() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	return p.changed
}

// wake is called when the state has changed, or changes as soon as its lock is released.
func (p *progress) wake() {
	if p.waiting.Load() == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// WaitApplied returns when the state of this broker includes all commits before pos. It makes no
// request. Error: ctx's cause.
func (b *Broker) WaitApplied(ctx context.Context, pos state.Position) error {
	if b.Applied(pos) {
		return nil
	}
	b.progress.waiting.Add(1)
	defer b.progress.waiting.Add(-1)
	for {
		// In this order: a change after the look closes the channel.
		changed := b.progress.next()
		if b.Applied(pos) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Applied reports whether the state of this broker includes all commits before pos.
func (b *Broker) Applied(pos state.Position) bool {
	now, _, known := b.LogPosition()
	return known && !now.Less(pos)
}
