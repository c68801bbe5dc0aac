package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/sebbroker/seb/internal/engine/views/localdb"
)

const (
	// Schema is the version of FORMAT.md. A file of another version is rebuilt.
	Schema = 3
	// applicationID marks the file as one of this package: "sebt".
	applicationID = 0x73656274

	cacheBytes = 32 << 20
)

var format = &localdb.Format{
	ApplicationID: applicationID, Version: Schema, Name: "a trigger database", Schema: schema,
}

var schema = []string{
	`CREATE TABLE meta (id INTEGER PRIMARY KEY, cluster TEXT NOT NULL, floor INTEGER NOT NULL)`,
	`CREATE TABLE cursor (reader INTEGER NOT NULL, topic BLOB NOT NULL, part INTEGER NOT NULL, next INTEGER NOT NULL, ` +
		`clock INTEGER NOT NULL, origin BLOB NOT NULL, sum INTEGER NOT NULL, PRIMARY KEY (reader, topic, part)) WITHOUT ROWID`,
	`CREATE TABLE trig (no INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL, version INTEGER NOT NULL, status INTEGER NOT NULL, ` +
		`grp INTEGER NOT NULL, def BLOB NOT NULL, sum INTEGER NOT NULL)`,
	`CREATE TABLE inst (grp INTEGER NOT NULL, entity BLOB NOT NULL, part INTEGER NOT NULL, due INTEGER, data BLOB NOT NULL, ` +
		`PRIMARY KEY (grp, entity, part)) WITHOUT ROWID`,
	`CREATE INDEX inst_due ON inst (grp, due) WHERE due IS NOT NULL`,
	`CREATE TABLE fire (seq INTEGER PRIMARY KEY, id BLOB NOT NULL, trig TEXT NOT NULL, entity BLOB NOT NULL, due INTEGER, ` +
		`open INTEGER, data BLOB NOT NULL)`,
	`CREATE UNIQUE INDEX fire_id ON fire (id)`,
	`CREATE INDEX fire_entity ON fire (entity, trig)`,
	`CREATE INDEX fire_trig ON fire (trig, seq)`,
	`CREATE INDEX fire_due ON fire (trig, due) WHERE due IS NOT NULL`,
	`CREATE INDEX fire_open ON fire (open) WHERE open IS NOT NULL`,
	`CREATE TABLE retraction (seq INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE, at INTEGER NOT NULL, cause TEXT NOT NULL)`,
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
	Queries // read the committed state
	db      *localdb.File
	tx      Tx

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
	opt := localdb.Options{Path: o.Path, Format: format, First: "INSERT INTO meta VALUES (1, ?, 0)", Args: []any{o.Cluster}, CacheBytes: o.CacheBytes}
	if o.Unsafe {
		opt.Synchronous = "OFF"
	}
	if f.db, err = localdb.OpenFile(ctx, &opt); err != nil {
		return nil, err
	}
	f.conn, f.tx.conn = &conn{f.db.R}, &conn{f.db.W}
	if err := f.load(ctx); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// load reads meta and the number of the last firing. Checksums of rows are verified when they are read.
func (f *File) load(ctx context.Context) error {
	var of string
	meta := func(scan func(...any) error) error { return scan(&of, &f.floor) }
	if err := f.tx.Query(ctx, meta, "SELECT cluster, floor FROM meta WHERE id = 1"); err != nil {
		return localdb.Damaged("meta: %v", err)
	}
	if of != f.cluster {
		return localdb.Damaged("cluster %s, want %s", of, f.cluster)
	}
	last := func(scan func(...any) error) error { return scan(&f.tx.seq, &f.tx.erases) }
	if err := f.tx.Query(ctx, last, "SELECT max(coalesce((SELECT max(seq) FROM fire), 0), coalesce((SELECT max(seq) FROM retraction), 0)), "+
		"EXISTS (SELECT 1 FROM erased WHERE time > 0)"); err != nil {
		return localdb.Damaged("firings: %v", err)
	}
	return nil
}

// Update runs change in a transaction. After an error nothing is changed, and the caller must drop
// what it read from the file. After localdb.ErrDamaged it must delete the file.
func (f *File) Update(ctx context.Context, change func(tx *Tx) error) error {
	return f.db.Update(ctx, func(ctx context.Context) error {
		f.tx.ctx = ctx
		f.tx.forget()
		if err := change(&f.tx); err != nil {
			return err
		}
		return f.tx.flush()
	})
}

// Close closes the file. No query may be running.
func (f *File) Close() error { return f.db.Close() }

// Remove deletes a file and SQLite's additional files. It must not be open.
func Remove(path string) error { return localdb.Remove(path) }

// conn is the connection of a transaction, or those of queries.
type conn struct{ *localdb.Conn }

// copyShare is the divisor of the writer's cache for each of the two files during a copy.
const copyShare = 8

// Copy writes the committed state to another file, which must not exist, and verifies it. Deleted
// rows are not in it. It may run concurrently with Update; until it ends the write-ahead log only
// grows. The caller deletes the copy (Remove), even after an error. localdb.ErrDamaged means that
// the file itself is damaged.
func (f *File) Copy(ctx context.Context, to string) error {
	err := f.copyTo(ctx, to)
	if !errors.Is(err, localdb.ErrDamaged) {
		return err
	}
	if own := f.checkRows(ctx); own != nil {
		return own
	}
	if own := f.CheckPages(ctx); own != nil {
		return own
	}
	return fmt.Errorf("copy differs from an intact file: %v", err)
}

func (f *File) copyTo(ctx context.Context, to string) error {
	if err := f.vacuumInto(ctx, to); err != nil {
		return localdb.Classify(err)
	}
	c, err := Open(ctx, Options{Path: to, Cluster: f.cluster, CacheBytes: f.cache / copyShare, Unsafe: true})
	if err != nil {
		return err
	}
	return errors.Join(c.checkRows(ctx), c.Close())
}

func (f *File) vacuumInto(ctx context.Context, to string) error {
	// The copy need not survive a crash.
	db, err := localdb.Open(f.path, 1, localdb.Writing(false, "OFF", f.cache/copyShare))
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, "VACUUM INTO ?", to); err != nil {
		return err
	}
	out, err := localdb.Open(to, 1, append([]string{"journal_mode(WAL)"}, localdb.Writing(false, "OFF", f.cache/copyShare)...))
	if err != nil {
		return err
	}
	defer out.Close()
	return out.PingContext(ctx) // writes the write-ahead mode into its header
}

