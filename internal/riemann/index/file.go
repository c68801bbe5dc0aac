package index

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sebbroker/seb/internal/follow"
	"github.com/sebbroker/seb/internal/localdb"
	"github.com/sebbroker/seb/record"
)

// format identifies the file: "sebr".
var format = &localdb.Format{ApplicationID: 0x73656272, Version: 1, Name: "an index of Riemann events"}

var schema = []string{
	`CREATE TABLE meta (id INTEGER PRIMARY KEY, cluster TEXT NOT NULL, topic BLOB NOT NULL)`,
	`CREATE TABLE cursor (part INTEGER PRIMARY KEY, next INTEGER NOT NULL, origin BLOB NOT NULL)`,
	`CREATE TABLE entry (key BLOB PRIMARY KEY, part INTEGER NOT NULL, off INTEGER NOT NULL, at INTEGER NOT NULL, due INTEGER, ` +
		`time INTEGER NOT NULL, data BLOB NOT NULL, sum INTEGER NOT NULL) WITHOUT ROWID`,
	`CREATE INDEX entry_due ON entry (due) WHERE due IS NOT NULL`,
}

const (
	// readersMax is the number of concurrent queries.
	readersMax = 4
	// readerShare is the share of a query's cache in that of the writer.
	readerShare = 8
)

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
	wdb, rdb       *sql.DB
	w              *sql.Conn
	put, get, drop *sql.Stmt // of w
	topic          record.ID
	cursors        map[uint32]cursor
	entries, bytes int64
}

// openFile opens or creates the file of a topic.
func openFile(ctx context.Context, o *Options, topic record.ID) (f *file, err error) {
	if err := os.MkdirAll(filepath.Dir(o.Path), 0o700); err != nil {
		return nil, err
	}
	f = &file{cursors: map[uint32]cursor{}, topic: topic}
	defer func() {
		if err != nil {
			err = errors.Join(localdb.Classify(err), f.close())
			f = nil
		}
	}()
	fresh, err := format.CheckHeader(o.Path)
	if err != nil {
		return f, err
	}
	if fresh { // else a write-ahead log without its file would be applied
		if err := localdb.Remove(o.Path); err != nil {
			return f, err
		}
	}
	if f.wdb, err = localdb.Open(o.Path, 1, localdb.Writing(fresh, "NORMAL", o.CacheBytes)); err != nil {
		return f, err
	}
	if f.w, err = f.wdb.Conn(ctx); err != nil {
		return f, err
	}
	if f.rdb, err = localdb.Open(o.Path, readersMax, localdb.Reading(o.CacheBytes/readerShare)); err != nil {
		return f, err
	}
	if fresh {
		if err := f.create(ctx, o.Log.Cluster()); err != nil {
			return f, fmt.Errorf("create: %w", err)
		}
	} else if err := localdb.CheckPages(ctx, f.wdbConn()); err != nil {
		return f, err
	}
	return f, f.load(ctx, o.Log)
}

func (f *file) wdbConn() localdb.Querier { return f.w }

func (f *file) create(ctx context.Context, cluster record.ID) error {
	steps := append(append([]string{"BEGIN"}, schema...), "COMMIT")
	for _, s := range append(steps, format.Stamp()...) {
		if _, err := f.w.ExecContext(ctx, s); err != nil {
			return err
		}
	}
	if _, err := f.w.ExecContext(ctx, "INSERT INTO meta VALUES (1, ?, ?)", cluster.String(), f.topic[:]); err != nil {
		return err
	}
	_, err := f.w.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
	return err
}

