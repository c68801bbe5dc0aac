package localdb

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

const (
	// ReadersMax is the number of concurrent queries of a File.
	ReadersMax = 4
	// readerCache bounds the cache of each reader; it is at most a readerShare-th of the writer's.
	readerCache = 1 << 20
	readerShare = 8
)

// Options configure OpenFile. Path, Format, First and CacheBytes are required.
type Options struct {
	Path   string
	Format *Format
	// First is the statement that fills the tables of a new file, Args its arguments.
	First string
	Args  []any
	// CacheBytes is SQLite's cache for the writer. That of each reader is smaller.
	CacheBytes int64
	// Synchronous is SQLite's setting: NORMAL.
	Synchronous string
	// Pragmas are further ones of the writer.
	Pragmas []string
}

// File is an open file with one connection that writes. Update is for one goroutine at a time.
type File struct {
	W, R     *Conn // R reads the committed state, also concurrently
	Readers  *sql.DB
	w        *sql.Conn
	writerDB *sql.DB
}

// OpenFile opens a file, or creates it with its folder, and checks the structure of its pages and its
// tables. After ErrDamaged the caller must delete the file (Remove).
func OpenFile(ctx context.Context, o *Options) (f *File, err error) {
	f = &File{}
	defer func() {
		if err != nil {
			err = errors.Join(Classify(err), f.Close())
			f = nil
		}
	}()
	if err := os.MkdirAll(filepath.Dir(o.Path), 0o700); err != nil {
		return f, err
	}
	fresh, err := o.Format.checkHeader(o.Path)
	if err != nil {
		return f, err
	}
	if fresh { // otherwise the rest of an old write-ahead log would be applied
		if err := Remove(o.Path); err != nil {
			return f, err
		}
	}
	pragmas := append(Writing(fresh, cmp.Or(o.Synchronous, "NORMAL"), o.CacheBytes), o.Pragmas...)
	if f.writerDB, err = Open(o.Path, 1, pragmas); err != nil {
		return f, err
	}
	if f.w, err = f.writerDB.Conn(ctx); err != nil {
		return f, err
	}
	f.W = &Conn{prepare: f.w.PrepareContext}
	if f.Readers, err = Open(o.Path, ReadersMax, Reading(min(readerCache, o.CacheBytes/readerShare))); err != nil {
		return f, err
	}
	f.R = &Conn{prepare: f.Readers.PrepareContext}
	if fresh {
		if err := f.create(ctx, o); err != nil {
			return f, fmt.Errorf("create: %w", err)
		}
	}
	if err := f.checkTables(ctx, o.Format.Schema); err != nil {
		return f, err
	}
	return f, f.W.CheckPages(ctx)
}

// create creates the tables and checkpoints them, so that the header can be checked from now on.
func (f *File) create(ctx context.Context, o *Options) error {
	steps := append(append([]string{"BEGIN"}, o.Format.Schema...), "COMMIT")
	for _, s := range append(steps, o.Format.stamp()...) {
		if _, err := f.w.ExecContext(ctx, s); err != nil {
			return err
		}
	}
	if _, err := f.w.ExecContext(ctx, o.First, o.Args...); err != nil {
		return err
	}
	_, err := f.Checkpoint(ctx)
	return err
}

// checkTables checks that the file has the tables and indexes of a schema, and no others.
func (f *File) checkTables(ctx context.Context, schema []string) error {
	var tables []string
	err := f.W.Query(ctx, func(scan func(...any) error) error {
		var text string
		if err := scan(&text); err != nil {
			return err
		}
		if tables = append(tables, text); len(tables) > len(schema) {
			return Damaged("more than %d tables and indexes", len(schema))
		}
		return nil
	}, "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'")
	if err != nil {
		return err
	}
	slices.Sort(tables) // a copy has a different order
	if !slices.Equal(tables, slices.Sorted(slices.Values(schema))) {
		return Damaged("unexpected tables")
	}
	return nil
}

// Checkpoint moves all committed data from the write-ahead log into the file. Queries may prevent
// that: done is false.
func (f *File) Checkpoint(ctx context.Context) (done bool, err error) {
	var busy, pages, moved int
	err = f.w.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &pages, &moved)
	return busy == 0, err
}

// Update runs change in a transaction. After an error nothing is changed, and the caller must drop
// what it read from the file. After ErrDamaged it must delete the file.
func (f *File) Update(ctx context.Context, change func(ctx context.Context) error) error {
	ctx = context.WithoutCancel(ctx) // it is short, and half a transaction would stay open
	if _, err := f.w.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return fmt.Errorf("begin: %w", Classify(err))
	}
	err := change(ctx)
	if err == nil {
		_, err = f.w.ExecContext(ctx, "COMMIT")
	}
	if err != nil {
		// The transaction may be over already. If it cannot be rolled back, the next one fails to
		// begin, and the caller reopens the file.
		_, _ = f.w.ExecContext(ctx, "ROLLBACK")
		return fmt.Errorf("transaction: %w", Classify(err))
	}
	return nil
}

// Close closes the file. No query may be running.
func (f *File) Close() error {
	var errs []error
	// database/sql does not close prepared statements of a single connection, and SQLite keeps its
	// files open until they are closed.
	for _, c := range []*Conn{f.W, f.R} {
		if c != nil {
			errs = append(errs, c.close())
		}
	}
	if f.w != nil {
		errs = append(errs, f.w.Close())
	}
	for _, db := range []*sql.DB{f.Readers, f.writerDB} { // closing the last one empties the write-ahead log
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(errs...)
}

// Conn is a connection or a pool of them, with prepared statements by their text.
type Conn struct {
	prepare func(ctx context.Context, text string) (*sql.Stmt, error)

	mu         sync.Mutex // guards statements
	statements map[string]*sql.Stmt
}

func (c *Conn) stmt(ctx context.Context, text string) (*sql.Stmt, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.statements[text]
	if ok {
		return s, nil
	}
	// SQLite plans with the value of a limit that is a parameter, and so compiles the statement again
	// for each value. It does not look into an expression.
	s, err := c.prepare(context.WithoutCancel(ctx), strings.ReplaceAll(text, "LIMIT ?", "LIMIT ?+0"))
	if err != nil {
		return nil, err
	}
	if c.statements == nil {
		c.statements = map[string]*sql.Stmt{}
	}
	c.statements[text] = s
	return s, nil
}

func (c *Conn) close() error {
	var errs []error
	for _, s := range c.statements {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// Texts returns the texts of the prepared statements.
func (c *Conn) Texts() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.statements))
}

// Query runs a query and calls row for each result row.
func (c *Conn) Query(ctx context.Context, row func(scan func(...any) error) error, text string, args ...any) error {
	s, err := c.stmt(ctx, text)
	if err != nil {
		return Classify(err)
	}
	rows, err := s.QueryContext(ctx, args...)
	if err != nil {
		return Classify(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			return Classify(err)
		}
	}
	return Classify(rows.Err())
}

// CheckPages makes SQLite check the structure of all pages, including free ones.
func (c *Conn) CheckPages(ctx context.Context) error {
	return c.Query(ctx, func(scan func(...any) error) error {
		var result string
		if err := scan(&result); err != nil || result == "ok" {
			return err
		}
		return Damaged("%s", result)
	}, "PRAGMA quick_check(1)")
}

// Exec runs a statement and returns the number of rows that it has changed.
func (c *Conn) Exec(ctx context.Context, text string, args ...any) (int64, error) {
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
