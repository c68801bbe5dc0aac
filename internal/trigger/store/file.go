package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"

	"github.com/sebbroker/seb/internal/localdb"
)

const (
	// Schema is the version of FORMAT.md. A file of another version is rebuilt.
	Schema = 2
	// applicationID marks the file as one of this package: "sebt".
	applicationID = 0x73656274

	// readersMax is the number of concurrent queries.
	readersMax = 4
	// readerCache bounds the cache of each reader; it is at most a readerShare-th of the writer's.
	readerCache = 1 << 20
	readerShare = 8
	cacheBytes  = 32 << 20
)

var format = &localdb.Format{
	ApplicationID: applicationID, Version: Schema, Name: "a trigger database",
}

// schema is the statements that create the tables.
var schema = []string{
	`CREATE TABLE meta (id INTEGER PRIMARY KEY, cluster TEXT NOT NULL, floor INTEGER NOT NULL)`,
	`CREATE TABLE cursor (reader INTEGER NOT NULL, topic BLOB NOT NULL, part INTEGER NOT NULL, next INTEGER NOT NULL, ` +
		`clock INTEGER NOT NULL, origin BLOB NOT NULL, sum INTEGER NOT NULL, PRIMARY KEY (reader, topic, part)) WITHOUT ROWID`,
	`CREATE TABLE trig (no INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL, version INTEGER NOT NULL, status INTEGER NOT NULL, ` +
		`def BLOB NOT NULL, sum INTEGER NOT NULL)`,
	`CREATE TABLE inst (trig INTEGER NOT NULL, entity BLOB NOT NULL, part INTEGER NOT NULL, due INTEGER, data BLOB NOT NULL, ` +
		`PRIMARY KEY (trig, entity, part)) WITHOUT ROWID`,
	`CREATE INDEX inst_due ON inst (trig, due) WHERE due IS NOT NULL`,
	`CREATE TABLE fire (seq INTEGER PRIMARY KEY, id BLOB NOT NULL, trig TEXT NOT NULL, entity BLOB NOT NULL, due INTEGER, ` +
		`data BLOB NOT NULL, sum INTEGER NOT NULL)`,
	`CREATE UNIQUE INDEX fire_id ON fire (id)`,
	`CREATE INDEX fire_entity ON fire (entity, trig)`,
	`CREATE INDEX fire_trig ON fire (trig, seq)`,
	`CREATE INDEX fire_due ON fire (trig, due) WHERE due IS NOT NULL`,
	`CREATE TABLE outbox (seq INTEGER PRIMARY KEY AUTOINCREMENT, falls INTEGER NOT NULL, id BLOB NOT NULL, at INTEGER NOT NULL, ` +
		`cause TEXT NOT NULL)`,
	`CREATE UNIQUE INDEX outbox_id ON outbox (id, falls)`,
	`CREATE TABLE seen (reader INTEGER NOT NULL, hash BLOB NOT NULL, time INTEGER NOT NULL, offset INTEGER NOT NULL, ` +
		`PRIMARY KEY (reader, hash)) WITHOUT ROWID`,
	`CREATE INDEX seen_time ON seen (reader, time)`,
	`CREATE TABLE erased (hash BLOB PRIMARY KEY, offset INTEGER NOT NULL, time INTEGER NOT NULL) WITHOUT ROWID`,
	`CREATE TABLE name (topic BLOB NOT NULL, name TEXT NOT NULL, PRIMARY KEY (topic, name)) WITHOUT ROWID`,
}

// Options configure Open. Path and Cluster are required.
type Options struct {
	// Path is the file; SQLite adds files with the same prefix.
	Path string
	// Cluster is the ID of the log. A file of another one is refused as damaged.
	Cluster string
	// CacheBytes is SQLite's cache for the writer: 32 MiB.
	CacheBytes int64
	// Unsafe skips waiting for the disk at checkpoints, for tests.
	Unsafe bool
}

// File is the open file. Update is for one goroutine at a time; the methods of Queries may be
// called concurrently.
type File struct {
	Queries  // read the committed state
	wdb, rdb *sql.DB
	w        *sql.Conn // the only writer
	tx       Tx

	path, cluster string
	cache         int64 // cache of the writer, in bytes
	// floor is Floor.
	floor int64
}

