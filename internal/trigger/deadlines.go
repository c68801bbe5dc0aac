package trigger

import (
	"cmp"
	"context"
	"slices"

	"github.com/sebbroker/seb/internal/sorting"
	"github.com/sebbroker/seb/internal/trigger/rule"
	"github.com/sebbroker/seb/internal/trigger/store"
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
	for i := range transitions {
		e := &transitions[i]
		if err := w.applyTransition(tx, e.live, e.key, &e.transition); err != nil {
			return false, err
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

// ready reports whether the instants of a topic are complete up to the log's time.
func (w *worker) ready(topic record.ID) bool { return w.complete[topic] == w.pos.Complete() }
