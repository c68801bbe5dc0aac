package trigger

import (
	"context"
	"errors"

	"github.com/sebbroker/seb/internal/trigger/store"
)

// EntityQuery selects triggers that know an entity.
type EntityQuery struct {
	Entity string
	After  string               // only triggers with a higher ID
	May    func(id string) bool // only these triggers
	// Examined bounds the triggers that are looked up, whether they know the entity or not.
	Examined int
}

// EntityState is the state of an entity for a trigger.
type EntityState struct {
	Explanation // without Firings
	Topic       string
	Count       int   // its firings, at most store.FiredMax
	Last        int64 // the instant (ms) of the newest firing; 0: none
}

// Entity calls add for each trigger that has state or firings of an entity, ordered by ID, until
// add returns false. next is the After that continues, or "" at the end. Errors: ErrUnavailable,
// ErrClosed.
func (e *Engine) Entity(ctx context.Context, q EntityQuery, add func(x *EntityState) bool) (next string, err error) {
	chunk := make([]*Head, 0, store.KnowingMax)
	for next = q.After; q.Examined > 0; {
		chunk = chunk[:0]
		last := next
		for len(chunk) < min(store.KnowingMax, q.Examined) {
			h, err := e.Next(last)
			if err != nil {
				return "", err
			}
			if h == nil {
				break
			}
			if last = h.ID; q.May(h.ID) {
				chunk = append(chunk, h)
			}
		}
		if len(chunk) == 0 {
			return "", nil
		}
		q.Examined -= len(chunk)
		known, err := e.knowing(ctx, q.Entity, next, chunk)
		if err != nil {
			return "", err
		}
		for _, h := range chunk {
			if known[h.ID] {
				x, err := e.entityState(ctx, h, q.Entity)
				switch {
				case errors.Is(err, ErrUnknownTrigger): // deleted meanwhile
				case err != nil:
					return "", err
				case !add(&x):
					return next, nil
				}
			}
			next = h.ID
		}
	}
	return next, nil
}

// knowing returns which triggers of a chunk, whose IDs follow after in order, have state or firings
// of an entity.
func (e *Engine) knowing(ctx context.Context, entity, after string, chunk []*Head) (map[string]bool, error) {
	known := map[string]bool{}
	byNo, numbers := map[int64]string{}, make([]int64, 0, len(chunk))
	for _, h := range chunk {
		byNo[h.No], numbers = h.ID, append(numbers, h.No)
	}
	err := e.follower.Query(func(q store.Queries) error {
		with, err := q.Knowing(ctx, entity, numbers)
		if err != nil {
			return err
		}
		for _, no := range with {
			known[byNo[no]] = true
		}
		for id := after; ; {
			if id, err = q.NextFired(ctx, entity, id); err != nil || id == "" || id > chunk[len(chunk)-1].ID {
				return err
			}
			known[id] = true
		}
	})
	return known, err
}

func (e *Engine) entityState(ctx context.Context, h *Head, entity string) (x EntityState, err error) {
	x.Topic = h.Topic
	x.Explanation, err = e.explain(ctx, h.ID, entity, func(q store.Queries, _ *Explanation) (err error) {
		x.Count, x.Last, err = q.Fired(ctx, entity, h.ID)
		return err
	})
	return x, err
}
