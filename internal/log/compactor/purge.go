package compactor

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/sebbroker/seb/internal/log/pack"
	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/internal/objstore"
	"github.com/sebbroker/seb/record"
)

// purging is the progress of a purge. A restarted broker begins again.
type purging struct {
	of    pack.Purge
	since int64                     // time (µs) at which the compaction was complete
	pure  map[state.PackID]struct{} // packs without removed records
}

// purge rewrites a pack that has removed records of a purge between the data of other topics, and
// reports whether it did. Packs and commit objects without remaining data need no rewriting,
// because a collection deletes them.
func (m *Merger) purge(ctx context.Context, cfg pack.Config, view *state.State, now int64) (made bool, err error) {
	p := &m.purging
	if p.of != cfg.Purge {
		*p = purging{of: cfg.Purge, pure: map[state.PackID]struct{}{}}
	}
	if p.of.Below == 0 || p.of.Owed(view, p.since) {
		return false, nil
	}
	if p.since == 0 {
		p.since = now // commit objects from before must be merged, too
		return false, nil
	}
	for id, key := range pack.Packs(view) {
		if _, pure := p.pure[id]; pure {
			continue
		}
		dead, err := m.hasDead(ctx, view, id, key)
		if err != nil && !errors.Is(err, record.ErrCorrupt) {
			return false, fmt.Errorf("purge: read %s: %w", key, err)
		}
		if p.pure[id] = struct{}{}; !dead {
			continue
		}
		if plan := pack.Rewriting(view, cfg, id); plan != nil {
			return m.merge(ctx, plan, view)
		}
	}
	m.opt.Logger.Info("removed records purged", "topic", p.of.Topic, "below", p.of.Below)
	m.opt.Purged(p.of.Below)
	return false, nil
}

// indexGuess is the length of the first read of a pack: a head and hundreds of index entries.
const indexGuess = 64 << 10

// hasDead reports whether a pack has records of the purge that no reader can reach.
func (m *Merger) hasDead(ctx context.Context, view *state.State, id state.PackID, key string) (dead bool, err error) {
	for size := int64(indexGuess); ; {
		b, err := m.readStart(ctx, key, size)
		if err != nil {
			return false, err
		}
		_, _, index, need, err := record.DecodeMeta(b)
		if err != nil {
			return false, err
		}
		if need == 0 {
			for i := range index {
				dead = dead || m.purging.of.Dead(view, id, &index[i])
			}
			return dead, nil
		}
		if int64(need) <= size {
			return false, &record.CorruptError{What: "object is cut off", Want: int64(need), Got: int64(len(b))}
		}
		size = int64(need)
	}
}

func (m *Merger) readStart(ctx context.Context, key string, size int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	o, err := m.opt.Store.Get(ctx, key, objstore.Range{Length: size})
	if err != nil {
		return nil, err
	}
	defer o.Body.Close()
	return io.ReadAll(io.LimitReader(o.Body, size))
}
