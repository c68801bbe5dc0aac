package keyindex

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/sebbroker/seb/internal/localdb"
	"github.com/sebbroker/seb/record"
)

const (
	// schemaVersion is the version of FORMAT.md. A file of another version is rebuilt.
	schemaVersion = 1
	// applicationID marks the file as a key index: "sebv".
	applicationID = 0x73656276

	// readersMax is the number of concurrent queries that read the file.
	readersMax = 4
	// readerShare bounds the page cache of each query connection to this fraction of the writer's,
	// if that is less than readerCache.
	readerShare = 8
)

var format = &localdb.Format{
	ApplicationID: applicationID, Version: schemaVersion, Name: "a key index file",
}

// schema is the definition of the tables, by statement.
var schema = []string{
	`CREATE TABLE manifest (id INTEGER PRIMARY KEY, data BLOB NOT NULL)`,
	`CREATE TABLE positions (topic BLOB NOT NULL, partition INTEGER NOT NULL, number INTEGER NOT NULL, ` +
		`next INTEGER NOT NULL, origin BLOB NOT NULL, settled INTEGER NOT NULL, PRIMARY KEY (topic, partition)) WITHOUT ROWID`,
	`CREATE TABLE journal (sequence INTEGER PRIMARY KEY, data BLOB NOT NULL)`,
	`CREATE TABLE blocks (id INTEGER PRIMARY KEY, data BLOB NOT NULL)`,
}

// file is the SQLite file. The follower's goroutine owns it; other goroutines only read blocks of
// runs.
type file struct {
	path      string
	wdb, rdb  *sql.DB
	w         *sql.Conn // the only connection that writes
	put       statements
	get       *sql.Stmt // reads a block, for queries
	man       manifest  // as committed
	positions map[partKey]position
	recent    recent
	runs      []*run // oldest first, as in man.Runs
	blocks    *Store
	merges    []*merging // lowest tier first
	dead      []*run     // runs whose blocks are to be deleted
}

// statements are the prepared statements of the writing connection.
type statements struct {
	manifest, position, dropPosition, journal, trimJournal, block, sweep *sql.Stmt
}

// openFile opens the file, or creates it. After localdb.ErrDamaged the file must be deleted.
func openFile(ctx context.Context, o *Options) (f *file, err error) {
	path := o.Path
	f = &file{path: path, positions: map[partKey]position{}}
	f.blocks = NewStore(f.block)
	defer func() {
		if err != nil {
			err = errors.Join(localdb.Classify(err), f.close())
			f = nil
		}
	}()
	fresh, err := format.CheckHeader(path)
	if err != nil {
		return f, err
	}
	if fresh { // otherwise the rest of an old write-ahead log would be applied
		if err := localdb.Remove(path); err != nil {
			return f, err
		}
	}
	if err := f.connect(ctx, fresh, o); err != nil {
		return f, err
	}
	if fresh {
		if err := f.create(ctx, o.Log.Cluster()); err != nil {
			return f, err
		}
	}
	if err := f.prepare(ctx); err != nil {
		return f, err
	}
	return f, f.load(ctx, o.Log.Cluster())
}

// connect opens the connections.
func (f *file) connect(ctx context.Context, fresh bool, o *Options) (err error) {
	pragmas := localdb.Writing(fresh, o.sizes.synchronous, o.CacheBytes)
	if o.sizes.pagesMax > 0 {
		pragmas = append(pragmas, "max_page_count("+strconv.Itoa(o.sizes.pagesMax)+")")
	}
	if f.wdb, err = localdb.Open(f.path, 1, pragmas); err != nil {
		return err
	}
	if f.w, err = f.wdb.Conn(ctx); err != nil {
		return err
	}
	f.rdb, err = localdb.Open(f.path, readersMax, localdb.Reading(min(int64(o.sizes.readerCache), o.CacheBytes/readerShare)))
	return err
}