// Open opens a file, or creates it if there is none. After an error that is localdb.ErrDamaged the
// caller must delete the file (Remove).
func Open(ctx context.Context, o Options) (f *File, err error) {
	if o.CacheBytes <= 0 {
		o.CacheBytes = cacheBytes
	}
	f = &File{path: o.Path, cluster: o.Cluster, cache: o.CacheBytes}
	defer func() {
		if err != nil {
			err = errors.Join(localdb.Classify(err), f.Close())
			f = nil
		}
	}()
	fresh, err := format.CheckHeader(o.Path)
	if err != nil {
		return f, err
	}
	if fresh { // otherwise a leftover write-ahead log would be applied
		if err := Remove(o.Path); err != nil {
			return f, err
		}
	}
	if err := f.connect(ctx, fresh, &o); err != nil {
		return f, err
	}
	if fresh {
		if err := f.create(ctx, o.Cluster); err != nil {
			return f, err
		}
	}
	return f, f.check(ctx, o.Cluster)
}

// connect opens the connections.
func (f *File) connect(ctx context.Context, fresh bool, o *Options) (err error) {
	synchronous := "NORMAL"
	if o.Unsafe {
		synchronous = "OFF"
	}
	if f.wdb, err = localdb.Open(o.Path, 1, localdb.Writing(fresh, synchronous, o.CacheBytes)); err != nil {
		return err
	}
	if f.w, err = f.wdb.Conn(ctx); err != nil {
		return err
	}
	f.tx.conn = &conn{prepare: f.w.PrepareContext}
	if f.rdb, err = localdb.Open(o.Path, readersMax, localdb.Reading(min(readerCache, o.CacheBytes/readerShare))); err != nil {
		return err
	}
	f.conn = &conn{prepare: f.rdb.PrepareContext}
	return nil
}

// create creates the tables and checkpoints them, so that the header can be checked from now on.
func (f *File) create(ctx context.Context, cluster string) error {
	steps := append([]string{"BEGIN"}, schema...)
	steps = append(append(steps, "COMMIT"), format.Stamp()...)
	for _, s := range steps {
		if _, err := f.w.ExecContext(ctx, s); err != nil {
			return fmt.Errorf("create: %w", err)
		}
	}
	if _, err := f.w.ExecContext(ctx, "INSERT INTO meta VALUES (1, ?, 0)", cluster); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	_, err := f.w.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
	return err
}

// Update runs change in a transaction. After an error nothing is changed, and the caller must drop
// what it read from the file. After localdb.ErrDamaged it must delete the file.
func (f *File) Update(ctx context.Context, change func(tx *Tx) error) error {
	ctx = context.WithoutCancel(ctx) // it is short, and half a transaction would stay open
	if _, err := f.w.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return fmt.Errorf("begin: %w", localdb.Classify(err))
	}
	f.tx.ctx = ctx
	err := change(&f.tx)
	if err == nil {
		_, err = f.w.ExecContext(ctx, "COMMIT")
	}
	if err != nil {
		// The transaction may be over already. If it cannot be rolled back, the next one fails to
		// begin, and the caller reopens the file.
		_, _ = f.w.ExecContext(ctx, "ROLLBACK")
		return fmt.Errorf("transaction: %w", localdb.Classify(err))
	}
	return nil
}

// Close closes the file. No query may be running.
func (f *File) Close() error {
	var errs []error
	// database/sql does not close prepared statements of a single connection, and SQLite keeps its
	// files open until they are closed.
	for _, c := range []*conn{f.tx.conn, f.conn} {
		if c != nil {
			errs = append(errs, c.close())
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

// Remove deletes a file and SQLite's additional files. It must not be open.
func Remove(path string) error { return localdb.Remove(path) }

// conn caches prepared statements by their text.
type conn struct {
	prepare func(ctx context.Context, text string) (*sql.Stmt, error)

	mu         sync.Mutex // guards statements
	statements map[string]*sql.Stmt
}

func (c *conn) stmt(ctx context.Context, text string) (*sql.Stmt, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.statements[text]
	if ok {
		return s, nil
	}
	s, err := c.prepare(context.WithoutCancel(ctx), text)
	if err != nil {
		return nil, err
	}
	if c.statements == nil {
		c.statements = map[string]*sql.Stmt{}
	}
	c.statements[text] = s
	return s, nil
}

func (c *conn) close() error {
	var errs []error
	for _, s := range c.statements {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// query runs a query and calls row for each result row.
func (c *conn) query(ctx context.Context, row func(scan func(...any) error) error, text string, args ...any) error {
	s, err := c.stmt(ctx, text)
	if err != nil {
		return localdb.Classify(err)
	}
	rows, err := s.QueryContext(ctx, args...)
	if err != nil {
		return localdb.Classify(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			return localdb.Classify(err)
		}
	}
	return localdb.Classify(rows.Err())
}

func (c *conn) exec(ctx context.Context, text string, args ...any) (int64, error) {
	s, err := c.stmt(ctx, text)
	if err != nil {
		return 0, err
	}
	r, err := s.ExecContext(ctx, args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}
