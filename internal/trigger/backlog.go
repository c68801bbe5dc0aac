package trigger

import (
	"context"
	"fmt"

	"github.com/sebbroker/seb/internal/trigger/store"
)

// EntityFirings returns the newest firings of an entity by a trigger, newest first, at most limit.
func (e *Engine) EntityFirings(ctx context.Context, trigger, entity string, limit int) (list []Firing, err error) {
	if limit < 1 || limit > LimitMax {
		return nil, fmt.Errorf("%w: limit: want 1 to %d, given %d", ErrInvalid, LimitMax, limit)
	}
	err = e.follower.Query(func(q store.Queries) (err error) {
		list, err = q.EntityFirings(ctx, entity, trigger, limit)
		return err
	})
	return list, err
}

// Backlog returns the number of firings that wait for delivery, now or later, and when the first of
// them is due (ms; 0: none).
func (e *Engine) Backlog(ctx context.Context) (n, first int64, err error) {
	err = e.follower.Query(func(q store.Queries) (err error) {
		n, first, err = q.Backlog(ctx)
		return err
	})
	return n, first, err
}
