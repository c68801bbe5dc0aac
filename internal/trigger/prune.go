package trigger

import (
	"context"
	"time"

	"github.com/sebbroker/seb/internal/follow"
	"github.com/sebbroker/seb/internal/trigger/rule"
	"github.com/sebbroker/seb/internal/trigger/store"
	"github.com/sebbroker/seb/record"
)

// pruneEvery is the interval at which pruning starts again with the first firing, because more
// firings may be prunable.
const pruneEvery = int64(24 * time.Hour / time.Millisecond)

// pruneNewest bounds the search for a firing that stands for the earlier ones of its entity.
const pruneNewest = 100

// pruning is the progress of pruning firings whose records were trimmed.
type pruning struct {
	start int64 // start offset of the topic of firings
	since int64 // time (ms) of its first record then
	after int64 // Seq of the last examined firing
	began int64 // log time (ms) of the last start with the first firing
	done  bool
}

// prune deletes firings whose records were trimmed, and which no decision needs. Its caller has
// read and applied everything, so only a later version could compute such a firing again.
func (w *worker) prune(ctx context.Context) (more bool, err error) {
	spans, x := w.pos.Topics[1], &w.pruning
	if len(spans) == 0 || spans[0].Start == 0 {
		return false, nil
	}
	now := w.pos.Time / 1000
	if spans[0].Start != x.start {
		since, ok, err := w.firstTime(ctx, w.topics[1], spans[0])
		if err != nil || !ok {
			return false, err
		}
		if since > w.f.Floor() { // before the deletion, in case of a crash
			if err := w.f.SetFloor(ctx, since); err != nil {
				return false, err
			}
		}
		x.start, x.since, x.done = spans[0].Start, since, false
	}
	if now >= x.began+pruneEvery {
		x.began, x.after, x.done = now, 0, false
	}
	if x.done {
		return false, nil
	}
	err = w.f.Update(ctx, func(tx *store.Tx) error { return w.pruneSome(tx) })
	return !x.done, err
}

// firstTime returns the time (ms) of the first record of a span of partition 0; ok is false if
// there is none.
func (w *worker) firstTime(ctx context.Context, topic record.ID, span follow.Span) (at int64, ok bool, err error) {
	if span.Start >= span.Next {
		return 0, false, nil
	}
	p, err := w.readAt(ctx, store.CursorKey{Topic: topic}, span)
	if p == nil {
		return 0, false, err
	}
	defer p.Release()
	err = w.eachFrom(p, span.Start, func(r *record.Record, _ bool) error {
		if !ok {
			at, ok = r.Timestamp, true
		}
		return nil
	})
	return at, ok, err
}

// pair is a trigger, by its ID, and an entity.
type pair struct{ trigger, entity string }

// pruneSome examines a page of firings, and the earlier ones of the same entities.
func (w *worker) pruneSome(tx *store.Tx) error {
	list, err := tx.Firings(w.pruning.after, w.opt.Sizes.Prune)
	if err != nil {
		return err
	}
	w.pruning.done = len(list) < w.opt.Sizes.Prune
	to, pairs := w.pruning.after, map[pair]bool{}
	for i := range list {
		if list[i].Recorded >= w.pruning.since { // the rest is newer, but for a few
			w.pruning.done = true
			break
		}
		to, pairs[pair{list[i].Trigger, list[i].Entity}] = list[i].Seq, true
	}
	for k := range pairs {
		if err := w.prunePair(tx, k, to); err != nil {
			return err
		}
	}
	w.pruning.after = to
	return nil
}

// prunePair deletes firings of an entity up to a Seq.
func (w *worker) prunePair(tx *store.Tx, k pair, to int64) error {
	newest, err := tx.NewestFirings(k.entity, k.trigger, pruneNewest)
	if err != nil || len(newest) == 1 && newest[0].Recorded != 0 && w.find(k.trigger) != nil {
		return err
	}
	later := false // a later record shows that the trigger has fired
	for i := range newest {
		later = later || newest[i].Seq > to && newest[i].Recorded != 0
	}
	last, err := tx.LastFiring(k.trigger)
	if err != nil {
		return err
	}
	for {
		list, err := tx.FiringsUpTo(k.entity, k.trigger, to, chunk)
		if err != nil || len(list) == 0 {
			return err
		}
		for i := range list {
			x := &list[i]
			if to = x.Seq - 1; x.State == rule.Computed || x.State == rule.Carried && x.Recorded == 0 {
				return nil // it is not recorded yet, and its outcome depends on the earlier ones
			}
			drop := x.Seq != last // version numbers continue after the last firing
			if drop {
				drop, err = w.useless(tx, x, later)
			}
			if err != nil {
				return err
			}
			if !drop {
				later = later || x.Recorded != 0
				continue
			}
			w.met.pruned.Inc()
			if err := tx.DeleteFiring(x.ID); err != nil {
				return err
			}
		}
	}
}

// useless reports whether no decision depends on a firing. later: a later record shows that its
// trigger has fired for the entity, which matters to a version that fires once.
func (w *worker) useless(tx *store.Tx, x *store.Firing, later bool) (bool, error) {
	l := w.find(x.Trigger)
	last := max(x.Recorded, x.Changed, x.At)
	if x.Recorded == 0 && l != nil && l.Version == x.Version {
		last = max(last, l.At) // the time since which it is known
	}
	switch {
	case x.State == rule.Pending, last >= w.pruning.since:
		return false, nil
	case l == nil:
	case x.Recorded != 0 && !later: // the last firing may also be retracted
		return false, nil
	case w.opt.CapSpan != nil && last >= w.pos.Time/1000-l.capSpan.Milliseconds():
		return false, nil
	}
	pending, err := tx.InOutbox(x.ID)
	return !pending, err
}
