package store

import (
	"context"
	"database/sql"
	"encoding/binary"
	"math"
	"strings"

	"github.com/sebbroker/seb/internal/engine/views/localdb"
	"github.com/sebbroker/seb/record"
)

// InstKey identifies the row of an entity with the partition of its events: that of a group of
// triggers (Trigger.Group), or with the negative number of a trigger, that of this trigger alone.
type InstKey struct {
	Group     int64
	Entity    string
	Partition uint32
}

// Inst is the row of an entity: data of the caller, and the time of its next deadline.
type Inst struct {
	Due  int64 // ms; 0: none
	Data []byte
}

// seal appends a checksum of key, due and data.
func (k *InstKey) seal(in *Inst) []byte {
	return binary.LittleEndian.AppendUint32(append(make([]byte, 0, len(in.Data)+4), in.Data...), k.sum(in))
}

func (k *InstKey) sum(in *Inst) uint32 {
	var b [32]byte
	head := binary.AppendVarint(b[:0], k.Group)
	head = binary.AppendUvarint(head, uint64(k.Partition))
	head = binary.AppendVarint(head, in.Due)
	sum := record.CRC32C(head)
	sum = record.CombineCRC32C(sum, record.CRC32C([]byte(k.Entity)), int64(len(k.Entity)))
	return record.CombineCRC32C(sum, record.CRC32C(in.Data), int64(len(in.Data)))
}

// open verifies and removes the checksum.
func (k *InstKey) open(due sql.NullInt64, data []byte) (Inst, error) {
	if len(data) < 4 {
		return Inst{}, localdb.Damaged("instance of %d bytes", len(data))
	}
	in := Inst{Due: due.Int64, Data: data[:len(data)-4]}
	if binary.LittleEndian.Uint32(data[len(data)-4:]) != k.sum(&in) {
		return Inst{}, localdb.Damaged("instance of group %d", k.Group)
	}
	return in, nil
}

// Inst returns the row of a key; ok is false if there is none.
func (t *Tx) Inst(k InstKey) (in Inst, ok bool, err error) {
	err = t.Query(t.ctx, func(scan func(...any) error) (err error) {
		var due sql.NullInt64
		var data []byte
		if err := scan(&due, &data); err != nil {
			return err
		}
		ok = true
		in, err = k.open(due, data)
		return err
	}, "SELECT due, data FROM inst WHERE grp = ? AND entity = ? AND part = ?", k.Group, []byte(k.Entity), k.Partition)
	return in, ok, err
}

// manyRows is the number of rows per statement for many rows, because statements cost more than
// rows.
const manyRows = 32

var (
	putInst   = "INSERT OR REPLACE INTO inst VALUES (?, ?, ?, ?, ?)"
	putInsts  = putInst + strings.Repeat(", (?, ?, ?, ?, ?)", manyRows-1)
	someInsts = "SELECT entity, due, data FROM inst WHERE grp = ? AND part = ? AND entity IN (?" + strings.Repeat(", ?", manyRows-1) + ")"
)

// PutInsts sets rows: keys[i] to rows[i].
func (t *Tx) PutInsts(keys []InstKey, rows []Inst) error {
	for len(keys) > 0 {
		n, text := 1, putInst
		if len(keys) >= manyRows {
			n, text = manyRows, putInsts
		}
		args := make([]any, 0, 5*manyRows)
		for i := range n {
			var due any
			if rows[i].Due != 0 {
				due = rows[i].Due
			}
			args = append(args, keys[i].Group, []byte(keys[i].Entity), keys[i].Partition, due, keys[i].seal(&rows[i]))
		}
		if err := t.put(text, args...); err != nil {
			return err
		}
		keys, rows = keys[n:], rows[n:]
	}
	return nil
}

// EachInst calls f for the existing rows of keys, of one group and one partition.
func (t *Tx) EachInst(keys []InstKey, f func(k InstKey, in Inst) error) error {
	row := func(scan func(...any) error) error {
		k := InstKey{Group: keys[0].Group, Partition: keys[0].Partition}
		var entity, data []byte
		var due sql.NullInt64
		if err := scan(&entity, &due, &data); err != nil {
			return err
		}
		k.Entity = string(entity)
		in, err := k.open(due, data)
		if err != nil {
			return err
		}
		return f(k, in)
	}
	for len(keys) > 0 {
		n := min(len(keys), manyRows)
		args := []any{keys[0].Group, keys[0].Partition}
		for i := range manyRows { // the last key fills the remaining parameters
			args = append(args, []byte(keys[min(i, n-1)].Entity))
		}
		if err := t.Query(t.ctx, row, someInsts, args...); err != nil {
			return err
		}
		keys = keys[n:]
	}
	return nil
}

