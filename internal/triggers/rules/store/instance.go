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

// InstKey identifies the row of an instance: the trigger by its number in this file, and the entity
// with the partition of its events.
type InstKey struct {
	Trigger   int64
	Entity    string
	Partition uint32
}

// Inst is the row of an instance: data of the caller, and the time of its next deadline.
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
	head := binary.AppendVarint(b[:0], k.Trigger)
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
		return Inst{}, localdb.Damaged("instance of trigger %d", k.Trigger)
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
	}, "SELECT due, data FROM inst WHERE trig = ? AND entity = ? AND part = ?", k.Trigger, []byte(k.Entity), k.Partition)
	return in, ok, err
}

// manyRows is the number of rows per statement for many rows, because statements cost more than
// rows.
const manyRows = 32

var (
	putInst   = "INSERT OR REPLACE INTO inst VALUES (?, ?, ?, ?, ?)"
	putInsts  = putInst + strings.Repeat(", (?, ?, ?, ?, ?)", manyRows-1)
	someInsts = "SELECT entity, due, data FROM inst WHERE trig = ? AND part = ? AND entity IN (?" + strings.Repeat(", ?", manyRows-1) + ")"
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
			args = append(args, keys[i].Trigger, []byte(keys[i].Entity), keys[i].Partition, due, keys[i].seal(&rows[i]))
		}
		if err := t.put(text, args...); err != nil {
			return err
		}
		keys, rows = keys[n:], rows[n:]
	}
	return nil
}

// EachInst calls f for the existing rows of keys, of one trigger and one partition.
func (t *Tx) EachInst(keys []InstKey, f func(k InstKey, in Inst) error) error {
	row := func(scan func(...any) error) error {
		k := InstKey{Trigger: keys[0].Trigger, Partition: keys[0].Partition}
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
		args := []any{keys[0].Trigger, keys[0].Partition}
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
	return t.put("DELETE FROM inst WHERE trig = ? AND entity = ? AND part = ?", k.Trigger, []byte(k.Entity), k.Partition)
}

// SweepInst deletes up to limit rows of a trigger, and returns their number.
func (t *Tx) SweepInst(trigger int64, limit int) (int64, error) {
	return t.Exec(t.ctx, "DELETE FROM inst WHERE (trig, entity, part) IN "+
		"(SELECT trig, entity, part FROM inst WHERE trig = ? LIMIT ?)", trigger, limit)
}

// Due is a row with a deadline.
type Due struct {
	Key InstKey
	At  int64
}

// Due appends to dst up to limit rows of a trigger that are due at an instant, in order.
func (t *Tx) Due(dst []Due, trigger, at int64, limit int) ([]Due, error) {
	err := t.Query(t.ctx, func(scan func(...any) error) error {
		d := Due{Key: InstKey{Trigger: trigger}}
		var entity []byte
		if err := scan(&d.At, &entity, &d.Key.Partition); err != nil {
			return err
		}
		d.Key.Entity = string(entity)
		dst = append(dst, d)
		return nil
	}, "SELECT due, entity, part FROM inst WHERE trig = ? AND due <= ? ORDER BY due, entity, part LIMIT ?", trigger, at, limit)
	return dst, err
}

// FirstDue is the first deadline of a trigger; math.MaxInt64 if there is none.
func (f *File) FirstDue(ctx context.Context, trigger int64) (int64, error) {
	return f.tx.firstDue(ctx, trigger)
}

// FirstDue is the first deadline of a trigger; math.MaxInt64 if there is none.
func (t *Tx) FirstDue(trigger int64) (int64, error) { return t.firstDue(t.ctx, trigger) }

func (c *conn) firstDue(ctx context.Context, trigger int64) (at int64, err error) {
	at = math.MaxInt64
	err = c.Query(ctx, func(scan func(...any) error) error { return scan(&at) },
		"SELECT due FROM inst WHERE trig = ? AND due IS NOT NULL ORDER BY due LIMIT 1", trigger)
	return at, err
}

// Scan returns rows of a trigger after a key, in order, at most limit.
func (t *Tx) Scan(after InstKey, limit int) (keys []InstKey, rows []Inst, err error) {
	err = t.Query(t.ctx, func(scan func(...any) error) error {
		k := InstKey{Trigger: after.Trigger}
		var entity, data []byte
		var due sql.NullInt64
		if err := scan(&entity, &k.Partition, &due, &data); err != nil {
			return err
		}
		k.Entity = string(entity)
		in, err := k.open(due, data)
		keys, rows = append(keys, k), append(rows, in)
		return err
	}, "SELECT entity, part, due, data FROM inst WHERE trig = ? AND (entity, part) > (?, ?) ORDER BY entity, part LIMIT ?",
		after.Trigger, []byte(after.Entity), int64(after.Partition), limit)
	return keys, rows, err
}

// Insts returns the rows of an entity for a trigger: one for each partition with its events.
func (q Queries) Insts(ctx context.Context, trigger int64, entity string) (keys []InstKey, rows []Inst, err error) {
	err = q.Query(ctx, func(scan func(...any) error) error {
		k := InstKey{Trigger: trigger, Entity: entity}
		var due sql.NullInt64
		var data []byte
		if err := scan(&k.Partition, &due, &data); err != nil {
			return err
		}
		in, err := k.open(due, data)
		keys, rows = append(keys, k), append(rows, in)
		return err
	}, "SELECT part, due, data FROM inst WHERE trig = ? AND entity = ? ORDER BY part", trigger, []byte(entity))
	return keys, rows, err
}

// Count is the number of rows of a trigger, and how many of them have a deadline.
func (q Queries) Count(ctx context.Context, trigger int64) (rows, due int64, err error) {
	err = q.Query(ctx, func(scan func(...any) error) error { return scan(&rows, &due) },
		"SELECT count(*), count(due) FROM inst WHERE trig = ?", trigger)
	return rows, due, err
}
