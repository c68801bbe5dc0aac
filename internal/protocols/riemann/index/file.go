package index

import (
	"context"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/views"
	"github.com/sebbroker/seb/internal/engine/views/localdb"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/record"
)

// format identifies the file: "sebr".
var format = &localdb.Format{ApplicationID: 0x73656272, Version: 1, Name: "an index of Riemann events", Schema: schema}

var schema = []string{
	`CREATE TABLE meta (id INTEGER PRIMARY KEY, cluster TEXT NOT NULL, topic BLOB NOT NULL)`,
	`CREATE TABLE cursor (part INTEGER PRIMARY KEY, next INTEGER NOT NULL, origin BLOB NOT NULL)`,
	`CREATE TABLE entry (key BLOB PRIMARY KEY, part INTEGER NOT NULL, off INTEGER NOT NULL, at INTEGER NOT NULL, due INTEGER, ` +
		`time INTEGER NOT NULL, data BLOB NOT NULL, sum INTEGER NOT NULL) WITHOUT ROWID`,
	`CREATE INDEX entry_due ON entry (due) WHERE due IS NOT NULL`,
}

// entry is the newest event of a host and a service.
type entry struct {
	key    []byte
	part   uint32
	offset int64
	at     int64 // append time, ms
	due    int64 // deadline, ms; never: -1
	time   int64 // occurred_at, µs; noTime
	data   []byte
}

const never = -1

// size is what an entry counts towards the limit of bytes.
func (e *entry) size() int64 { return int64(len(e.key) + len(e.data) + entryBytes) }

// entryBytes is the size of an entry without its key and data, with its rows in both indexes.
const entryBytes = 64

