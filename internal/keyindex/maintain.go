package keyindex

import (
	"context"
	"errors"
	"time"

	"github.com/sebbroker/seb/internal/follow"
	"github.com/sebbroker/seb/internal/localdb"
)

// spill writes the recent entries to a run.
func (w *follower) spill(ctx context.Context) error {
	parts, known := w.opt.Log.Partitions()
	if !known {
		return nil // without them no entry can be pruned; later
	}
	return w.f.spill(ctx, w.rules(parts))
}

// rules returns the rules of the topics by their numbers.
func (w *follower) rules(parts []follow.Partition) rules {
	r := make(rules, len(parts))
	for i := range parts {
		p := &parts[i]
		if number, ok := w.topics[p.Topic]; ok {
			r[topicPart{number, p.Partition}] = bounds{p.Start, p.Clean, p.Swept}
		}
	}
	return r
}

// maintain merges and deletes a little; more says that there is more to do.
func (w *follower) maintain(ctx context.Context, parts []follow.Partition) (more bool, err error) {
	f := w.f
	w.mergeUnused(parts)
	if w.unmerged.Left(time.Now(), w.opt.sizes.retry) == 0 {
		f.pick(func() rules { return w.rules(parts) })
	}
	if len(f.merges) == 0 {
		w.owed = 0
	} else if err := w.merge(ctx); err != nil {
		if errors.Is(err, localdb.ErrDamaged) || ctx.Err() != nil {
			return false, err
		}
		// Merging needs disk space that reading new records does not, so reading continues.
		w.unmerged.Again(time.Now(), w.opt.sizes.retry)
		w.opt.Logger.Warn("key index merge failed, retrying", "path", w.opt.Path, "err", err)
	}
	swept, err := f.sweep(ctx, w.opt.sizes.sweepBlocks, w.free)
	return swept || len(f.merges) > 0, err
}

// merge continues a merge by enough entries to keep up with new records.
func (w *follower) merge(ctx context.Context) error {
	m := w.f.merges[0]
	before := m.moved
	n := min(max(w.owed, w.opt.sizes.mergeSlice), 8*w.opt.sizes.mergeSlice)
	w.owed = max(0, w.owed-n)
	done, err := w.f.merge(ctx, n)
	w.met.merged.AddInt64(m.moved - before)
	if err != nil || !done {
		return err
	}
	w.unmerged = follow.Retry{}
	if m.all {
		w.compact = w.f.entries()
	}
	w.publish(w.f, w.topics, nil)
	return nil
}

// mergeUnused starts a merge of everything if most entries are of records that are no longer in the
// log.
func (w *follower) mergeUnused(parts []follow.Partition) {
	if time.Since(w.unusedAt) < w.opt.sizes.unusedEvery {
		return
	}
	w.unusedAt = time.Now()
	n := w.f.entries()
	if n >= w.opt.sizes.unusedMin && n >= 2*w.opt.Log.Records() && n >= w.compact+w.compact/2 {
		w.f.pickAll(w.rules(parts))
	}
}
