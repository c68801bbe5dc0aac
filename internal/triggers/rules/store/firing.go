package store

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"strings"

	"github.com/sebbroker/seb/internal/engine/base/protobuf"
	"github.com/sebbroker/seb/internal/engine/base/sorting"
	"github.com/sebbroker/seb/internal/engine/views/localdb"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/record"
)

// Firing is a firing and its state.
type Firing struct {
	Seq       int64 // order in which this file learned of firings
	ID        rule.ID
	Trigger   string
	Entity    string
	Version   int
	Topic     string
	Partition uint32
	At        int64 // ms
	Cause     string
	Witness   []int64
	State     rule.State
	// Recorded is the time (ms) of its record, 0 if there is none yet.
	Recorded int64
	// Changed is the time (ms) of the last record that changed it; 0: only the first one.
	Changed int64
	// RetractedAt is the recorded instant (ms) at which its expression was no longer true; 0: none.
	// Retraction reports whether the message to deliver is the retraction.
	RetractedAt    int64
	RetractedCause string
	Retraction     bool
	// NextTry is the time (ms) of the next delivery, if it is pending. Tries is the number of
	// recorded attempts at the message.
	NextTry int64
	Tries   int
	Outcome json.RawMessage // of the last attempt
}

// fields are the members that have no column.
func (x *Firing) fields(c *protobuf.Codec) {
	version, tries := int64(x.Version), int64(x.Tries)
	protobuf.Int(c, 1, "version", &version)
	c.String(2, "topic", &x.Topic)
	protobuf.Int(c, 3, "partition", &x.Partition)
	protobuf.Int(c, 4, "at", &x.At)
	c.String(5, "cause", &x.Cause)
	protobuf.Rows(c, 6, "witness", &x.Witness, func(_, v *int64, c *protobuf.Codec) { protobuf.Varint(c, v) })
	c.String(7, "state", (*string)(&x.State))
	protobuf.Int(c, 8, "recorded", &x.Recorded)
	protobuf.Int(c, 9, "changed", &x.Changed)
	protobuf.Int(c, 10, "retracted_at", &x.RetractedAt)
	c.String(11, "retracted_cause", &x.RetractedCause)
	c.Bool(12, "retraction", &x.Retraction)
	protobuf.Int(c, 13, "next_try", &x.NextTry)
	protobuf.Int(c, 14, "tries", &tries)
	c.Bytes(15, "outcome", (*[]byte)(&x.Outcome))
	x.Version, x.Tries = int(version), int(tries)
}

func (x *Firing) due() any {
	if x.State == rule.Pending {
		return x.NextTry
	}
	return nil
}

// open is 1 if the firing must be recorded.
func (x *Firing) open() any {
	if x.Recorded == 0 && x.State != rule.Historic && x.State != rule.Forgotten {
		return 1
	}
	return nil
}

// seal appends a checksum of all columns to data.
func (x *Firing) seal(data []byte) []byte {
	return binary.LittleEndian.AppendUint32(data, x.sum(data))
}

func (x *Firing) sum(data []byte) uint32 {
	var some [512]byte
	b := append(binary.AppendVarint(some[:0], x.Seq), x.ID[:]...)
	b = append(append(append(b, x.Trigger...), 0), x.Entity...)
	return record.CRC32C(append(append(b, 0), data...))
}

const firingColumns = "SELECT seq, id, trig, entity, data FROM fire "

func (c *conn) queryFirings(ctx context.Context, where string, args ...any) (list []Firing, err error) {
	err = c.Query(ctx, func(scan func(...any) error) error {
		list = append(list, Firing{})
		x := &list[len(list)-1]
		var id, entity, data sql.RawBytes
		if err := scan(&x.Seq, &id, &x.Trigger, &entity, &data); err != nil {
			return localdb.Damaged("firing: %v", err)
		}
		x.Entity = string(entity)
		end := len(data) - 4
		if copy(x.ID[:], id) != len(id) || end < 0 || binary.LittleEndian.Uint32(data[end:]) != x.sum(data[:end]) {
			return localdb.Damaged("firing %d", x.Seq)
		}
		if err := protobuf.Decode(data[:end], x, (*Firing).fields); err != nil {
			return localdb.Damaged("firing %d: %v", x.Seq, err)
		}
		return nil
	}, firingColumns+where, args...)
	return list, err
}

func only(list []Firing, err error) (*Firing, error) {
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return &list[0], nil
}

// Firing returns a firing by its ID, or nil.
func (q Queries) Firing(ctx context.Context, id rule.ID) (*Firing, error) {
	return only(q.queryFirings(ctx, "WHERE id = ?", id[:]))
}

