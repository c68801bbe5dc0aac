package store

import (
	"cmp"
	"context"
	"math"
	"slices"
)

// FiringQuery selects firings.
type FiringQuery struct {
	Trigger string // "": all
	Entity  string // "": all
	After   int64  // only firings with a higher Seq
	Before  int64  // only firings with a lower Seq; 0: no bound
	Newest  bool   // the newest first
	Limit   int    // maximum number
}

// Firings returns firings in the order of Seq. Each case follows an index in that order, so that the
// work depends on the limit and, with an entity and without a trigger, on the number of triggers
// that fired for the entity.
func (q Queries) Firings(ctx context.Context, w FiringQuery) ([]Firing, error) {
	switch {
	case w.Entity != "" && w.Trigger == "":
		return q.ofEntity(ctx, &w)
	case w.Entity != "":
		return q.queryFirings(ctx, "WHERE entity = ? AND trig = ? "+w.bounds(), []byte(w.Entity), w.Trigger, w.After, w.before(), w.Limit)
	case w.Trigger != "":
		return q.queryFirings(ctx, "WHERE trig = ? "+w.bounds(), w.Trigger, w.After, w.before(), w.Limit)
	}
	return q.queryFirings(ctx, "WHERE true "+w.bounds(), w.After, w.before(), w.Limit)
}

// bounds is the end of a statement: the bounds, the order and the limit.
func (w *FiringQuery) bounds() string {
	if w.Newest {
		return "AND seq > ? AND seq < ? ORDER BY seq DESC LIMIT ?"
	}
	return "AND seq > ? AND seq < ? ORDER BY seq LIMIT ?"
}

func (w *FiringQuery) before() int64 { return cmp.Or(w.Before, math.MaxInt64) }

// ofEntity merges the firings of an entity by all triggers. The index has them by trigger, and
// sorting them would read all of them for each page.
func (q Queries) ofEntity(ctx context.Context, w *FiringQuery) (list []Firing, err error) {
	var found []int64
	for trigger := ""; ; {
		last := trigger
		err := q.query(ctx, func(scan func(...any) error) error { return scan(&trigger) },
			"SELECT trig FROM fire WHERE entity = ? AND trig > ? ORDER BY trig LIMIT 1", []byte(w.Entity), trigger)
		if err != nil {
			return nil, err
		}
		if trigger == last {
			break
		}
		err = q.query(ctx, func(scan func(...any) error) error {
			var seq int64
			err := scan(&seq)
			found = append(found, seq)
			return err
		}, "SELECT seq FROM fire WHERE entity = ? AND trig = ? "+w.bounds(), []byte(w.Entity), trigger, w.After, w.before(), w.Limit)
		if err != nil {
			return nil, err
		}
		slices.Sort(found)
		if w.Newest {
			slices.Reverse(found)
		}
		found = found[:min(len(found), w.Limit)]
	}
	for _, seq := range found {
		x, err := only(q.queryFirings(ctx, "WHERE seq = ?", seq))
		if err != nil {
			return nil, err
		}
		if x == nil { // deleted meanwhile; a shorter list would mean that there are no more
			return q.ofEntity(ctx, w)
		}
		list = append(list, *x)
	}
	return list, nil
}
