package store

import (
	"context"
	"database/sql"
	"encoding/binary"
	"encoding/json"

	"github.com/sebbroker/seb/internal/localdb"
	"github.com/sebbroker/seb/internal/trigger/rule"
	"github.com/sebbroker/seb/record"
)

// Fire is a firing and what became of it.
type Fire struct {
	Seq       int64      `json:"-"` // in the order in which this file learned of them
	ID        rule.ID    `json:"-"`
	Trigger   string     `json:"-"`
	Entity    string     `json:"-"`
	Version   int        `json:"v"`
	Topic     string     `json:"topic,omitempty"`
	Partition uint32     `json:"p,omitempty"`
	At        int64      `json:"at"` // ms
	Cause     string     `json:"c"`
	Witness   []int64    `json:"w,omitempty"`
	State     rule.State `json:"s"`
	// Recorded is the time (ms) of its record, 0 while it has none.
	Recorded int64 `json:"r,omitempty"`
	// Changed is the time (ms) of the last record of it that said something new; 0: there was none but the first.
	Changed int64 `json:"ch,omitempty"`
	// Taken is the instant (ms) at which its expression was no longer true, as recorded; 0: not yet. Retraction is whether what
	// is delivered is the message that says so.
	Taken      int64  `json:"t,omitempty"`
	TakenCause string `json:"tc,omitempty"`
	Retraction bool   `json:"rt,omitempty"`
	// NextTry is when to deliver it (ms), if its state is pending; Tries is how many attempts at the message were recorded.
	NextTry int64           `json:"n,omitempty"`
	Tries   int             `json:"k,omitempty"`
	Outcome json.RawMessage `json:"o,omitempty"` // of the last one
}

func (x *Fire) due() any {
	if x.State == rule.Pending {
		return x.NextTry
	}
	return nil
}

func (x *Fire) sum(data []byte) int64 {
	b := append(binary.AppendVarint(nil, x.Seq), x.ID[:]...)
	b = append(append(append(b, x.Trigger...), 0), x.Entity...)
	return int64(record.CRC32C(append(append(b, 0), data...)))
}

const fireColumns = "SELECT seq, id, trig, entity, data, sum FROM fire "

func (c *conn) fires(ctx context.Context, where string, args ...any) (list []Fire, err error) {
	err = c.query(ctx, func(scan func(...any) error) error {
		var x Fire
		var id, entity, data []byte
		var sum int64
		if err := scan(&x.Seq, &id, &x.Trigger, &entity, &data, &sum); err != nil {
			return localdb.Damaged("firing: %v", err)
		}
		x.Entity = string(entity)
		if copy(x.ID[:], id) != len(id) || sum != x.sum(data) {
			return localdb.Damaged("firing %d", x.Seq)
		}
		if err := json.Unmarshal(data, &x); err != nil {
			return localdb.Damaged("firing %d: %v", x.Seq, err)
		}
		list = append(list, x)
		return nil
	}, fireColumns+where, args...)
	return list, err
}

func only(list []Fire, err error) (*Fire, error) {
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return &list[0], nil
}

// Fire is a firing by its id, or nil.
func (t *Tx) Fire(id rule.ID) (*Fire, error) { return only(t.fires(t.ctx, "WHERE id = ?", id[:])) }

// Fire is a firing by its id, or nil.
func (q Queries) Fire(ctx context.Context, id rule.ID) (*Fire, error) {
	return only(q.fires(ctx, "WHERE id = ?", id[:]))
}

// AddFire adds a firing, unless there is one of its id. It sets x.Seq.
func (t *Tx) AddFire(x *Fire) (added bool, err error) {
	x.Seq = t.seq + 1
	data, err := json.Marshal(x)
	if err != nil {
		return false, err
	}
	n, err := t.exec(t.ctx, "INSERT INTO fire VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING",
		x.Seq, x.ID[:], x.Trigger, []byte(x.Entity), x.due(), data, x.sum(data))
	t.seq += n
	return n > 0, err
}

// SetFire changes a firing that is there.
func (t *Tx) SetFire(x *Fire) error {
	data, err := json.Marshal(x)
	if err != nil {
		return err
	}
	return t.put("UPDATE fire SET due = ?, data = ?, sum = ? WHERE seq = ?", x.due(), data, x.sum(data), x.Seq)
}

// EntityFires are the firings of an entity behind a Seq, in its order, at most limit: of one trigger, or with trigger "" of all.
func (t *Tx) EntityFires(entity, trigger string, after int64, limit int) ([]Fire, error) {
	if trigger == "" {
		return t.fires(t.ctx, "WHERE entity = ? AND seq > ? ORDER BY seq LIMIT ?", []byte(entity), after, limit)
	}
	return t.fires(t.ctx, "WHERE entity = ? AND trig = ? AND seq > ? ORDER BY seq LIMIT ?", []byte(entity), trigger, after, limit)
}

// EntityFires are the last firings of an entity by a trigger, at most limit, the newest first.
func (q Queries) EntityFires(ctx context.Context, entity, trigger string, limit int) ([]Fire, error) {
	return q.fires(ctx, "WHERE entity = ? AND trig = ? ORDER BY seq DESC LIMIT ?", []byte(entity), trigger, limit)
}

