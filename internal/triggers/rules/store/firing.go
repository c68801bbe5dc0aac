package store

import (
	"context"
	"database/sql"
	"encoding/binary"
	"encoding/json"

	"github.com/sebbroker/seb/internal/engine/views/localdb"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/record"
)

// Firing is a firing and its state.
type Firing struct {
	Seq       int64      `json:"-"` // order in which this file learned of firings
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
	// Recorded is the time (ms) of its record, 0 if there is none yet.
	Recorded int64 `json:"r,omitempty"`
	// Changed is the time (ms) of the last record that changed it; 0: only the first one.
	Changed int64 `json:"ch,omitempty"`
	// RetractedAt is the recorded instant (ms) at which its expression was no longer true; 0: none.
	// Retraction reports whether the message to deliver is the retraction.
	RetractedAt    int64  `json:"t,omitempty"`
	RetractedCause string `json:"tc,omitempty"`
	Retraction     bool   `json:"rt,omitempty"`
	// NextTry is the time (ms) of the next delivery, if it is pending. Tries is the number of
	// recorded attempts at the message.
	NextTry int64           `json:"n,omitempty"`
	Tries   int             `json:"k,omitempty"`
	Outcome json.RawMessage `json:"o,omitempty"` // of the last attempt
}

func (x *Firing) due() any {
	if x.State == rule.Pending {
		return x.NextTry
	}
	return nil
}

func (x *Firing) sum(data []byte) int64 {
	b := append(binary.AppendVarint(nil, x.Seq), x.ID[:]...)
	b = append(append(append(b, x.Trigger...), 0), x.Entity...)
	return int64(record.CRC32C(append(append(b, 0), data...)))
}

const firingColumns = "SELECT seq, id, trig, entity, data, sum FROM fire "