// create creates the tables and moves them from the write-ahead log into the file, so that its
// header can be checked from now on.
func (f *file) create(ctx context.Context, cluster record.ID) error {
	steps := append([]string{"BEGIN"}, schema...)
	steps = append(append(steps, "COMMIT"), format.Stamp()...)
	for _, s := range steps {
		if _, err := f.w.ExecContext(ctx, s); err != nil {
			return fmt.Errorf("create: %w", err)
		}
	}
	man := manifest{Cluster: cluster.String()}
	if _, err := f.w.ExecContext(ctx, "INSERT INTO manifest VALUES (1, ?)", man.encode()); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	return f.checkpoint(ctx)
}

// checkpoint moves all committed data into the file.
func (f *file) checkpoint(ctx context.Context) error {
	_, err := f.w.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
	return err
}

func (f *file) prepare(ctx context.Context) (err error) {
	for _, s := range []struct {
		to  **sql.Stmt
		sql string
	}{
		{&f.put.manifest, "INSERT OR REPLACE INTO manifest VALUES (1, ?)"},
		{&f.put.position, "INSERT OR REPLACE INTO positions VALUES (?, ?, ?, ?, ?, ?)"},
		{&f.put.dropPosition, "DELETE FROM positions WHERE topic = ? AND partition = ?"},
		{&f.put.journal, "INSERT INTO journal VALUES (?, ?)"},
		{&f.put.trimJournal, "DELETE FROM journal WHERE sequence < ?"},
		{&f.put.block, "INSERT INTO blocks VALUES (?, ?)"},
		{&f.put.sweep, "DELETE FROM blocks WHERE id IN (SELECT id FROM blocks WHERE id >= ? AND id < ? LIMIT ?)"},
	} {
		if *s.to, err = f.w.PrepareContext(ctx, s.sql); err != nil {
			return err
		}
	}
	f.get, err = f.rdb.PrepareContext(ctx, "SELECT data FROM blocks WHERE id = ?")
	return err
}

// run is a run in the file.
type run struct {
	*Run
	busy bool // takes part in a merge; owned by the writer
	pins int  // snapshots that contain it; guarded by View.mu
}

// deadRun is a run whose blocks are to be deleted.
func deadRun(id int64) *run { return &run{Run: &Run{Info: Info{ID: id}}} }

// run returns a run of the file for reading.
func (f *file) run(info Info) (*run, error) {
	r, err := f.blocks.Run(info)
	if err != nil {
		return nil, err
	}
	return &run{Run: r}, nil
}

// block reads a block; it may be called concurrently.
func (f *file) block(id int64) ([]RunEntry, error) {
	rows, err := f.get.Query(id)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var data sql.RawBytes
	if !rows.Next() {
		if err := rows.Err(); err != nil {
			return nil, err
		}
		return nil, localdb.Damaged("block %d is missing", id)
	}
	if err := rows.Scan(&data); err != nil {
		return nil, err
	}
	return Decode(id, data)
}

// update runs change in a transaction, which also writes the manifest as change has left it.
func (f *file) update(ctx context.Context, change func(m *manifest) error) error {
	m := f.man
	m.Runs = slices.Clone(m.Runs)
	ctx = context.WithoutCancel(ctx) // a transaction is short, and a canceled one would stay open
	if _, err := f.w.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return fmt.Errorf("begin: %w", localdb.Classify(err))
	}
	err := change(&m)
	if err == nil {
		_, err = f.put.manifest.ExecContext(ctx, m.encode())
	}
	if err == nil {
		_, err = f.w.ExecContext(ctx, "COMMIT")
	}
	if err != nil {
		// The transaction may have ended. If it cannot be ended, the next one cannot begin, and the
		// file is closed.
		_, _ = f.w.ExecContext(ctx, "ROLLBACK")
		return fmt.Errorf("transaction: %w", localdb.Classify(err))
	}
	f.man = m
	return nil
}

// close closes the connections. No query may read any more.
func (f *file) close() error {
	var errs []error
	// database/sql does not close the statements of a single connection, and SQLite keeps its files
	// open until they are closed.
	for _, s := range []*sql.Stmt{f.put.manifest, f.put.position, f.put.dropPosition, f.put.journal, f.put.trimJournal, f.put.block, f.put.sweep} {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	if f.w != nil {
		errs = append(errs, f.w.Close())
	}
	for _, db := range []*sql.DB{f.rdb, f.wdb} { // the last one empties the write-ahead log
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(errs...)
}