// DropFire deletes a firing, and what is to be recorded of it.
func (t *Tx) DropFire(id rule.ID) error {
	if err := t.put("DELETE FROM fire WHERE id = ?", id[:]); err != nil {
		return err
	}
	return t.put("DELETE FROM outbox WHERE id = ?", id[:])
}

// FireQuery says which firings are wanted.
type FireQuery struct {
	Trigger string // "": of all
	After   int64  // only those with a higher Seq
	Limit   int    // at most so many
}

// Fires are firings in the order of Seq.
func (q Queries) Fires(ctx context.Context, w FireQuery) ([]Fire, error) {
	if w.Trigger == "" {
		return q.fires(ctx, "WHERE seq > ? ORDER BY seq LIMIT ?", w.After, w.Limit)
	}
	return q.fires(ctx, "WHERE trig = ? AND seq > ? ORDER BY seq LIMIT ?", w.Trigger, w.After, w.Limit)
}

// Pending are firings of a trigger to be delivered at an instant (ms) or before, those that are due first first.
func (q Queries) Pending(ctx context.Context, trigger string, at int64, limit int) ([]Fire, error) {
	return q.fires(ctx, "WHERE trig = ? AND due <= ? ORDER BY due, seq LIMIT ?", trigger, at, limit)
}

// NextPending is the first trigger with an id behind one of which a firing is to be delivered, and when the first of these is;
// "" if there is none.
func (q Queries) NextPending(ctx context.Context, after string) (trigger string, at int64, err error) {
	err = q.query(ctx, func(scan func(...any) error) error { return scan(&trigger, &at) },
		"SELECT trig, due FROM fire WHERE trig > ? AND due IS NOT NULL ORDER BY trig, due LIMIT 1", after)
	return trigger, at, err
}

// TriggerPending are all of a trigger's firings behind a Seq that are to be delivered, at most limit.
func (t *Tx) TriggerPending(trigger string, after int64, limit int) ([]Fire, error) {
	return t.fires(t.ctx, "WHERE trig = ? AND seq > ? AND due IS NOT NULL ORDER BY seq LIMIT ?", trigger, after, limit)
}

// Out is what is to be recorded.
type Out struct {
	Seq   int64
	Falls bool // a firing is taken back; else it fires
	ID    rule.ID
	At    int64
	Cause string
}

// PutOut adds to what is to be recorded, unless it is there.
func (t *Tx) PutOut(o *Out) error {
	return t.put("INSERT OR IGNORE INTO outbox (falls, id, at, cause) VALUES (?, ?, ?, ?)", o.Falls, o.ID[:], o.At, o.Cause)
}

// DropOut takes out what was recorded, or is not to be.
func (t *Tx) DropOut(id rule.ID, falls bool) error {
	return t.put("DELETE FROM outbox WHERE id = ? AND falls = ?", id[:], falls)
}

// Outbox is what is to be recorded behind a number, in order, at most limit.
func (t *Tx) Outbox(after int64, limit int) (list []Out, err error) {
	err = t.query(t.ctx, func(scan func(...any) error) error {
		var o Out
		var id sql.RawBytes
		if err := scan(&o.Seq, &o.Falls, &id, &o.At, &o.Cause); err != nil {
			return err
		}
		copy(o.ID[:], id)
		list = append(list, o)
		return nil
	}, "SELECT seq, falls, id, at, cause FROM outbox WHERE seq > ? ORDER BY seq LIMIT ?", after, limit)
	return list, err
}

// Unrecorded is how many firings of a trigger up to an outbox number are still to be recorded.
func (q Queries) Unrecorded(ctx context.Context, trigger string, seq int64) (n int64, err error) {
	err = q.query(ctx, func(scan func(...any) error) error { return scan(&n) },
		"SELECT count(*) FROM outbox JOIN fire USING (id) WHERE trig = ? AND outbox.seq <= ?", trigger, seq)
	return n, err
}

// LastOut is the highest number in the outbox; 0 if it is empty.
func (q Queries) LastOut(ctx context.Context) (seq int64, err error) {
	err = q.query(ctx, func(scan func(...any) error) error { return scan(&seq) }, "SELECT coalesce(max(seq), 0) FROM outbox")
	return seq, err
}

// TriggerOut are the firings of a trigger behind a Seq of which something is still to be recorded, at most limit.
func (t *Tx) TriggerOut(trigger string, after int64, limit int) ([]Fire, error) {
	return t.fires(t.ctx, "WHERE trig = ? AND seq > ? AND id IN (SELECT id FROM outbox) ORDER BY seq LIMIT ?", trigger, after, limit)
}

// LastVersion is the version of a trigger that fired last; 0 if none has.
func (q Queries) LastVersion(ctx context.Context, trigger string) (int, error) {
	x, err := only(q.fires(ctx, "WHERE trig = ? ORDER BY seq DESC LIMIT 1", trigger))
	if x == nil {
		return 0, err
	}
	return x.Version, nil
}