func (e *entry) sum() uint32 {
	b := append([]byte{}, e.key...)
	for _, n := range []int64{int64(e.part), e.offset, e.at, e.due, e.time} {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	return record.CRC32C(append(b, e.data...))
}

func (e *entry) check(sum uint32) error {
	if e.sum() != sum {
		return localdb.Damaged("an event has a wrong checksum")
	}
	return nil
}

// keyOf returns the key of a host and a service.
func keyOf(dst []byte, host, service string) []byte {
	return append(append(binary.AppendUvarint(dst, uint64(len(host))), host...), service...)
}

// splitKey is the inverse of keyOf.
func splitKey(key []byte) (host, service []byte) {
	n, size := binary.Uvarint(key)
	if size <= 0 || n > uint64(len(key)-size) {
		return nil, nil // checksums exclude that
	}
	return key[size : size+int(n)], key[size+int(n):]
}

// cursor is how far a partition was read.
type cursor struct {
	next   int64
	origin record.ID
	time   int64 // append time before next, ms; 0: not read since the start. Not in the file
}

// file is the open file. Only the worker writes to it.
type file struct {
	*localdb.File
	topic          record.ID
	cursors        map[uint32]cursor
	entries, bytes int64
	earliest       int64 // no entry has an earlier deadline, ms; noDeadline
}

// noDeadline is the earliest deadline if no entry has one.
const noDeadline = math.MaxInt64

// openFile opens or creates the file of a topic.
func openFile(ctx context.Context, o *Options, topic record.ID) (*file, error) {
	db, err := localdb.OpenFile(ctx, &localdb.Options{
		Path: o.Path, Format: format, CacheBytes: o.CacheBytes,
		First: "INSERT INTO meta VALUES (1, ?, ?)", Args: []any{o.Log.Cluster().String(), topic[:]},
	})
	if err != nil {
		return nil, err
	}
	f := &file{File: db, cursors: map[uint32]cursor{}, topic: topic}
	if err := f.load(ctx, o.Log); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// load checks that the file is of this log, and reads its positions and sizes.
func (f *file) load(ctx context.Context, log Log) error {
	var cluster string
	var topic []byte
	err := f.W.Query(ctx, func(scan func(...any) error) error { return scan(&cluster, &topic) }, "SELECT cluster, topic FROM meta")
	if err != nil {
		return err
	}
	if cluster != log.Cluster().String() || string(topic) != string(f.topic[:]) {
		return localdb.Damaged("it is of another topic")
	}
	err = f.W.Query(ctx, func(scan func(...any) error) error {
		var part uint32
		var c cursor
		var origin []byte
		if err := scan(&part, &c.next, &origin); err != nil {
			return err
		}
		copy(c.origin[:], origin)
		if _, same := views.SameOrigin(log, f.topic, part, c.next, c.origin); !same {
			return localdb.Damaged("it contains events that are not in the log")
		}
		f.cursors[part] = c
		return nil
	}, "SELECT part, next, origin FROM cursor")
	if err != nil {
		return err
	}
	return f.W.Query(ctx, func(scan func(...any) error) error { return scan(&f.entries, &f.bytes) },
		"SELECT count(*), coalesce(sum(length(key) + length(data) + ?), 0) FROM entry", entryBytes)
}

// putCursor stores how far a partition was read.
func (f *file) putCursor(ctx context.Context, part uint32, c cursor) error {
	_, err := f.W.Exec(ctx, "INSERT OR REPLACE INTO cursor VALUES (?, ?, ?)", part, c.next, c.origin[:])
	return err
}

// find returns the position of the stored entry of a key, and its size; 0: there is none.
func (f *file) find(ctx context.Context, key []byte) (e entry, size int64, err error) {
	err = f.W.Query(ctx, func(scan func(...any) error) error {
		err := scan(&e.part, &e.offset, &size)
		size += int64(len(key)) + entryBytes
		return err
	}, "SELECT part, off, length(data) FROM entry WHERE key = ?", key)
	return e, size, err
}

// store stores an entry in place of one of a size; 0: none.
func (f *file) store(ctx context.Context, e *entry, replaced int64) error {
	due := sql.NullInt64{Int64: e.due, Valid: e.due != never}
	_, err := f.W.Exec(ctx, "INSERT OR REPLACE INTO entry VALUES (?, ?, ?, ?, ?, ?, ?, ?)", e.key, e.part, e.offset, e.at, due, e.time, e.data, e.sum())
	if due.Valid {
		f.earliest = min(f.earliest, e.due)
	}
	if f.bytes += e.size() - replaced; replaced == 0 {
		f.entries++
	}
	return err
}

// remove removes an entry of a size.
func (f *file) remove(ctx context.Context, key []byte, size int64) error {
	_, err := f.W.Exec(ctx, "DELETE FROM entry WHERE key = ?", key)
	f.bytes, f.entries = f.bytes-size, f.entries-1
	return err
}

// overdue returns up to limit entries with a deadline of at most due, earliest first, without their
// data.
func (f *file) overdue(ctx context.Context, due int64, limit int) (list []entry, err error) {
	err = f.W.Query(ctx, func(scan func(...any) error) error {
		var e entry
		err := scan(&e.key, &e.part, &e.offset, &e.at, &e.due)
		list = append(list, e)
		return err
	}, "SELECT key, part, off, at, due FROM entry WHERE due <= ? ORDER BY due LIMIT ?", due, limit)
	return list, err
}

// firstDue returns the first deadline, or noDeadline.
func (f *file) firstDue(ctx context.Context) (due int64, err error) {
	err = f.W.Query(ctx, func(scan func(...any) error) error { return scan(&due) },
		"SELECT coalesce(min(due), ?) FROM entry WHERE due IS NOT NULL", noDeadline)
	return due, err
}

// clockStep is what the clock must be beyond a deadline, so that a slot at that time is after it.
const clockStep = 2 // ms

// expire appends expired records for events whose deadline has passed. The file has all records of
// pos, in which this broker leads in that epoch. It returns how long there is no more to do.
func (w *worker) expire(ctx context.Context, pos *views.Position, epoch uint32) (time.Duration, error) {
	now := w.opt.Now()
	if d := w.retry.Left(now, retryBackoff); d > 0 {
		return d, nil
	}
	complete := pos.Complete()
	passing := max(complete, now.UnixMilli()-clockStep)
	if passing < w.f.earliest { // a turn after a commit of other topics ends here, without a query
		return w.untilDue(now), nil
	}
	list, err := w.f.overdue(ctx, passing, w.opt.expireBatch)
	if err == nil && len(list) == 0 {
		w.f.earliest, err = w.f.firstDue(ctx)
	}
	if err != nil {
		return 0, err
	}
	if len(list) == 0 {
		return w.untilDue(now), nil
	}
	part, passed := list[0].part, true
	var recs []record.Record
	for i := range list {
		if e := &list[i]; e.part == part {
			recs = append(recs, e.expiredRecord())
			passed = passed && e.due <= complete
		}
	}
	expected := w.f.cursors[part].next
	if passed && w.contended {
		expected = -1 // a later event is in a slot after the deadline
	}
	err = w.opt.Log.Append(ctx, w.f.topic, part, recs, expected)
	switch {
	case err == nil:
		w.retry, w.contended = views.Retry{}, false
		return 0, nil // read it before the next decision
	case ctx.Err() != nil:
		w.uncertain = epoch
		return 0, nil
	case errors.Is(err, state.ErrOffsetMismatch) && !w.contended:
		w.contended = true
		return 0, nil // other records came first: read them
	case errors.Is(err, state.ErrOffsetMismatch):
	case errors.Is(err, state.ErrOutcomeUnknown):
		w.uncertain = epoch
		return views.Idle, nil
	default:
		w.opt.Logger.Warn("expired Riemann events not recorded", "events", len(recs), "err", err)
	}
	return w.retry.Again(now, retryBackoff), nil
}

// untilDue returns the time until a deadline may have passed.
func (w *worker) untilDue(now time.Time) time.Duration {
	if w.f.earliest == noDeadline {
		return views.Idle
	}
	return min(max(time.UnixMilli(w.f.earliest+clockStep).Sub(now), time.Millisecond), views.Idle)
}

// expiredName is the name of an expired record as an event. It is not the service, because a trigger
// that waits for the next event of a service must not take its expiry for one.
const expiredName = "expired"

// expiredData is the data of an expired record. No event of a Riemann client that has the name
// expiredName has a member "service".
type expiredData struct {
	Service string  `json:"service"`
	State   string  `json:"state"` // stateExpired
	TTL     float64 `json:"ttl"`   // that has passed, in seconds
}

// expiredRecord returns the record that expires an event. Its ID makes it the only one that
// triggers count.
func (e *entry) expiredRecord() record.Record {
	host, service := splitKey(e.key)
	at := rule.Occurred{Time: time.UnixMilli(e.due).UTC(), Given: true}
	data, _ := json.Marshal(expiredData{string(service), stateExpired, float64(e.due-e.at) / 1000})
	value, _ := json.Marshal(&rule.Event{ // texts, a number and a time have no error
		Name: expiredName, EntityID: string(host), ID: expiredPrefix + strconv.FormatInt(e.offset, 10), Data: data, OccurredAt: at,
	})
	return record.Record{Key: host, Value: value}
}
