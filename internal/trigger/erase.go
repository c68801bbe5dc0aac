package trigger

import (
	"context"
	"fmt"

	"github.com/sebbroker/seb/internal/trigger/rule"

	"github.com/sebbroker/seb/record"
)

// Erase forgets an entity of a topic of events: what triggers know of it, and its firings, delivered or not. It is a record
// of the topic, with the entity as its key and no value, so that whoever reads the events again forgets it too; what comes
// later is of an entity that is new. Events and records of firings stay in the log until they are trimmed. It returns when
// the engine has forgotten. Errors: ErrInvalid, ErrNotLeader, ErrUnavailable, those of an append.
func (e *Engine) Erase(ctx context.Context, topic, entity string) error {
	if entity == "" || len(entity) > rule.EntityBytesMax {
		return fmt.Errorf("%w: entity has %d bytes, not 1 to %d", ErrInvalid, len(entity), rule.EntityBytesMax)
	}
	if !e.opt.Log.Leads() {
		return ErrNotLeader
	}
	t, ok := e.opt.Log.Topic(topic)
	if !ok || !t.AppendTime {
		return fmt.Errorf("%w: %s is no topic of events", ErrInvalid, topic)
	}
	ends := make([]int64, t.Partitions) // which one it has its events in is for those to know who write them
	for part := range ends {
		base, err := e.opt.Log.Append(ctx, t.ID, uint32(part), []record.Record{{Key: []byte(entity)}})
		if err != nil {
			return fmt.Errorf("erase: %w", err)
		}
		ends[part] = base + 1
	}
	e.fold.loop.Wake()
	return e.fold.Wait(ctx, func(p *Progress) bool {
		next, followed := p.Applied[t.ID]
		for part := range ends {
			if followed && (part >= len(next) || next[part] < ends[part]) {
				return false
			}
		}
		return true
	})
}