// HeldMax is the number of firings that a transaction holds before it writes them.
const HeldMax = 256

// held are firings in the memory of a transaction, because statements cost more than rows.
type held struct {
	byID    map[rule.ID]*Firing // nil: the file has none
	changed []*Firing           // not written yet
	written int64               // changed ones with a higher Seq are new
}

// firings runs a query for firings on what the transaction has written so far.
func (t *Tx) firings(where string, args ...any) ([]Firing, error) {
	if err := t.flush(); err != nil {
		return nil, err
	}
	return t.queryFirings(t.ctx, where, args...)
}

var (
	putFiring   = putRows(1)
	putFirings  = putRows(manyRows)
	someFirings = "WHERE id IN (?" + strings.Repeat(", ?", manyRows-1) + ")"
)

// putRows is a statement that adds n firings, or replaces those that the file has.
func putRows(n int) string {
	return "INSERT INTO fire VALUES (?, ?, ?, ?, ?, ?, ?)" + strings.Repeat(", (?, ?, ?, ?, ?, ?, ?)", n-1) +
		" ON CONFLICT (seq) DO UPDATE SET due = excluded.due, open = excluded.open, data = excluded.data"
}

// flush writes the changed firings, and forgets all.
func (t *Tx) flush() error {
	if len(t.byID) == 0 {
		return nil
	}
	for list := t.changed; len(list) > 0; {
		n, text := 1, putFiring
		if len(list) >= manyRows {
			n, text = manyRows, putFirings
		}
		args := make([]any, 0, 7*manyRows)
		for _, x := range list[:n] {
			data := x.seal(protobuf.Append(make([]byte, 0, 128), x, (*Firing).fields))
			args = append(args, x.Seq, x.ID[:], x.Trigger, []byte(x.Entity), x.due(), x.open(), data)
		}
		if err := t.put(text, args...); err != nil {
			return err
		}
		list = list[n:]
	}
	t.forget()
	return nil
}

func (t *Tx) forget() {
	t.held = held{byID: map[rule.ID]*Firing{}, changed: t.changed[:0], written: t.seq}
}

// HoldFirings reads firings by their IDs, at most HeldMax, for the next calls of Firing and AddFiring.
func (t *Tx) HoldFirings(ids []rule.ID) error {
	if err := t.flush(); err != nil {
		return err
	}
	for len(ids) > 0 {
		n := min(len(ids), manyRows)
		args := make([]any, manyRows)
		for i := range args { // the last ID fills the remaining parameters
			id := &ids[min(i, n-1)]
			args[i], t.byID[*id] = id[:], nil
		}
		list, err := t.queryFirings(t.ctx, someFirings, args...)
		if err != nil {
			return err
		}
		for i := range list {
			t.byID[list[i].ID] = &list[i]
		}
		ids = ids[n:]
	}
	return nil
}

// Firing returns a firing by its ID, or nil. The caller may change it for UpdateFiring.
func (t *Tx) Firing(id rule.ID) (x *Firing, err error) {
	x, ok := t.byID[id]
	if ok {
		return x, nil
	}
	if len(t.byID) >= HeldMax {
		if err := t.flush(); err != nil {
			return nil, err
		}
	}
	if x, err = only(t.queryFirings(t.ctx, "WHERE id = ?", id[:])); err == nil {
		t.byID[id] = x
	}
	return x, err
}

// AddFiring adds a firing, unless there is one with its ID. It sets x.Seq, and keeps x.
func (t *Tx) AddFiring(x *Firing) (added bool, err error) {
	if known, err := t.Firing(x.ID); err != nil || known != nil {
		return false, err
	}
	t.seq++
	x.Seq = t.seq
	return true, t.change(x)
}

// UpdateFiring updates an existing firing, and keeps x.
func (t *Tx) UpdateFiring(x *Firing) error {
	if x.Seq > t.written { // AddFiring has it
		return nil
	}
	return t.change(x)
}

func (t *Tx) change(x *Firing) error {
	t.byID[x.ID] = x
	if t.changed = append(t.changed, x); len(t.changed) < HeldMax {
		return nil
	}
	return t.flush()
}

// EntityFirings returns the firings of an entity after a Seq, in order, at most limit: of one
// trigger, or with trigger "" of all.
func (t *Tx) EntityFirings(entity, trigger string, after int64, limit int) ([]Firing, error) {
	if trigger == "" {
		return t.firings("WHERE entity = ? AND seq > ? ORDER BY seq LIMIT ?", []byte(entity), after, limit)
	}
	return t.firings("WHERE entity = ? AND trig = ? AND seq > ? ORDER BY seq LIMIT ?", []byte(entity), trigger, after, limit)
}

