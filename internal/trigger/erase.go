package trigger

import (
	"context"
	"fmt"

	"github.com/sebbroker/seb/internal/trigger/rule"

	"github.com/sebbroker/seb/record"
)

// Erase erases an entity of a topic of events: the state of its triggers and its firings, delivered
// or not. It appends a record with the entity as its key and without a value, so that every later
// reader of the events erases the entity too. Later events start with an empty state. Events and
// records of firings stay in the log until they are trimmed. Erase returns once the engine has
// applied the records. Errors: ErrInvalid, ErrNotLeader, ErrUnavailable, those of an append.
func (e *Engine) Erase(ctx context.Context, topic, entity string) error {
	if entity == "" || len(entity) > rule.EntityBytesMax {
		return fmt.Errorf("%w: entity: %d bytes, want 1 to %d", ErrInvalid, len(entity), rule.EntityBytesMax)
	}
	if !e.opt.Log.Leads() {
		return ErrNotLeader
	}
	t, ok := e.opt.Log.Topic(topic)
	if !ok || !t.AppendTime {
		return fmt.Errorf("%w: topic %q does not hold events", ErrInvalid, topic)
	}
	ends := make([]int64, t.Partitions) // the partitioner is unknown
	for part := range ends {
		base, err := e.opt.Log.Append(ctx, t.ID, uint32(part), []record.Record{{Key: []byte(entity)}})
		if err != nil {
			return fmt.Errorf("erase: %w", err)
		}
		ends[part] = base + 1
	}
	e.follower.loop.Wake()
	return e.follower.Wait(ctx, func(p *Progress) bool {
		next, followed := p.Applied[t.ID]
		for part := range ends {
			if followed && (part >= len(next) || next[part] < ends[part]) {
				return false
			}
		}
		return true
	})
}
