package keyindex

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/sebbroker/seb/internal/engine/views/localdb"
)

const (
	// schemaVersion is the version of FORMAT.md. A file of another version is rebuilt.
	schemaVersion = 2
	// applicationID marks the file as a key index: "sebv".
	applicationID = 0x73656276
)

var format = &localdb.Format{
	ApplicationID: applicationID, Version: schemaVersion, Name: "a key index file", Schema: schema,
}

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
	*localdb.File
	man       manifest // as committed
	positions map[partKey]position
	recent    recent
	runs      []*run // oldest first, as in man.Runs
	blocks    *Store
	merges    []*merging // lowest tier first
	dead      []*run     // runs whose blocks are to be deleted
}

// openFile opens the file, or creates it. After localdb.ErrDamaged the file must be deleted.
func openFile(ctx context.Context, o *Options) (*file, error) {
	man := manifest{Cluster: o.Log.Cluster().String()}
	opt := localdb.Options{
		Path: o.Path, Format: format, First: "INSERT INTO manifest VALUES (1, ?)", Args: []any{man.encode()},
		CacheBytes: o.CacheBytes / 2, SkipPages: true, Synchronous: o.sizes.synchronous,
	}
	if o.sizes.pagesMax > 0 {
		opt.Pragmas = []string{"max_page_count(" + strconv.Itoa(o.sizes.pagesMax) + ")"}
	}
	db, err := localdb.OpenFile(ctx, &opt)
	if err != nil {
		return nil, err
	}
	f := &file{File: db, positions: map[partKey]position{}}
	f.blocks = NewStore(f.read, o.CacheBytes/2)
	if err := f.load(ctx, o.Log.Cluster()); err != nil {
		return nil, errors.Join(localdb.Classify(err), f.Close())
	}
	return f, nil
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

// blocksRead is the number of blocks that one query reads.
const blocksRead = 8

const readBlock = "SELECT id, data FROM blocks WHERE id = ?"

// readBlocks returns a query of n blocks. For IN SQLite would create a temporary table.
func readBlocks(n int) string { return readBlock + strings.Repeat(" UNION ALL "+readBlock, n-1) }

// read is the Reader of the file.
func (f *file) read(ids []int64, block func(id int64, data []byte) error) error {
	row := func(scan func(...any) error) error {
		var id int64
		var data sql.RawBytes
		if err := scan(&id, &data); err != nil {
			return err
		}
		return block(id, data)
	}
	for some := range slices.Chunk(ids, blocksRead) {
		args := make([]any, len(some))
		for i, id := range some {
			args[i] = id
		}
		if err := f.R.Query(context.Background(), row, readBlocks(len(some)), args...); err != nil {
			return err
		}
	}
	return nil
}

// update runs change in a transaction, which also writes the manifest as change has left it.
func (f *file) update(ctx context.Context, change func(m *manifest) error) error {
	m := f.man
	m.Runs = slices.Clone(m.Runs)
	err := f.Update(ctx, func(ctx context.Context) error {
		if err := change(&m); err != nil {
			return err
		}
		_, err := f.W.Exec(ctx, "INSERT OR REPLACE INTO manifest VALUES (1, ?)", m.encode())
		return err
	})
	if err == nil {
		f.man = m
	}
	return err
}
