package trigger

import (
	"context"
	"time"

	"github.com/sebbroker/seb/internal/follow"
	"github.com/sebbroker/seb/internal/trigger/rule"
	"github.com/sebbroker/seb/internal/trigger/store"
	"github.com/sebbroker/seb/record"
)

// pruneAgain is how long after it all firings are looked at anew: some could not go then that can now.
const pruneAgain = int64(24 * time.Hour / time.Millisecond)

// pruneNewest is how many of an entity's newest firings are searched for one that stands for those before it.
const pruneNewest = 100

// pruning is how far firings were looked at whose records were trimmed.
type pruning struct {
	start int64 // where the topic of firings began
	since int64 // time (ms) of its first record then
	after int64 // Seq of the last firing that was looked at
	began int64 // when it last began with the first one, ms of the log's time
	done  bool
}

// prune takes away some of the firings of which the topic has no record any more, and on which nothing hangs. It is called
// when all is read and done: none of those can be worked out again then, but by a version that is made later.
func (w *worker) prune(ctx context.Context) (more bool, err error) {
	spans, x := w.pos.Topics[1], &w.old
	if len(spans) == 0 || spans[0].Start == 0 {
		return false, nil
	}
	now := w.pos.Time / 1000
	if spans[0].Start != x.start {
		since, ok, err := w.first(ctx, w.topics[1], spans[0])
		if err != nil || !ok {
			return false, err
		}
		if since > w.f.Floor() { // first, so that a stop between finds too little rather than too much in the log
			if err := w.f.SetFloor(ctx, since); err != nil {
				return false, err
			}
		}
		x.start, x.since, x.done = spans[0].Start, since, false
	}
	if now >= x.began+pruneAgain {
		x.began, x.after, x.done = now, 0, false
	}
	if x.done {
		return false, nil
	}
	err = w.f.Update(ctx, func(tx *store.Tx) error { return w.pruneSome(tx) })
	return !x.done, err
}

// first is the time (ms) of the first record of a span of partition 0; ok is false if there is none.
func (w *worker) first(ctx context.Context, topic record.ID, span follow.Span) (at int64, ok bool, err error) {
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

// pair is what firings are kept for: a trigger, by its id, and an entity.
type pair struct{ trigger, entity string }

// pruneSome looks at a page of firings, and at those before them of the same entities.
func (w *worker) pruneSome(tx *store.Tx) error {
	list, err := tx.Firings(w.old.after, w.opt.Sizes.Prune)
	if err != nil {
		return err
	}
	w.old.done = len(list) < w.opt.Sizes.Prune
	to, pairs := w.old.after, map[pair]bool{}
	for i := range list {
		if list[i].Recorded >= w.old.since { // those behind it are younger, but for a few; they go another day
			w.old.done = true
			break
		}
		to, pairs[pair{list[i].Trigger, list[i].Entity}] = list[i].Seq, true
	}
	for k := range pairs {
		if err := w.prunePair(tx, k, to); err != nil {
			return err
		}
	}
	w.old.after = to
	return nil
}

// prunePair takes away firings of an entity up to a Seq.
func (w *worker) prunePair(tx *store.Tx, k pair, to int64) error {
	newest, err := tx.NewestFirings(k.entity, k.trigger, pruneNewest)
	if err != nil || len(newest) == 1 && newest[0].Recorded != 0 && w.find(k.trigger) != nil {
		return err
	}
	later := false // there is one behind that says that the trigger has fired
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
				return nil // it is to be recorded yet, and what becomes of it depends on those before it
			}
			goes := x.Seq != last // versions go on behind it
			if goes {
				goes, err = w.useless(tx, x, later)
			}
			if err != nil {
				return err
			}
			if !goes {
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

// useless is whether nothing depends on a firing any more. later is whether there is one behind it that says that its
// trigger has fired for the entity, which a version that fires once asks.
func (w *worker) useless(tx *store.Tx, x *store.Firing, later bool) (bool, error) {
	l := w.find(x.Trigger)
	last := max(x.Recorded, x.Changed, x.At)
	if x.Recorded == 0 && l != nil && l.Version == x.Version {
		last = max(last, l.At) // that is how long it is known
	}
	switch {
	case x.State == rule.Pending, last >= w.old.since:
		return false, nil
	case l == nil:
	case x.Recorded != 0 && !later: // only the last one can still be taken back, too
		return false, nil
	case w.opt.Counts != nil && last >= w.pos.Time/1000-l.counts.Milliseconds():
		return false, nil
	}
	owed, err := tx.InOutbox(x.ID)
	return !owed, err
}
