// Package localdb opens the SQLite files that Seb can rebuild from its log. It distinguishes a
// damaged file, which is rebuilt, from other errors such as a full disk.
package localdb

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"modernc.org/sqlite" // also registers the driver "sqlite"
	sqlite3 "modernc.org/sqlite/lib"
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
	// SkipPages skips the check of all pages, which takes as long as reading the file, for callers
	// that check all rows that they read. A damaged page can then lose rows and repeat others.
	SkipPages bool
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

// OpenFile opens a file, or creates it with its folder, and checks its tables and the structure of its
// pages. After ErrDamaged the caller must delete the file (Remove).
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
	if o.SkipPages {
		return f, nil
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

// PageSize is the page size of every file in bytes.
const PageSize = 4096

// WALPages is the size of the write-ahead log in pages at which it is moved into the file: 16 MiB.
const WALPages = 4096

// Format identifies the files of one kind.
type Format struct {
	// ApplicationID and Version are fields of SQLite's header. A file of another version counts as
	// damaged, so it is rebuilt.
	ApplicationID, Version uint32
	// Name is the kind of file in errors: "a key index file".
	Name string
	// Schema is the statements that create the tables and indexes.
	Schema []string
}

// ErrDamaged: the content of a file is invalid. The file must be deleted and is rebuilt from the
// log.
var ErrDamaged = errors.New("local file is damaged")

// Damaged returns an ErrDamaged with a description.
func Damaged(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrDamaged}, args...)...)
}

// Classify returns ErrDamaged for SQLite's errors about the content of a file. Other errors, and
// nil, are unchanged.
func Classify(err error) error {
	var e *sqlite.Error
	if !errors.As(err, &e) || errors.Is(err, ErrDamaged) {
		return err
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PERM,
		sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_INTERRUPT:
		return err
	}
	// This includes I/O errors: if the disk is the cause, rebuilding the file fails too, and that
	// error is reported.
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}

// headerSize is the size of SQLite's file header.
const headerSize = 100

// checkHeader checks the constant fields of SQLite's header, because SQLite itself trusts some of
// them. fresh says that there is no file.
func (f *Format) checkHeader(path string) (fresh bool, err error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return false, fmt.Errorf("%s is not a regular file (%w)", path, err)
	}
	var h [headerSize]byte
	if _, err := io.ReadFull(file, h[:]); err != nil {
		return false, Damaged("read header: %v", err)
	}
	u32 := func(pos int) uint32 { return binary.BigEndian.Uint32(h[pos:]) }
	switch {
	case string(h[:16]) != "SQLite format 3\x00" || u32(68) != f.ApplicationID:
		return false, Damaged("not %s", f.Name)
	case u32(60) != f.Version:
		return false, Damaged("format version %d, want %d", u32(60), f.Version)
	case binary.BigEndian.Uint16(h[16:]) != PageSize, u32(18) != 2<<24|2<<16|0<<8|64, h[22] != 32, h[23] != 32,
		u32(44) != 4, u32(52) != 0, u32(56) != 1, u32(64) != 0, [20]byte(h[72:92]) != [20]byte{}:
		return false, Damaged("unexpected header")
	}
	return false, nil
}

// stamp returns the statements that write the format into the header of a new file.
func (f *Format) stamp() []string {
	return []string{
		"PRAGMA user_version = " + strconv.FormatUint(uint64(f.Version), 10),
		"PRAGMA application_id = " + strconv.FormatUint(uint64(f.ApplicationID), 10),
	}
}

// Writing returns the pragmas of the writing connection, which caches cacheBytes of the file.
// synchronous is SQLite's setting: NORMAL keeps the file consistent if the machine crashes.
func Writing(fresh bool, synchronous string, cacheBytes int64) []string {
	pragmas := []string{
		"busy_timeout(5000)", "synchronous(" + synchronous + ")", "wal_autocheckpoint(" + strconv.Itoa(WALPages) + ")", cache(cacheBytes),
	}
	if fresh {
		pragmas = append([]string{"page_size(" + strconv.Itoa(PageSize) + ")", "journal_mode(WAL)"}, pragmas...)
	}
	return pragmas
}

// Reading returns the pragmas of connections that only read.
func Reading(cacheBytes int64) []string {
	return []string{"busy_timeout(5000)", "query_only(1)", cache(cacheBytes)}
}

func cache(bytes int64) string { return "cache_size(-" + strconv.FormatInt(bytes>>10, 10) + ")" }

// Open returns a database with at most connections connections, each with the pragmas. It does not
// connect yet.
func Open(path string, connections int, pragmas []string) (*sql.DB, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	dsn := url.URL{Scheme: "file", Path: abs, RawQuery: url.Values{"_pragma": pragmas}.Encode()}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return db, nil
}

// Remove deletes a file and SQLite's companion files. The file must not be open.
func Remove(path string) error {
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}
