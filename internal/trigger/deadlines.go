package trigger

import (
	"cmp"
	"context"
	"slices"

	"github.com/sebbroker/seb/internal/trigger/rule"
	"github.com/sebbroker/seb/internal/trigger/store"
	"github.com/sebbroker/seb/record"
)

// allDeadlines does what is due at instants that are complete, some of it.
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

// topicDeadlines passes what is due for the triggers of a topic. The deadlines of triggers that cost much come behind those of
// others, each by itself, so that the others do not wait for them.
func (w *worker) topicDeadlines(ctx context.Context, lives []*live, at int64) (more bool, err error) {
	groups := make([][]*live, 1)
	for k := range lives {
		if l := lives[w.turned(k, len(lives))]; l.pace >= costly {
			groups = append(groups, []*live{l})
		}
	}
	groups[0] = slices.DeleteFunc(slices.Clone(lives), func(l *live) bool { return l.pace >= costly })
	for i, some := range groups {
		if i < 2 { // those that cost much share what one step may cost
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
		l := lives[w.turned(k, len(lives))]
		if l.crossed || at <= l.At {
			continue
		}
		if w.left <= 0 {
			return true, nil
		}
		again, err := w.cross(ctx, l, at)
		if err != nil {
			return false, err
		}
		more = more || again
	}
	return more, nil
}

// due is an edge at a deadline.
type due struct {
	live *live
	key  store.InstKey
	edge rule.Transition
}

// deadlines passes what is due up to an instant, for the triggers of one topic.
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
			if left == 0 { // nothing of those that are left out is due before the first of them
				cut, more = min(cut, lives[n].due), true
				break
			}
			before := len(rows)
			if rows, err = tx.Due(rows, lives[n].No, at, left); err != nil {
				return err
			}
			if len(rows)-before == left { // it may have more, so others must not go further
				cut, more = min(cut, rows[len(rows)-1].At), true
			}
		}
		done, err := w.pass(tx, rows, cut)
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

// pass takes rows through to an instant, as far as they are due by then and there is memory for them: those that are due
// first, first. What fires comes in the order of time, trigger and entity.
func (w *worker) pass(tx *store.Tx, rows []store.Due, cut int64) (all bool, err error) {
	slices.SortStableFunc(rows, func(a, b store.Due) int { return cmp.Compare(a.At, b.At) })
	var edges []due
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
		s := w.at(k, x)
		if err := r.Until(s, cut); err != nil {
			return false, err
		}
		w.met.deadlines.Inc()
		w.spend(l, r, &x.row)
		w.rows.touch(k, x)
		for _, e := range s.Transitions {
			edges = append(edges, due{l, k, e})
		}
	}
	slices.SortStableFunc(edges, func(a, b due) int {
		return cmp.Or(cmp.Compare(a.edge.At, b.edge.At), cmp.Compare(a.live.ID, b.live.ID), cmp.Compare(a.key.Entity, b.key.Entity))
	})
	for i := range edges {
		e := &edges[i]
		if err := w.edge(tx, e.live, e.key, &e.edge); err != nil {
			return false, err
		}
	}
	return all, w.flush(tx)
}

// crossing is how many rows are looked at at a time, which may be large.
const crossing = 100

// cross looks at some of the rows of a trigger that fires for what was true when it was made.
func (w *worker) cross(ctx context.Context, l *live, at int64) (more bool, err error) {
	if l.crossed || at <= l.At {
		return false, nil
	}
	err = w.f.Update(ctx, func(tx *store.Tx) error {
		l.scanned.Trigger = l.No
		keys, rows, err := tx.Scan(l.scanned, crossing)
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
		all, err := w.pass(tx, dues, at)
		if err != nil || !all { // those that are done are not looked at again
			return err
		}
		if len(keys) > 0 {
			l.scanned = keys[len(keys)-1]
		}
		l.crossed = len(keys) < crossing
		return nil
	})
	return !l.crossed, err
}

// ready is whether the instants of a topic are complete as far as its log goes.
func (w *worker) ready(topic record.ID) bool { return w.complete[topic] == w.pos.Complete() }
