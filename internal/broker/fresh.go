package broker

import (
	"context"
	"time"
)

// freshFor is the age up to which Fresh answers with an earlier confirmation: as often as a follower with readers polls.
const freshFor = time.Second

// freshness is the last confirmation that Fresh made.
type freshness struct {
	turn chan struct{} // capacity 1: held while at is read, and during a confirmation
	at   time.Time     // when the last one that succeeded began
}

// Fresh makes sure that a broker that only follows has seen what was committed up to a second before the call, so that lists
// and names are no older (rule R11). A leader knows its own. However many calls come together, one confirmation answers them:
// who waits for a turn behind it takes its result. Errors: those of Confirm.
func (b *Broker) Fresh(ctx context.Context) error {
	if !b.ReadOnly() {
		return nil
	}
	called := time.Now()
	select {
	case b.fresh.turn <- struct{}{}:
		defer func() { <-b.fresh.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if called.Sub(b.fresh.at) < freshFor {
		return nil
	}
	began := time.Now()
	if err := b.Confirm(ctx); err != nil {
		return err
	}
	b.fresh.at = began
	return nil
}