// load checks that the file is of this log, and reads its positions and sizes.
func (f *file) load(ctx context.Context, log Log) error {
	var cluster string
	var topic []byte
	if err := f.w.QueryRowContext(ctx, "SELECT cluster, topic FROM meta").Scan(&cluster, &topic); err != nil {
		return err
	}
	if cluster != log.Cluster().String() || string(topic) != string(f.topic[:]) {
		return localdb.Damaged("it is of another topic")
	}
	rows, err := f.w.QueryContext(ctx, "SELECT part, next, origin FROM cursor")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var part uint32
		var c cursor
		var origin []byte
		if err := rows.Scan(&part, &c.next, &origin); err != nil {
			return err
		}
		copy(c.origin[:], origin)
		if _, same := follow.SameOrigin(log, f.topic, part, c.next, c.origin); !same {
			return localdb.Damaged("it contains events that are not in the log")
		}
		f.cursors[part] = c
	}
	if err := rows.Err(); err != nil {
		return err
	}
	err = f.w.QueryRowContext(ctx, "SELECT count(*), coalesce(sum(length(key) + length(data) + ?), 0) FROM entry", entryBytes).Scan(&f.entries, &f.bytes)
	if err != nil {
		return err
	}
	for _, s := range []struct {
		to   **sql.Stmt
		text string
	}{
		{&f.get, "SELECT part, off, length(data) FROM entry WHERE key = ?"},
		{&f.put, "INSERT OR REPLACE INTO entry VALUES (?, ?, ?, ?, ?, ?, ?, ?)"},
		{&f.drop, "DELETE FROM entry WHERE key = ?"},
	} {
		if *s.to, err = f.w.PrepareContext(ctx, s.text); err != nil {
			return err
		}
	}
	return nil
}

// update runs change in a transaction.
func (f *file) update(ctx context.Context, change func(ctx context.Context) error) error {
	ctx = context.WithoutCancel(ctx) // it is short
	if _, err := f.w.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return fmt.Errorf("begin: %w", localdb.Classify(err))
	}
	entries, bytes := f.entries, f.bytes
	err := change(ctx)
	if err == nil {
		_, err = f.w.ExecContext(ctx, "COMMIT")
	}
	if err != nil {
		f.entries, f.bytes = entries, bytes
		_, _ = f.w.ExecContext(ctx, "ROLLBACK") // it may be over already
		return fmt.Errorf("transaction: %w", localdb.Classify(err))
	}
	return nil
}

// find returns the stored entry of a key without its data, and its size.
func (f *file) find(ctx context.Context, key []byte) (e entry, size int64, there bool, err error) {
	var data int64
	err = f.get.QueryRowContext(ctx, key).Scan(&e.part, &e.offset, &data)
	if errors.Is(err, sql.ErrNoRows) {
		return e, 0, false, nil
	}
	return e, int64(len(key)) + data + entryBytes, err == nil, err
}

// store stores an entry in place of one of a size; 0: none.
func (f *file) store(ctx context.Context, e *entry, replaced int64) error {
	due := sql.NullInt64{Int64: e.due, Valid: e.due != never}
	if _, err := f.put.ExecContext(ctx, e.key, e.part, e.offset, e.at, due, e.time, e.data, e.sum()); err != nil {
		return err
	}
	f.bytes += e.size() - replaced
	if replaced == 0 {
		f.entries++
	}
	return nil
}

// remove removes an entry of a size.
func (f *file) remove(ctx context.Context, key []byte, size int64) error {
	if _, err := f.drop.ExecContext(ctx, key); err != nil {
		return err
	}
	f.bytes, f.entries = f.bytes-size, f.entries-1
	return nil
}

// overdue returns up to limit entries with a deadline of at most due, earliest first, without their
// data.
func (f *file) overdue(ctx context.Context, due int64, limit int) (list []entry, err error) {
	rows, err := f.w.QueryContext(ctx, "SELECT key, part, off, at, due FROM entry WHERE due <= ? ORDER BY due LIMIT ?", due, limit)
	if err != nil {
		return nil, localdb.Classify(err)
	}
	defer rows.Close()
	for rows.Next() {
		var e entry
		if err := rows.Scan(&e.key, &e.part, &e.offset, &e.at, &e.due); err != nil {
			return nil, localdb.Classify(err)
		}
		list = append(list, e)
	}
	return list, localdb.Classify(rows.Err())
}

// firstDue returns the first deadline, or never.
func (f *file) firstDue(ctx context.Context) (due int64, err error) {
	err = f.w.QueryRowContext(ctx, "SELECT coalesce(min(due), ?) FROM entry WHERE due IS NOT NULL", never).Scan(&due)
	return due, localdb.Classify(err)
}

// close closes the file. No query may be running.
func (f *file) close() error {
	var errs []error
	for _, s := range []*sql.Stmt{f.put, f.get, f.drop} {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	if f.w != nil {
		errs = append(errs, f.w.Close())
	}
	for _, db := range []*sql.DB{f.rdb, f.wdb} { // closing the last one empties the write-ahead log
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(errs...)
}
