package rules

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/sebbroker/seb/internal/engine/base/sorting"
	"github.com/sebbroker/seb/internal/engine/views"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/internal/triggers/rules/store"
	"github.com/sebbroker/seb/record"
)

// allDeadlines passes some of the deadlines that are complete.
func (w *worker) allDeadlines(ctx context.Context) (more bool, err error) {
	for topic, at := range w.complete {
		again, err := w.topicDeadlines(ctx, w.served(topic), at)
		if err != nil {
			return false, err
		}
		more = more || again
	}
	again, err := w.lateDeadlines(ctx)
	return more || again, err
}

// topicDeadlines passes the deadlines of triggers of one topic. A costly trigger comes after the
// others, in a transaction of its own, so that the others do not wait for it.
func (w *worker) topicDeadlines(ctx context.Context, lives []*live, at int64) (more bool, err error) {
	groups := make([][]*live, 1)
	for k := range lives {
		if l := lives[w.rotated(k, len(lives))]; l.avgWork >= costly {
			groups = append(groups, []*live{l})
		}
	}
	groups[0] = slices.DeleteFunc(slices.Clone(lives), func(l *live) bool { return l.avgWork >= costly })
	for i, some := range groups {
		if i < 2 { // the costly triggers share the work of one step
			w.left = w.opt.Sizes.Work
		}
		if w.left <= 0 {
			more = more || some[0].due <= at
			continue
		}
		again, err := w.deadlines(ctx, some, at)
		if err != nil {
			return false, err
		}
		more = more || again
	}
	w.left = w.opt.Sizes.Work
	for k := range lives {
		l := lives[w.rotated(k, len(lives))]
		if l.startChecked || at <= l.At {
			continue
		}
		if w.left <= 0 {
			return true, nil
		}
		again, err := w.checkStart(ctx, l, at)
		if err != nil {
			return false, err
		}
		more = more || again
	}
	return more, nil
}

// dueTransition is a transition at a deadline.
type dueTransition struct {
	live       *live
	key        store.InstKey
	transition rule.Transition
}

// deadlines passes the deadlines up to an instant, for triggers of one topic.
func (w *worker) deadlines(ctx context.Context, lives []*live, at int64) (more bool, err error) {
	lives = slices.DeleteFunc(slices.Clone(lives), func(l *live) bool { return l.due > at })
	if len(lives) == 0 {
		return false, nil
	}
	slices.SortStableFunc(lives, func(a, b *live) int { return cmp.Compare(a.due, b.due) })
	err = w.f.Update(ctx, func(tx *store.Tx) error {
		var rows []store.Due
		cut, n := at, 0
		for ; n < len(lives); n++ {
			left := w.opt.Sizes.Dues - len(rows)
			if left == 0 { // the remaining triggers have nothing due before lives[n].due
				cut, more = min(cut, lives[n].due), true
				break
			}
			before := len(rows)
			if rows, err = tx.Due(rows, lives[n].No, at, left); err != nil {
				return err
			}
			if len(rows)-before == left { // it may have more: limit the others too
				cut, more = min(cut, rows[len(rows)-1].At), true
			}
		}
		done, err := w.passDeadlines(tx, rows, cut)
		if err != nil {
			return err
		}
		more = more || !done
		for _, l := range lives[:n] {
			if l.due, err = tx.FirstDue(l.No); err != nil {
				return err
			}
		}
		return nil
	})
	return more, err
}

// passDeadlines evaluates rows at an instant, as far as they are due by then and memory allows:
// earliest deadline first. The transitions are applied in the order of time, trigger and entity.
func (w *worker) passDeadlines(tx *store.Tx, rows []store.Due, cut int64) (all bool, err error) {
	sorting.Stable(rows, func(a, b store.Due) int { return cmp.Compare(a.At, b.At) })
	var transitions []dueTransition
	all = true
	for i := range rows {
		k := rows[i].Key
		if rows[i].At > cut {
			break
		}
		if i > 0 && (w.rows.bytes > w.rows.limit || w.left <= 0) {
			all = false
			break
		}
		x, err := w.rows.get(tx, k)
		if err != nil {
			return false, err
		}
		l := w.byNo[k.Trigger]
		r, err := w.rule(tx, l)
		if err != nil {
			return false, err
		}
		s := w.instanceOf(k, x)
		if err := r.Until(s, cut); err != nil {
			return false, err
		}
		w.met.deadlines.Inc()
		w.spend(l, r, &x.row)
		w.rows.touch(k, x)
		for _, e := range s.Transitions {
			transitions = append(transitions, dueTransition{l, k, e})
		}
	}
	sorting.Stable(transitions, func(a, b dueTransition) int {
		return cmp.Or(cmp.Compare(a.transition.At, b.transition.At), cmp.Compare(a.live.ID, b.live.ID), cmp.Compare(a.key.Entity, b.key.Entity))
	})
	for some := range slices.Chunk(transitions, store.HeldMax) {
		ids := make([]rule.ID, len(some))
		for i := range some {
			ids[i] = some[i].transition.ID
		}
		if err := tx.HoldFirings(ids); err != nil {
			return false, err
		}
		for i := range some {
			if err := w.applyTransition(tx, some[i].live, some[i].key, &some[i].transition); err != nil {
				return false, err
			}
		}
	}
	return all, w.flush(tx)
}

// startRows bounds the rows of one scan, because a row may be large.
const startRows = 100

// checkStart evaluates some of the rows of a trigger with backfill `current`, which also fires for
// entities that were true at its creation.
func (w *worker) checkStart(ctx context.Context, l *live, at int64) (more bool, err error) {
	if l.startChecked || at <= l.At {
		return false, nil
	}
	err = w.f.Update(ctx, func(tx *store.Tx) error {
		l.scanned.Trigger = l.No
		keys, rows, err := tx.Scan(l.scanned, startRows)
		if err != nil {
			return err
		}
		var dues []store.Due
		for i := range keys {
			var row rule.Row
			if err := decodeRow(&row, &rows[i]); err != nil {
				return err
			}
			if row.Flags&(rule.StartChecked|rule.Completed) == 0 {
				dues = append(dues, store.Due{Key: keys[i], At: at})
			}
		}
		all, err := w.passDeadlines(tx, dues, at)
		if err != nil || !all { // the next scan leaves out the rows that are done
			return err
		}
		if len(keys) > 0 {
			l.scanned = keys[len(keys)-1]
		}
		l.startChecked = len(keys) < startRows
		return nil
	})
	return !l.startChecked, err
}

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
func (w *worker) firstTime(ctx context.Context, topic record.ID, span views.Span) (at int64, ok bool, err error) {
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
	pending, err := tx.InOutbox(x)
	return !pending, err
}
