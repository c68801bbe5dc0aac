package store

import (
	"context"
	"encoding/binary"

	"github.com/sebbroker/seb/internal/localdb"
	"github.com/sebbroker/seb/record"
)

// Main is the reader that serves all triggers that have caught up with it. A trigger that has not is a reader of its own,
// with its number.
const Main = 0

// CursorKey is a reader's place in a partition.
type CursorKey struct {
	Reader    int64
	Topic     record.ID
	Partition uint32
}

// Cursor says how far a partition was read.
type Cursor struct {
	Next   int64     // offset of what is read next
	Clock  int64     // time (ms) of the newest event
	Origin record.ID // nonce of the epoch of what was read last
}

func (k *CursorKey) sum(c *Cursor) int64 {
	b := binary.AppendVarint(nil, k.Reader)
	b = append(b, k.Topic[:]...)
	b = binary.AppendUvarint(b, uint64(k.Partition))
	b = binary.AppendVarint(b, c.Next)
	b = binary.AppendVarint(b, c.Clock)
	return int64(record.CRC32C(append(b, c.Origin[:]...)))
}

// Cursors are all there are.
func (f *File) Cursors(ctx context.Context) (map[CursorKey]Cursor, error) { return f.tx.cursors(ctx) }

func (c *conn) cursors(ctx context.Context) (map[CursorKey]Cursor, error) {
	all := map[CursorKey]Cursor{}
	err := c.query(ctx, func(scan func(...any) error) error {
		var k CursorKey
		var c Cursor
		var topic, origin []byte
		var sum int64
		if err := scan(&k.Reader, &topic, &k.Partition, &c.Next, &c.Clock, &origin, &sum); err != nil {
			return localdb.Damaged("cursor: %v", err)
		}
		if copy(k.Topic[:], topic) != len(topic) || copy(c.Origin[:], origin) != len(origin) || sum != k.sum(&c) {
			return localdb.Damaged("cursor")
		}
		all[k] = c
		return nil
	}, "SELECT reader, topic, part, next, clock, origin, sum FROM cursor")
	return all, err
}

// Tx is a transaction, valid until the function that it was given to returns.
type Tx struct {
	*conn
	ctx context.Context
	seq int64 // the highest of a firing
}

func (t *Tx) put(text string, args ...any) error {
	_, err := t.exec(t.ctx, text, args...)
	return err
}

// PutCursor sets a cursor.
func (t *Tx) PutCursor(k CursorKey, c Cursor) error {
	return t.put("INSERT OR REPLACE INTO cursor VALUES (?, ?, ?, ?, ?, ?, ?)",
		k.Reader, k.Topic[:], k.Partition, c.Next, c.Clock, c.Origin[:], k.sum(&c))
}

// DropReader forgets the cursors of a reader, and what it has seen.
func (t *Tx) DropReader(reader int64) error {
	if err := t.put("DELETE FROM cursor WHERE reader = ?", reader); err != nil {
		return err
	}
	return t.put("DELETE FROM seen WHERE reader = ?", reader)
}

// Floor is the time (ms) before which it is not known which firings were recorded, because the topic of firings was
// trimmed before they were read; 0: all are known.
func (f *File) Floor() int64 { return f.floor }

// SetFloor sets it, for the next who opens the file too.
func (f *File) SetFloor(ctx context.Context, millis int64) error {
	err := f.Update(ctx, func(tx *Tx) error { return tx.put("UPDATE meta SET floor = ?", millis) })
	if err == nil {
		f.floor = millis
	}
	return err
}

// Hash is what entities and ids of events are kept as where they are not needed themselves.
type Hash [16]byte

// Sight is when (ms) and where in its partition an event with an id was.
type Sight struct{ Time, Offset int64 }

// Seen notes, for a reader, that an event with an id was there, unless one was at or after since (ms): ok is false then.
func (t *Tx) Seen(reader int64, h Hash, x Sight, since int64) (ok bool, err error) {
	n, err := t.exec(t.ctx, "INSERT INTO seen VALUES (?, ?, ?, ?) "+
		"ON CONFLICT DO UPDATE SET time = excluded.time, offset = excluded.offset WHERE time < ?", reader, h[:], x.Time, x.Offset, since)
	return n > 0, err
}

// CopySeen gives a reader what the main reader has seen. It does nothing, and ok is false, if that is more than limit events.
func (t *Tx) CopySeen(reader int64, limit int) (ok bool, err error) {
	var n int
	err = t.query(t.ctx, func(scan func(...any) error) error { return scan(&n) },
		"SELECT count(*) FROM (SELECT 1 FROM seen WHERE reader = ? LIMIT ?)", Main, limit+1)
	if err != nil || n > limit {
		return false, err
	}
	return true, t.put("INSERT INTO seen SELECT ?, hash, time, offset FROM seen WHERE reader = ?", reader, Main)
}

// PruneSeen forgets up to limit events of a reader before a time (ms).
func (t *Tx) PruneSeen(reader, before int64, limit int) error {
	return t.put("DELETE FROM seen WHERE (reader, hash) IN "+
		"(SELECT reader, hash FROM seen WHERE reader = ? AND time < ? LIMIT ?)", reader, before, limit)
}

// Erasure is where in its partition, and when (ms), an entity was erased last.
type Erasure struct{ Offset, Time int64 }

// Erase notes that an entity was erased.
func (t *Tx) Erase(h Hash, x Erasure) error {
	return t.put("INSERT OR REPLACE INTO erased VALUES (?, ?, ?)", h[:], x.Offset, x.Time)
}

// Erased is when an entity was erased; ok is false if it was not.
func (t *Tx) Erased(h Hash) (x Erasure, ok bool, err error) {
	err = t.query(t.ctx, func(scan func(...any) error) error {
		ok = true
		return scan(&x.Offset, &x.Time)
	}, "SELECT offset, time FROM erased WHERE hash = ?", h[:])
	return x, ok, err
}

// PutName notes that a topic has events of a name; added: that was not known.
func (t *Tx) PutName(topic record.ID, name string) (added bool, err error) {
	n, err := t.exec(t.ctx, "INSERT OR IGNORE INTO name VALUES (?, ?)", topic[:], name)
	return n > 0, err
}

// CountNames is how many names of events a topic has.
func (t *Tx) CountNames(topic record.ID) (n int, err error) {
	err = t.query(t.ctx, func(scan func(...any) error) error { return scan(&n) }, "SELECT count(*) FROM name WHERE topic = ?", topic[:])
	return n, err
}

// Queries read what was committed. They may be used concurrently.
type Queries struct{ *conn }

// SeenAt is where the main reader has seen an event with an id; ok is false if it has not, or it was forgotten.
func (q Queries) SeenAt(ctx context.Context, h Hash) (x Sight, ok bool, err error) {
	err = q.query(ctx, func(scan func(...any) error) error {
		ok = true
		return scan(&x.Time, &x.Offset)
	}, "SELECT time, offset FROM seen WHERE reader = ? AND hash = ?", Main, h[:])
	return x, ok, err
}

// Names are the names of events that a topic has, at most limit, sorted.
func (q Queries) Names(ctx context.Context, topic record.ID, limit int) ([]string, error) {
	return q.names(ctx, topic, limit)
}

func (c *conn) names(ctx context.Context, topic record.ID, limit int) (names []string, err error) {
	err = c.query(ctx, func(scan func(...any) error) error {
		var s string
		if err := scan(&s); err != nil {
			return err
		}
		names = append(names, s)
		return nil
	}, "SELECT name FROM name WHERE topic = ? ORDER BY name LIMIT ?", topic[:], limit)
	return names, err
}