// DropInst deletes a row if it exists.
func (t *Tx) DropInst(k InstKey) error {
	return t.put("DELETE FROM inst WHERE grp = ? AND entity = ? AND part = ?", k.Group, []byte(k.Entity), k.Partition)
}

// SweepInst deletes up to limit rows of a group, and returns their number.
func (t *Tx) SweepInst(group int64, limit int) (int64, error) {
	return t.Exec(t.ctx, "DELETE FROM inst WHERE (grp, entity, part) IN "+
		"(SELECT grp, entity, part FROM inst WHERE grp = ? LIMIT ?)", group, limit)
}

// Due is a row with a deadline.
type Due struct {
	Key InstKey
	At  int64
}

// Due appends to dst up to limit rows of a group that are due at an instant, in order.
func (t *Tx) Due(dst []Due, group, at int64, limit int) ([]Due, error) {
	err := t.Query(t.ctx, func(scan func(...any) error) error {
		d := Due{Key: InstKey{Group: group}}
		var entity []byte
		if err := scan(&d.At, &entity, &d.Key.Partition); err != nil {
			return err
		}
		d.Key.Entity = string(entity)
		dst = append(dst, d)
		return nil
	}, "SELECT due, entity, part FROM inst WHERE grp = ? AND due <= ? ORDER BY due, entity, part LIMIT ?", group, at, limit)
	return dst, err
}

// FirstDue is the first deadline of a group; math.MaxInt64 if there is none.
func (f *File) FirstDue(ctx context.Context, group int64) (int64, error) {
	return f.tx.firstDue(ctx, group)
}

// FirstDue is the first deadline of a group; math.MaxInt64 if there is none.
func (t *Tx) FirstDue(group int64) (int64, error) { return t.firstDue(t.ctx, group) }

func (c *conn) firstDue(ctx context.Context, group int64) (at int64, err error) {
	at = math.MaxInt64
	err = c.Query(ctx, func(scan func(...any) error) error { return scan(&at) },
		"SELECT due FROM inst WHERE grp = ? AND due IS NOT NULL ORDER BY due LIMIT 1", group)
	return at, err
}

// Scan returns rows of a group after a key, in order, at most limit.
func (t *Tx) Scan(after InstKey, limit int) (keys []InstKey, rows []Inst, err error) {
	err = t.Query(t.ctx, func(scan func(...any) error) error {
		k := InstKey{Group: after.Group}
		var entity, data []byte
		var due sql.NullInt64
		if err := scan(&entity, &k.Partition, &due, &data); err != nil {
			return err
		}
		k.Entity = string(entity)
		in, err := k.open(due, data)
		keys, rows = append(keys, k), append(rows, in)
		return err
	}, "SELECT entity, part, due, data FROM inst WHERE grp = ? AND (entity, part) > (?, ?) ORDER BY entity, part LIMIT ?",
		after.Group, []byte(after.Entity), int64(after.Partition), limit)
	return keys, rows, err
}

// GroupsMax bounds the groups of EntityInsts.
const GroupsMax = 2 * manyRows

var entityInsts = "SELECT grp, part, due, data FROM inst WHERE entity = ? AND grp IN (?" + strings.Repeat(", ?", GroupsMax-1) + ")"

// EntityInsts calls f for the rows of an entity of up to GroupsMax groups, in no order.
func (q Queries) EntityInsts(ctx context.Context, entity string, groups []int64, f func(k InstKey, in Inst) error) error {
	if len(groups) == 0 {
		return nil
	}
	args := []any{[]byte(entity)}
	for i := range GroupsMax { // the last one fills the remaining parameters
		args = append(args, groups[min(i, len(groups)-1)])
	}
	return q.Query(ctx, func(scan func(...any) error) error {
		k := InstKey{Entity: entity}
		var due sql.NullInt64
		var data []byte
		if err := scan(&k.Group, &k.Partition, &due, &data); err != nil {
			return err
		}
		in, err := k.open(due, data)
		if err != nil {
			return err
		}
		return f(k, in)
	}, entityInsts, args...)
}

// HasInst reports whether there is a row of a group.
func (f *File) HasInst(ctx context.Context, group int64) (yes bool, err error) {
	err = f.tx.Query(ctx, func(scan func(...any) error) error { return scan(&yes) },
		"SELECT EXISTS (SELECT 1 FROM inst WHERE grp = ?)", group)
	return yes, err
}

// Count is the number of rows of a group, and how many of them have a deadline.
func (q Queries) Count(ctx context.Context, group int64) (rows, due int64, err error) {
	err = q.Query(ctx, func(scan func(...any) error) error { return scan(&rows, &due) },
		"SELECT count(*), count(due) FROM inst WHERE grp = ?", group)
	return rows, due, err
}
