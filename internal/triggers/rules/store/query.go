// Package store is the file of the engine's results: instances, firings and cursors. It is an
// SQLite file with one writer and several readers. It can be rebuilt from the log: a damaged file
// is refused with localdb.ErrDamaged, and the caller deletes it. FORMAT.md describes it.
package store

import (
	"cmp"
	"context"
	"database/sql"
	"math"
	"slices"
	"time"

	"github.com/sebbroker/seb/internal/engine/base/protobuf"
	"github.com/sebbroker/seb/internal/engine/views/localdb"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
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

// PendingMax bounds Counts.Pending.
const PendingMax = 1000

// Counts are the firings of a trigger, by its newest ones.
type Counts struct {
	// States counts firings by state, Day and Week those of the last 24 hours and 7 days.
	States    map[rule.State]int
	Day, Week int
	// Since is the instant (ms) of the oldest counted firing, if there are older ones; else 0.
	Since int64
	Last  int64 // instant (ms) of the newest firing; 0: none
	// Pending is the number of pending firings, at most PendingMax, and Oldest the instant (ms) of
	// the oldest of these; 0: none.
	Pending int
	Oldest  int64
}

// Counts counts up to limit firings of a trigger, the newest first, at an instant.
func (q Queries) Counts(ctx context.Context, trigger string, now time.Time, limit int) (c Counts, err error) {
	c.States = map[rule.State]int{}
	day, week := now.Add(-24*time.Hour).UnixMilli(), now.Add(-7*24*time.Hour).UnixMilli()
	n, oldest := 0, int64(0)
	err = q.Query(ctx, func(scan func(...any) error) error {
		var data sql.RawBytes
		var x Firing
		if err := scan(&data); err != nil {
			return err
		}
		if n++; n > limit {
			c.Since = oldest
			return nil
		}
		if err := protobuf.Decode(data[:max(len(data)-4, 0)], &x, (*Firing).fields); err != nil {
			return localdb.Damaged("firing of trigger %s: %v", trigger, err)
		}
		c.States[x.State]++
		if c.Last = max(c.Last, x.At); x.At >= day {
			c.Day++
		}
		if x.At >= week {
			c.Week++
		}
		if n == 1 || x.At < oldest {
			oldest = x.At
		}
		return nil
	}, "SELECT data FROM fire WHERE trig = ? ORDER BY seq DESC LIMIT ?", trigger, limit+1)
	if err != nil {
		return c, err
	}
	var first sql.NullInt64
	err = q.Query(ctx, func(scan func(...any) error) error { return scan(&c.Pending, &first) },
		"SELECT count(*), min(seq) FROM (SELECT seq FROM fire WHERE trig = ? AND due IS NOT NULL LIMIT ?)", trigger, PendingMax)
	if err != nil || !first.Valid {
		return c, err
	}
	x, err := only(q.queryFirings(ctx, "WHERE seq = ?", first.Int64))
	if x != nil {
		c.Oldest = x.At
	}
	return c, err
}

// Firings returns the firings of all triggers after a Seq, in order, at most limit.
func (t *Tx) Firings(after int64, limit int) ([]Firing, error) {
	return t.firings("WHERE seq > ? ORDER BY seq LIMIT ?", after, limit)
}

// FiringsUpTo returns the last firings of an entity by a trigger up to a Seq, at most limit, newest
// first.
func (t *Tx) FiringsUpTo(entity, trigger string, to int64, limit int) ([]Firing, error) {
	return t.firings("WHERE entity = ? AND trig = ? AND seq <= ? ORDER BY seq DESC LIMIT ?", []byte(entity), trigger, to, limit)
}

// NewestFirings returns the last firings of an entity by a trigger, at most limit, newest first.
func (t *Tx) NewestFirings(entity, trigger string, limit int) ([]Firing, error) {
	return t.firings("WHERE entity = ? AND trig = ? ORDER BY seq DESC LIMIT ?", []byte(entity), trigger, limit)
}

// LastFiring is the Seq of a trigger's last firing; 0 if there is none.
func (t *Tx) LastFiring(trigger string) (seq int64, err error) {
	if err := t.flush(); err != nil {
		return 0, err
	}
	err = t.Query(t.ctx, func(scan func(...any) error) error { return scan(&seq) },
		"SELECT coalesce(max(seq), 0) FROM fire WHERE trig = ?", trigger)
	return seq, err
}

// InOutbox reports whether a firing or its retraction is in the outbox.
func (t *Tx) InOutbox(x *Firing) (yes bool, err error) {
	if x.open() != nil {
		return true, nil
	}
	err = t.Query(t.ctx, func(scan func(...any) error) error { return scan(&yes) }, "SELECT count(*) > 0 FROM retraction WHERE id = ?", x.ID[:])
	return yes, err
}
