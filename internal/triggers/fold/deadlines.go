package fold

import (
	"cmp"
	"context"
	"slices"

	"github.com/sebbroker/seb/internal/triggers/rule"
	"github.com/sebbroker/seb/internal/triggers/store"
	"github.com/sebbroker/seb/record"
)

// allDeadlines does what is due at instants that are complete, some of it.
func (w *worker) allDeadlines(ctx context.Context) (more bool, err error) {
	for topic, at := range w.complete {
		if bug(bugWallClock) {
			at = w.opt.Now().UnixMilli()
		}
		lives := w.served(topic)
		again, err := w.deadlines(ctx, lives, at)
		if err != nil {
			return false, err
		}
		more = more || again
		for _, l := range lives {
			again, err := w.cross(ctx, l, at)
			if err != nil {
				return false, err
			}
			more = more || again
		}
	}
	return more, nil
}

// due is an edge at a deadline.
type due struct {
	live *live
	key  store.InstKey
	edge rule.Edge
}

// deadlines passes what is due up to an instant, for the triggers of one topic.
func (w *worker) deadlines(ctx context.Context, lives []*live, at int64) (more bool, err error) {
	lives = slices.DeleteFunc(slices.Clone(lives), func(l *live) bool { return l.due > at })
	if len(lives) == 0 {
		return false, nil
	}
	err = w.f.Update(ctx, func(tx *store.Tx) error {
		var rows []store.Due
		cut := at // of a trigger with more rows than are done at a time only the first are, so others must not go further
		for _, l := range lives {
			n := len(rows)
			if rows, err = tx.Due(rows, l.trig.No, at, w.opt.Sizes.Dues); err != nil {
				return err
			}
			if len(rows)-n == w.opt.Sizes.Dues {
				cut, more = min(cut, rows[len(rows)-1].At), true
			}
		}
		if err := w.pass(tx, rows, cut); err != nil {
			return err
		}
		for _, l := range lives {
			if l.due, err = tx.FirstDue(l.trig.No); err != nil {
				return err
			}
		}
		return nil
	})
	return more, err
}

// pass takes rows through to an instant, as far as they are due by then. What fires comes in the order of time, trigger
// and entity.
func (w *worker) pass(tx *store.Tx, rows []store.Due, cut int64) error {
	var edges []due
	for i := range rows {
		k := rows[i].Key
		if rows[i].At > cut {
			continue
		}
		x, err := w.rows.get(tx, k)
		if err != nil {
			return err
		}
		l := w.byNo[k.Trigger]
		s := w.at(k, x)
		if err := l.rule.Until(s, cut); err != nil {
			return err
		}
		w.met.deadlines.Inc()
		w.rows.touch(k, x)
		for _, e := range s.Edges {
			edges = append(edges, due{l, k, e})
		}
	}
	slices.SortStableFunc(edges, func(a, b due) int {
		return cmp.Or(cmp.Compare(a.edge.At, b.edge.At), cmp.Compare(a.live.trig.ID, b.live.trig.ID), cmp.Compare(a.key.Entity, b.key.Entity))
	})
	for i := range edges {
		e := &edges[i]
		if err := w.edge(tx, e.live, e.key, &e.edge); err != nil {
			return err
		}
	}
	return w.flush(tx)
}

// cross looks at some of the rows of a trigger that fires for what was true when it was made.
func (w *worker) cross(ctx context.Context, l *live, at int64) (more bool, err error) {
	if l.crossed || at <= l.rule.Def.At {
		return false, nil
	}
	err = w.f.Update(ctx, func(tx *store.Tx) error {
		l.scanned.Trigger = l.trig.No
		keys, rows, err := tx.Scan(l.scanned, chunk)
		if err != nil {
			return err
		}
		var dues []store.Due
		for i := range keys {
			var row rule.Row
			if err := decodeRow(&row, &rows[i]); err != nil {
				return err
			}
			if row.Flags&(rule.Crossed|rule.Over) == 0 {
				dues = append(dues, store.Due{Key: keys[i], At: at})
			}
		}
		if len(keys) > 0 {
			l.scanned = keys[len(keys)-1]
		}
		l.crossed = len(keys) < chunk
		return w.pass(tx, dues, at)
	})
	return !l.crossed, err
}

// ready is whether the instants of a topic are complete as far as its log goes.
func (w *worker) ready(topic record.ID) bool { return w.complete[topic] == w.pos.Complete() }
