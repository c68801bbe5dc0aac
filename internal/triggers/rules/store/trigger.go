package store

import (
	"cmp"
	"context"
	"encoding/binary"

	"github.com/sebbroker/seb/internal/engine/views/localdb"
	"github.com/sebbroker/seb/record"
)

// Status is the progress of a trigger version.
type Status int

// The statuses.
const (
	Behind Status = 1 // reads the history
	Joined Status = 2 // served by the main reader
	Gone   Status = 3 // deleted, or replaced by a newer version; its rows are being deleted
)

// Trigger is a version of a trigger.
type Trigger struct {
	No      int64 // number in this file, from 1
	Group   int64 // its rows are in those of this group, or alone; 0: a new group, with its number
	ID      string
	Version int
	Status  Status
	Def     []byte
}

func (g *Trigger) sum() int64 {
	b := binary.AppendVarint(nil, g.No)
	b = append(binary.AppendVarint(b, int64(g.Version)), byte(g.Status))
	b = binary.AppendVarint(b, g.Group)
	return int64(record.CRC32C(append(append(b, g.ID...), g.Def...)))
}

// NextTrigger returns the trigger with the lowest number above after, or nil.
func (f *File) NextTrigger(ctx context.Context, after int64) (*Trigger, error) {
	return f.tx.trigger(ctx, "WHERE no > ? ORDER BY no LIMIT 1", after)
}

// Trigger returns a trigger by its number, or nil.
func (t *Tx) Trigger(no int64) (*Trigger, error) { return t.trigger(t.ctx, "WHERE no = ?", no) }

// Trigger returns a trigger by its number, or nil.
func (q Queries) Trigger(ctx context.Context, no int64) (*Trigger, error) {
	return q.trigger(ctx, "WHERE no = ?", no)
}

func (c *conn) trigger(ctx context.Context, where string, no int64) (found *Trigger, err error) {
	err = c.Query(ctx, func(scan func(...any) error) error {
		var g Trigger
		var sum int64
		if err := scan(&g.No, &g.ID, &g.Version, &g.Status, &g.Group, &g.Def, &sum); err != nil {
			return localdb.Damaged("trigger: %v", err)
		}
		if sum != g.sum() {
			return localdb.Damaged("trigger %d", g.No)
		}
		found = &g
		return nil
	}, "SELECT no, id, version, status, grp, def, sum FROM trig "+where, no)
	return found, err
}

// SetStatus sets the status of an existing trigger.
func (t *Tx) SetStatus(no int64, status Status) error {
	g, err := t.Trigger(no)
	if err != nil {
		return err
	}
	if g == nil {
		return localdb.Damaged("trigger %d is missing", no)
	}
	g.Status = status
	return t.PutTrigger(g)
}

// PutTrigger sets a trigger; one with number 0 is new and gets its number. Numbers are not reused.
func (t *Tx) PutTrigger(g *Trigger) error {
	if g.No == 0 {
		if err := t.put("INSERT INTO trig (id, version, status, grp, def, sum) VALUES ('', 0, 0, 0, x'', 0)"); err != nil {
			return err
		}
		row := func(scan func(...any) error) error { return scan(&g.No) }
		if err := t.Query(t.ctx, row, "SELECT max(no) FROM trig"); err != nil {
			return err
		}
	}
	g.Group = cmp.Or(g.Group, g.No)
	return t.put("INSERT OR REPLACE INTO trig (no, id, version, status, grp, def, sum) VALUES (?, ?, ?, ?, ?, ?, ?)",
		g.No, g.ID, g.Version, int(g.Status), g.Group, g.Def, g.sum())
}

// DropTrigger deletes a trigger without rows.
func (t *Tx) DropTrigger(no int64) error {
	if err := t.DropReader(no); err != nil {
		return err
	}
	return t.put("DELETE FROM trig WHERE no = ?", no)
}