// EntityFirings returns the last firings of an entity by a trigger, at most limit, newest first.
func (q Queries) EntityFirings(ctx context.Context, entity, trigger string, limit int) ([]Firing, error) {
	return q.queryFirings(ctx, "WHERE entity = ? AND trig = ? ORDER BY seq DESC LIMIT ?", []byte(entity), trigger, limit)
}

// DeleteFiring deletes a firing, and its retraction in the outbox.
func (t *Tx) DeleteFiring(id rule.ID) error {
	err := t.flush()
	if err == nil {
		err = t.put("DELETE FROM fire WHERE id = ?", id[:])
	}
	if err == nil {
		err = t.DeleteRetraction(id)
	}
	return err
}

// PendingQuery selects the first firings after a position that are due, at most Limit, without those of
// the entities in Except.
type PendingQuery struct {
	Limit  int
	After  DuePosition
	Except []string
}

// DuePosition is a position in the order of pending firings: a due time (ms), and a Seq.
type DuePosition struct{ At, Seq int64 }

// Pending returns firings of a trigger that are due at an instant (ms), in their order, and the position
// to which the query has read.
func (q Queries) Pending(ctx context.Context, trigger string, at int64, p PendingQuery) (list []Firing, read DuePosition, err error) {
	const due, order = "WHERE trig = ? AND due <= ? ", "ORDER BY due, seq LIMIT ?"
	var last DuePosition
	err = q.Query(ctx, func(scan func(...any) error) error { return scan(&last.At, &last.Seq) },
		"SELECT due, seq FROM fire "+due+"ORDER BY due DESC, seq DESC LIMIT 1", trigger, at)
	if err != nil {
		return nil, p.After, err
	}
	except, err := json.Marshal(append([]string{}, p.Except...)) // not null
	if err != nil {
		return nil, p.After, err
	}
	list, err = q.queryFirings(ctx, due+"AND (due, seq) > (?, ?) AND entity NOT IN (SELECT CAST(value AS BLOB) FROM json_each(?)) "+order,
		trigger, at, p.After.At, p.After.Seq, string(except), p.Limit)
	if n := len(list); n > 0 && (n >= p.Limit || last.before(&list[n-1])) {
		last = DuePosition{list[n-1].NextTry, list[n-1].Seq}
	}
	return list, last, err
}

func (d DuePosition) before(x *Firing) bool {
	return cmp.Or(cmp.Compare(d.At, x.NextTry), cmp.Compare(d.Seq, x.Seq)) < 0
}

// NextPending returns the first trigger with an ID after after that has pending firings, and the
// due time of the first of these; "" if there is none.
func (q Queries) NextPending(ctx context.Context, after string) (trigger string, at int64, err error) {
	err = q.Query(ctx, func(scan func(...any) error) error { return scan(&trigger, &at) },
		"SELECT trig, due FROM fire WHERE trig > ? AND due IS NOT NULL ORDER BY trig, due LIMIT 1", after)
	return trigger, at, err
}

// TriggerPending returns all pending firings of a trigger after a Seq, at most limit.
func (t *Tx) TriggerPending(trigger string, after int64, limit int) ([]Firing, error) {
	return t.firings("WHERE trig = ? AND seq > ? AND due IS NOT NULL ORDER BY seq LIMIT ?", trigger, after, limit)
}

// OutboxEntry is an entry of the outbox, which are the firings and the retractions to record.
type OutboxEntry struct {
	Seq      int64
	Firing   *Firing // the firing to record
	Retracts rule.ID // if Firing is nil: the firing whose retraction is to be recorded,
	At       int64   // its instant (ms),
	Cause    string  // and its cause
}

// PutRetraction adds the retraction of a firing to the outbox, unless there is one.
func (t *Tx) PutRetraction(id rule.ID, at int64, cause string) error {
	n, err := t.Exec(t.ctx, "INSERT INTO retraction VALUES (?, ?, ?, ?) ON CONFLICT (id) DO NOTHING", t.seq+1, id[:], at, cause)
	t.seq += n
	return err
}

// DeleteRetraction deletes an entry of the outbox after it was recorded or became obsolete.
func (t *Tx) DeleteRetraction(id rule.ID) error {
	return t.put("DELETE FROM retraction WHERE id = ?", id[:])
}

