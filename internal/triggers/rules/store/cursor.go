package store

import (
	"context"
	"encoding/binary"

	"github.com/sebbroker/seb/internal/engine/views/localdb"
	"github.com/sebbroker/seb/record"
)

// Main is the reader of all triggers that have caught up. Any other trigger is a reader of its own,
// with its number.
const Main = 0

// CursorKey identifies a reader in a partition.
type CursorKey struct {
	Reader    int64
	Topic     record.ID
	Partition uint32
}

// Cursor is a reader's progress in a partition.
type Cursor struct {
	Next   int64     // next offset to read
	Clock  int64     // time (ms) of the newest event
	Origin record.ID // nonce of the epoch of the last record
}

func (k *CursorKey) sum(c *Cursor) int64 {
	b := binary.AppendVarint(nil, k.Reader)
	b = append(b, k.Topic[:]...)
	b = binary.AppendUvarint(b, uint64(k.Partition))
	b = binary.AppendVarint(b, c.Next)
	b = binary.AppendVarint(b, c.Clock)
	return int64(record.CRC32C(append(b, c.Origin[:]...)))
}

// Cursors are all cursors.
func (f *File) Cursors(ctx context.Context) (map[CursorKey]Cursor, error) { return f.tx.cursors(ctx) }

func (c *conn) cursors(ctx context.Context) (map[CursorKey]Cursor, error) {
	all := map[CursorKey]Cursor{}
	err := c.Query(ctx, func(scan func(...any) error) error {
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

// Tx is a transaction, valid until the function that received it returns.
type Tx struct {
	*conn
	ctx context.Context
	seq int64 // the highest Seq of a firing or a retraction
	held
	erases bool // an entity may have been erased
}

func (t *Tx) put(text string, args ...any) error {
	_, err := t.Exec(t.ctx, text, args...)
	return err
}

// PutCursor sets a cursor.
func (t *Tx) PutCursor(k CursorKey, c Cursor) error {
	return t.put("INSERT OR REPLACE INTO cursor VALUES (?, ?, ?, ?, ?, ?, ?)",
		k.Reader, k.Topic[:], k.Partition, c.Next, c.Clock, c.Origin[:], k.sum(&c))
}

// DropReader deletes the cursors of a reader, and its event IDs.
func (t *Tx) DropReader(reader int64) error {
	if err := t.put("DELETE FROM cursor WHERE reader = ?", reader); err != nil {
		return err
	}
	return t.put("DELETE FROM seen WHERE reader = ?", reader)
}

// Floor is the time (ms) before which firings may be missing, because the topic of firings was
// trimmed before they were read; 0: none are missing.
func (f *File) Floor() int64 { return f.floor }

// SetFloor sets Floor, permanently.
func (f *File) SetFloor(ctx context.Context, millis int64) error {
	err := f.Update(ctx, func(tx *Tx) error { return tx.put("UPDATE meta SET floor = ?", millis) })
	if err == nil {
		f.floor = millis
	}
	return err
}

// Hash identifies an entity or event ID whose text is not needed.
type Hash [16]byte

// SeenEvent is the time (ms) and offset of an event with an ID.
type SeenEvent struct{ Time, Offset int64 }

// MarkSeen records an event with an ID for a reader. ok is false if one was recorded at or after since
// (ms).
func (t *Tx) MarkSeen(reader int64, h Hash, x SeenEvent, since int64) (ok bool, err error) {
	n, err := t.Exec(t.ctx, "INSERT INTO seen VALUES (?, ?, ?, ?) "+
		"ON CONFLICT DO UPDATE SET time = excluded.time, offset = excluded.offset WHERE time < ?", reader, h[:], x.Time, x.Offset, since)
	return n > 0, err
}

// CopySeen copies the event IDs of the main reader to a reader. If there are more than limit, it
// does nothing and ok is false.
func (t *Tx) CopySeen(reader int64, limit int) (ok bool, err error) {
	var n int
	err = t.Query(t.ctx, func(scan func(...any) error) error { return scan(&n) },
		"SELECT count(*) FROM (SELECT 1 FROM seen WHERE reader = ? LIMIT ?)", Main, limit+1)
	if err != nil || n > limit {
		return false, err
	}
	return true, t.put("INSERT INTO seen SELECT ?, hash, time, offset FROM seen WHERE reader = ?", reader, Main)
}

// PruneSeen deletes up to limit event IDs of a reader before a time (ms).
func (t *Tx) PruneSeen(reader, before int64, limit int) error {
	return t.put("DELETE FROM seen WHERE (reader, hash) IN "+
		"(SELECT reader, hash FROM seen WHERE reader = ? AND time < ? LIMIT ?)", reader, before, limit)
}

// Erasure is the offset and time (ms) of an entity's last erasure.
type Erasure struct{ Offset, Time int64 }

// Erase records an erasure of an entity.
func (t *Tx) Erase(h Hash, x Erasure) error {
	t.erases = true
	return t.put("INSERT OR REPLACE INTO erased VALUES (?, ?, ?)", h[:], x.Offset, x.Time)
}

// Erased returns the erasure of an entity; ok is false if there is none.
func (t *Tx) Erased(h Hash) (x Erasure, ok bool, err error) {
	if !t.erases {
		return x, false, nil
	}
	err = t.Query(t.ctx, func(scan func(...any) error) error {
		ok = true
		return scan(&x.Offset, &x.Time)
	}, "SELECT offset, time FROM erased WHERE hash = ?", h[:])
	return x, ok, err
}

// Mark is an offset of the topic of definitions that is noted with the erasures.
type Mark uint8

// The marks: below the offset, readable or outdated secrets were replaced; no copy of the file has
// them; no object of the log has them.
const (
	Replaced Mark = iota + 1
	Copied
	Purged
)

func (m Mark) hash() []byte { return append([]byte("secrets........"), byte(m)) }

// PutMark sets a mark.
func (t *Tx) PutMark(m Mark, offset int64) error {
	return t.put("INSERT OR REPLACE INTO erased VALUES (?, ?, 0)", m.hash(), offset)
}

// Mark returns the offset of a mark; 0: none.
func (q Queries) Mark(ctx context.Context, m Mark) (offset int64, err error) {
	err = q.Query(ctx, func(scan func(...any) error) error { return scan(&offset) }, "SELECT coalesce(max(offset), 0) FROM erased WHERE hash = ?", m.hash())
	return offset, err
}

// PutName records an event name of a topic; added reports that it is new.
func (t *Tx) PutName(topic record.ID, name string) (added bool, err error) {
	n, err := t.Exec(t.ctx, "INSERT OR IGNORE INTO name VALUES (?, ?)", topic[:], name)
	return n > 0, err
}

// CountNames is the number of event names of a topic.
func (t *Tx) CountNames(topic record.ID) (n int, err error) {
	err = t.Query(t.ctx, func(scan func(...any) error) error { return scan(&n) }, "SELECT count(*) FROM name WHERE topic = ?", topic[:])
	return n, err
}

// Queries read the committed state. They may be used concurrently.
type Queries struct{ *conn }

// SeenAt is the position of an event with an ID for the main reader; ok is false if there is none,
// or it was deleted.
func (q Queries) SeenAt(ctx context.Context, h Hash) (x SeenEvent, ok bool, err error) {
	err = q.Query(ctx, func(scan func(...any) error) error {
		ok = true
		return scan(&x.Time, &x.Offset)
	}, "SELECT time, offset FROM seen WHERE reader = ? AND hash = ?", Main, h[:])
	return x, ok, err
}

// Names are the event names of a topic with a prefix, at most limit, sorted.
func (q Queries) Names(ctx context.Context, topic record.ID, prefix string, limit int) (names []string, err error) {
	err = q.Query(ctx, func(scan func(...any) error) error {
		var s string
		if err := scan(&s); err != nil {
			return err
		}
		names = append(names, s)
		return nil
	}, "SELECT name FROM name WHERE topic = ? AND name >= ? AND name < ? ORDER BY name LIMIT ?",
		topic[:], prefix, prefix+"\xff", limit) // no name, which is UTF-8, has the byte 0xff
	return names, err
}
