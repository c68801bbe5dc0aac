package trigger

import (
	"context"
	"fmt"

	"github.com/sebbroker/seb/internal/trigger/store"
)

// EntityFirings are an entity's firings of a trigger, the newest first, at most limit.
func (e *Engine) EntityFirings(ctx context.Context, trigger, entity string, limit int) (list []Firing, err error) {
	if limit < 1 || limit > LimitMax {
		return nil, fmt.Errorf("%w: limit %d is not between 1 and %d", ErrInvalid, limit, LimitMax)
	}
	err = e.fold.Query(func(q store.Queries) (err error) {
		list, err = q.EntityFirings(ctx, entity, trigger, limit)
		return err
	})
	return list, err
}

// Backlog is how many firings are to be delivered, now or later, and when the first of them is (ms; 0 if none is).
func (e *Engine) Backlog(ctx context.Context) (n, first int64, err error) {
	err = e.fold.Query(func(q store.Queries) (err error) {
		n, first, err = q.Backlog(ctx)
		return err
	})
	return n, first, err
}
