package store

import (
	"cmp"
	"context"
	"database/sql"
	"math"
	"slices"
	"strings"
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
		if trigger, err = q.NextFired(ctx, w.Entity, trigger); err != nil {
			return nil, err
		}
		if trigger == "" {
			break
		}
		err = q.Query(ctx, func(scan func(...any) error) error {
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

// NextFired returns the first trigger with an ID after a given one that has firings of an entity;
// "": none.
func (q Queries) NextFired(ctx context.Context, entity, after string) (trigger string, err error) {
	err = q.Query(ctx, func(scan func(...any) error) error { return scan(&trigger) },
		"SELECT trig FROM fire WHERE entity = ? AND trig > ? ORDER BY trig LIMIT 1", []byte(entity), after)
	return trigger, err
}

// FiredMax bounds the firings that Fired counts.
const FiredMax = 1000

// Fired counts the firings of an entity by a trigger, at most FiredMax. last is the instant (ms) of
// the newest one; 0: none.
func (q Queries) Fired(ctx context.Context, entity, trigger string) (n int, last int64, err error) {
	var seq sql.NullInt64
	err = q.Query(ctx, func(scan func(...any) error) error { return scan(&n, &seq) },
		"SELECT count(*), max(seq) FROM (SELECT seq FROM fire WHERE entity = ? AND trig = ? ORDER BY seq DESC LIMIT ?)",
		[]byte(entity), trigger, FiredMax)
	if err != nil || !seq.Valid {
		return n, 0, err
	}
	x, err := only(q.queryFirings(ctx, "WHERE seq = ?", seq.Int64))
	if x != nil {
		last = x.At
	}
	return n, last, err
}

// KnowingMax bounds the triggers of Knowing.
const KnowingMax = manyRows

var knowing = "SELECT DISTINCT trig FROM inst WHERE entity = ? AND trig IN (?" + strings.Repeat(", ?", KnowingMax-1) + ")"

// Knowing returns those of up to KnowingMax triggers, given by number, that have a row of an entity.
func (q Queries) Knowing(ctx context.Context, entity string, triggers []int64) (list []int64, err error) {
	if len(triggers) == 0 {
		return nil, nil
	}
	args := []any{[]byte(entity)}
	for i := range KnowingMax { // the last one fills the remaining parameters
		args = append(args, triggers[min(i, len(triggers)-1)])
	}
	err = q.Query(ctx, func(scan func(...any) error) error {
		var no int64
		err := scan(&no)
		list = append(list, no)
		return err
	}, knowing, args...)
	return list, err
}
