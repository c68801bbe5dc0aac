package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"github.com/sebbroker/seb/internal/localdb"
	"github.com/sebbroker/seb/internal/trigger/rule"
)

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
		var x struct {
			At    int64      `json:"at"`
			State rule.State `json:"s"`
		}
		if err := scan(&data); err != nil {
			return err
		}
		if n++; n > limit {
			c.Since = oldest
			return nil
		}
		if err := json.Unmarshal(data, &x); err != nil {
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
