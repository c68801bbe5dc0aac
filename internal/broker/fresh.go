package broker

import (
	"context"
	"time"
)

// freshFor is the age up to which Fresh reuses a confirmation. A follower with readers polls as
// often.
const freshFor = time.Second

// freshness is the last confirmation that Fresh made.
type freshness struct {
	semaphore chan struct{} // semaphore: held to read and write at, and during a confirmation
	at        time.Time     // when the last successful confirmation began
}

// Fresh ensures that a follower has seen all commits up to one second before the call, so that
// lists and names are no older (rule R11). A leader knows its own commits. A follower asks the store
// only if its leader does not tell it.
//
// Concurrent calls share one confirmation. A call that waits for the semaphore behind a
// confirmation finds at within freshFor of its own start, and reuses that result. Errors: those of
// Confirm.
func (b *Broker) Fresh(ctx context.Context) error { return b.FreshWithin(ctx, freshFor) }

// FreshWithin is Fresh with another age of the state.
func (b *Broker) FreshWithin(ctx context.Context, age time.Duration) error {
	if !b.Follows() {
		return nil
	}
	if b.opt.Told != nil {
		if pos, old, ok := b.opt.Told(); ok && old < age && b.Applied(pos) {
			return nil
		}
	}
	called := time.Now()
	select {
	case b.fresh.semaphore <- struct{}{}:
		defer func() { <-b.fresh.semaphore }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if called.Sub(b.fresh.at) < age {
		return nil
	}
	began := time.Now()
	if err := b.Confirm(ctx); err != nil {
		return err
	}
	b.fresh.at = began
	return nil
}