func (c *conn) queryFirings(ctx context.Context, where string, args ...any) (list []Firing, err error) {
	err = c.Query(ctx, func(scan func(...any) error) error {
		var x Firing
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
func (t *Tx) Firing(id rule.ID) (*Firing, error) {
	return only(t.queryFirings(t.ctx, "WHERE id = ?", id[:]))
}

// Firing returns a firing by its ID, or nil.
func (q Queries) Firing(ctx context.Context, id rule.ID) (*Firing, error) {
	return only(q.queryFirings(ctx, "WHERE id = ?", id[:]))
}

// AddFiring adds a firing, unless there is one with its ID. It sets x.Seq.
func (t *Tx) AddFiring(x *Firing) (added bool, err error) {
	x.Seq = t.seq + 1
	data, err := json.Marshal(x)
	if err != nil {
		return false, err
	}
	n, err := t.Exec(t.ctx, "INSERT INTO fire VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING",
		x.Seq, x.ID[:], x.Trigger, []byte(x.Entity), x.due(), data, x.sum(data))
	t.seq += n
	return n > 0, err
}

// UpdateFiring updates an existing firing.
func (t *Tx) UpdateFiring(x *Firing) error {
	data, err := json.Marshal(x)
	if err != nil {
		return err
	}
	return t.put("UPDATE fire SET due = ?, data = ?, sum = ? WHERE seq = ?", x.due(), data, x.sum(data), x.Seq)
}

// EntityFirings returns the firings of an entity after a Seq, in order, at most limit: of one
// trigger, or with trigger "" of all.
func (t *Tx) EntityFirings(entity, trigger string, after int64, limit int) ([]Firing, error) {
	if trigger == "" {
		return t.queryFirings(t.ctx, "WHERE entity = ? AND seq > ? ORDER BY seq LIMIT ?", []byte(entity), after, limit)
	}
	return t.queryFirings(t.ctx, "WHERE entity = ? AND trig = ? AND seq > ? ORDER BY seq LIMIT ?", []byte(entity), trigger, after, limit)
}

// EntityFirings returns the last firings of an entity by a trigger, at most limit, newest first.
func (q Queries) EntityFirings(ctx context.Context, entity, trigger string, limit int) ([]Firing, error) {
	return q.queryFirings(ctx, "WHERE entity = ? AND trig = ? ORDER BY seq DESC LIMIT ?", []byte(entity), trigger, limit)
}

// DeleteFiring deletes a firing and its outbox entries.
func (t *Tx) DeleteFiring(id rule.ID) error {
	if err := t.put("DELETE FROM fire WHERE id = ?", id[:]); err != nil {
		return err
	}
	return t.put("DELETE FROM outbox WHERE id = ?", id[:])
}

// Pending returns the firings of a trigger that are due at an instant (ms), ordered by due time,
// without those of the entities in except.
func (q Queries) Pending(ctx context.Context, trigger string, at int64, limit int, except []string) ([]Firing, error) {
	if len(except) == 0 {
		return q.queryFirings(ctx, "WHERE trig = ? AND due <= ? ORDER BY due, seq LIMIT ?", trigger, at, limit)
	}
	list, err := json.Marshal(except)
	if err != nil {
		return nil, err
	}
	return q.queryFirings(ctx, "WHERE trig = ? AND due <= ? AND entity NOT IN (SELECT CAST(value AS BLOB) FROM json_each(?)) "+
		"ORDER BY due, seq LIMIT ?", trigger, at, string(list), limit)
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
	return t.queryFirings(t.ctx, "WHERE trig = ? AND seq > ? AND due IS NOT NULL ORDER BY seq LIMIT ?", trigger, after, limit)
}

// OutboxEntry is an outbox entry: a firing or retraction to record.
type OutboxEntry struct {
	Seq      int64
	Retracts bool // a retraction; else a firing
	ID       rule.ID
	At       int64
	Cause    string
}

// PutOutbox adds an outbox entry, unless it exists.
func (t *Tx) PutOutbox(o *OutboxEntry) error {
	return t.put("INSERT OR IGNORE INTO outbox (falls, id, at, cause) VALUES (?, ?, ?, ?)", o.Retracts, o.ID[:], o.At, o.Cause)
}

// DeleteOutbox deletes an outbox entry after it was recorded or became obsolete.
func (t *Tx) DeleteOutbox(id rule.ID, falls bool) error {
	return t.put("DELETE FROM outbox WHERE id = ? AND falls = ?", id[:], falls)
}

// Outbox returns the outbox entries after a number, in order, at most limit.
func (t *Tx) Outbox(after int64, limit int) (list []OutboxEntry, err error) {
	err = t.Query(t.ctx, func(scan func(...any) error) error {
		var o OutboxEntry
		var id sql.RawBytes
		if err := scan(&o.Seq, &o.Retracts, &id, &o.At, &o.Cause); err != nil {
			return err
		}
		copy(o.ID[:], id)
		list = append(list, o)
		return nil
	}, "SELECT seq, falls, id, at, cause FROM outbox WHERE seq > ? ORDER BY seq LIMIT ?", after, limit)
	return list, err
}

// Unrecorded is the number of outbox entries of a trigger up to a number.
func (q Queries) Unrecorded(ctx context.Context, trigger string, seq int64) (n int64, err error) {
	err = q.Query(ctx, func(scan func(...any) error) error { return scan(&n) },
		"SELECT count(*) FROM outbox JOIN fire USING (id) WHERE trig = ? AND outbox.seq <= ?", trigger, seq)
	return n, err
}

// LastOutbox is the highest number in the outbox; 0 if it is empty.
func (q Queries) LastOutbox(ctx context.Context) (seq int64, err error) {
	err = q.Query(ctx, func(scan func(...any) error) error { return scan(&seq) }, "SELECT coalesce(max(seq), 0) FROM outbox")
	return seq, err
}

// TriggerOutbox returns the firings of a trigger after a Seq that have outbox entries, at most limit.
func (t *Tx) TriggerOutbox(trigger string, after int64, limit int) ([]Firing, error) {
	return t.queryFirings(t.ctx, "WHERE trig = ? AND seq > ? AND id IN (SELECT id FROM outbox) ORDER BY seq LIMIT ?", trigger, after, limit)
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