// Outbox returns the entries of the outbox after a Seq, in order, at most limit.
func (t *Tx) Outbox(after int64, limit int) (list []OutboxEntry, err error) {
	open, err := t.firings("WHERE open = 1 AND seq > ? ORDER BY seq LIMIT ?", after, limit)
	for i := range open {
		list = append(list, OutboxEntry{Seq: open[i].Seq, Firing: &open[i]})
	}
	if err != nil {
		return nil, err
	}
	err = t.Query(t.ctx, func(scan func(...any) error) error {
		var o OutboxEntry
		var id sql.RawBytes
		if err := scan(&o.Seq, &id, &o.At, &o.Cause); err != nil {
			return err
		}
		copy(o.Retracts[:], id)
		list = append(list, o)
		return nil
	}, "SELECT seq, id, at, cause FROM retraction WHERE seq > ? ORDER BY seq LIMIT ?", after, limit)
	sorting.Sort(list, func(a, b OutboxEntry) int { return cmp.Compare(a.Seq, b.Seq) })
	return list[:min(len(list), limit)], err
}

// Unrecorded is the number of entries of a trigger in the outbox up to a Seq.
func (q Queries) Unrecorded(ctx context.Context, trigger string, seq int64) (n int64, err error) {
	err = q.Query(ctx, func(scan func(...any) error) error { return scan(&n) },
		"SELECT (SELECT count(*) FROM fire WHERE open = 1 AND +trig = ? AND seq <= ?) + "+
			"(SELECT count(*) FROM retraction JOIN fire USING (id) WHERE trig = ? AND retraction.seq <= ?)", trigger, seq, trigger, seq)
	return n, err
}

// LastOutbox is the highest Seq in the outbox; 0 if it is empty.
func (q Queries) LastOutbox(ctx context.Context) (seq int64, err error) {
	err = q.Query(ctx, func(scan func(...any) error) error { return scan(&seq) },
		"SELECT max(coalesce((SELECT max(seq) FROM fire WHERE open = 1), 0), coalesce((SELECT max(seq) FROM retraction), 0))")
	return seq, err
}

// TriggerOutbox returns the firings of a trigger after a Seq that are to be recorded, at most limit.
func (t *Tx) TriggerOutbox(trigger string, after int64, limit int) ([]Firing, error) {
	return t.firings("WHERE open = 1 AND +trig = ? AND seq > ? ORDER BY seq LIMIT ?", trigger, after, limit)
}

// LastVersion is the version of a trigger's last firing; 0 if there is none.
func (q Queries) LastVersion(ctx context.Context, trigger string) (int, error) {
	x, err := only(q.queryFirings(ctx, "WHERE trig = ? ORDER BY seq DESC LIMIT 1", trigger))
	if x == nil {
		return 0, err
	}
	return x.Version, nil
}

// Follow applies a later record, with its append time (ms), to a recorded firing. It returns false
// if the record changes nothing.
func (x *Firing) Follow(rec *rule.Record, at int64) bool {
	same := rec.Retraction == x.Retraction
	// heard: the message was in flight when the firing was retracted.
	heard := x.State == rule.Retracted && !rec.Retraction
	switch rec.Kind {
	case rule.Retract:
		return x.applyRetract(rec, at)
	case rule.Attempt:
		if heard {
			x.retract(at)
			return true
		}
		if x.State != rule.Pending || !same {
			return false
		}
		x.Tries++
		x.NextTry, x.Outcome = rec.NextTry, rec.Outcome
	case rule.Defer:
		if x.State != rule.Pending || !same {
			return false
		}
		x.NextTry = rec.NextTry
	case rule.Done:
		if heard && rec.State == rule.Delivered {
			x.retract(at)
			return true
		}
		if x.State != rule.Pending || !same {
			return false
		}
		x.Tries++
		x.State, x.NextTry, x.Outcome = rec.State, 0, rec.Outcome
	case rule.Resend:
		x.State, x.Tries, x.NextTry = rule.Pending, 0, at
	}
	return true
}

// applyRetract applies the record that the expression is no longer true.
func (x *Firing) applyRetract(rec *rule.Record, at int64) bool {
	if x.RetractedAt != 0 {
		return false
	}
	x.RetractedAt, x.RetractedCause = rec.At, rec.Cause
	switch {
	case x.State == rule.Pending && x.Tries == 0:
		x.State, x.NextTry = rule.Retracted, 0
	case x.State == rule.Pending, x.State == rule.Delivered:
		x.retract(at)
	}
	return true
}

// retract starts the delivery of the retraction.
func (x *Firing) retract(at int64) {
	x.State, x.Retraction, x.Tries, x.NextTry = rule.Pending, true, 0, at
}

// Backlog is the number of pending firings, and the time (ms) of the first delivery; 0 if there is
// none.
func (q Queries) Backlog(ctx context.Context) (n, first int64, err error) {
	err = q.Query(ctx, func(scan func(...any) error) error { return scan(&n, &first) },
		"SELECT count(*), coalesce(min(due), 0) FROM fire WHERE due IS NOT NULL")
	return n, first, err
}