// Vacuum removes deleted rows from the files. Queries may prevent that: done is false.
func (f *File) Vacuum(ctx context.Context) (done bool, err error) {
	if _, err = f.tx.Exec(ctx, "VACUUM"); err == nil {
		done, err = f.db.Checkpoint(ctx)
	}
	if err != nil {
		return false, fmt.Errorf("vacuum: %w", localdb.Classify(err))
	}
	return done, nil
}

// checkRows reads all rows with checksums. It may run concurrently with Update.
func (q Queries) checkRows(ctx context.Context) error {
	if _, err := q.cursors(ctx); err != nil {
		return err
	}
	for no := int64(0); ; {
		g, err := q.trigger(ctx, "WHERE no > ? ORDER BY no LIMIT 1", no)
		if err != nil {
			return err
		}
		if g == nil {
			break
		}
		no = g.No
	}
	err := q.Query(ctx, func(scan func(...any) error) error {
		var k InstKey
		var entity sql.RawBytes
		var data sql.RawBytes
		var due sql.NullInt64
		if err := scan(&k.Group, &entity, &k.Partition, &due, &data); err != nil {
			return localdb.Damaged("instance: %v", err)
		}
		k.Entity = string(entity)
		_, err := k.open(due, data)
		return err
	}, "SELECT grp, entity, part, due, data FROM inst")
	if err != nil {
		return err
	}
	for after := int64(0); ; {
		list, err := q.Firings(ctx, FiringQuery{After: after, Limit: copyRows})
		if err != nil || len(list) == 0 {
			return err
		}
		after = list[len(list)-1].Seq
	}
}

// copyRows is the number of firings per read.
const copyRows = 1000

// LastErasure is the time (ms) of the last erasure; 0: none.
func (q Queries) LastErasure(ctx context.Context) (at int64, err error) {
	err = q.Query(ctx, func(scan func(...any) error) error { return scan(&at) }, "SELECT coalesce(max(time), 0) FROM erased")
	return at, err
}
