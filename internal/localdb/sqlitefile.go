// Package localdb opens the SQLite files that Seb makes anew from its log when something is wrong with them, and tells
// a file that is damaged from a disk that is full.
package localdb

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strconv"

	"modernc.org/sqlite" // and the driver "sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// PageSize is that of every file, in bytes.
const PageSize = 4096

// WALPages is how many pages are written before they are moved from the write-ahead log into the file: 16 MiB.
const WALPages = 4096

// Format is what the files of one kind have in common.
type Format struct {
	// ApplicationID and Version are the fields of SQLite's header that say what a file is. A file of another version is
	// refused, to be made anew.
	ApplicationID, Version uint32
	// Name is what errors call such a file: "a view's file".
	Name string
}

// ErrDamaged says that a file is not as it should be: it must be deleted, and is rebuilt from the log.
var ErrDamaged = errors.New("local file is damaged")

// Damaged makes an ErrDamaged that says what is wrong.
func Damaged(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrDamaged}, args...)...)
}

// Classify makes ErrDamaged of what SQLite says of a file that is not as it should be. Other errors, and nil, stay as they
// are.
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
	// An I/O error too: when it is the disk's, making the file anew will fail as well, and that is told.
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}

// headerSize is that of SQLite's file header.
const headerSize = 100

// CheckHeader compares the fields of SQLite's header that never change with what they must be: SQLite itself would believe
// some of them. fresh says that there is no file.
func (f *Format) CheckHeader(path string) (fresh bool, err error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return false, fmt.Errorf("%s is not a file (%w)", path, err)
	}
	var h [headerSize]byte
	if _, err := io.ReadFull(file, h[:]); err != nil {
		return false, Damaged("header: %v", err)
	}
	u32 := func(pos int) uint32 { return binary.BigEndian.Uint32(h[pos:]) }
	switch {
	case string(h[:16]) != "SQLite format 3\x00" || u32(68) != f.ApplicationID:
		return false, Damaged("not %s", f.Name)
	case u32(60) != f.Version:
		return false, Damaged("its format is version %d, not %d", u32(60), f.Version)
	case binary.BigEndian.Uint16(h[16:]) != PageSize, u32(18) != 2<<24|2<<16|0<<8|64, h[22] != 32, h[23] != 32,
		u32(44) != 4, u32(52) != 0, u32(56) != 1, u32(64) != 0, [20]byte(h[72:92]) != [20]byte{}:
		return false, Damaged("its header says what none of ours says")
	}
	return false, nil
}

// Querier is a connection, or several.
type Querier interface {
	// QueryRowContext is that of package sql.
	QueryRowContext(ctx context.Context, text string, args ...any) *sql.Row
}

// CheckPages has SQLite look at the structure of all pages, those of its free list too.
func CheckPages(ctx context.Context, q Querier) error {
	var said string
	if err := q.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&said); err != nil {
		return err
	}
	if said != "ok" {
		return Damaged("%s", said)
	}
	return nil
}

// Stamp are the statements that write into the header of a new file what it is.
func (f *Format) Stamp() []string {
	return []string{
		"PRAGMA user_version = " + strconv.FormatUint(uint64(f.Version), 10),
		"PRAGMA application_id = " + strconv.FormatUint(uint64(f.ApplicationID), 10),
	}
}

// Writing are the pragmas of the connection that writes, which keeps cacheBytes of the file in memory. synchronous is
// SQLite's: NORMAL keeps the file whole when the machine goes down.
func Writing(fresh bool, synchronous string, cacheBytes int64) []string {
	pragmas := []string{
		"busy_timeout(5000)", "synchronous(" + synchronous + ")", "wal_autocheckpoint(" + strconv.Itoa(WALPages) + ")", cache(cacheBytes),
	}
	if fresh {
		pragmas = append([]string{"page_size(" + strconv.Itoa(PageSize) + ")", "journal_mode(WAL)"}, pragmas...)
	}
	return pragmas
}

// Reading are the pragmas of connections that only read.
func Reading(cacheBytes int64) []string {
	return []string{"busy_timeout(5000)", "query_only(1)", cache(cacheBytes)}
}

func cache(bytes int64) string { return "cache_size(-" + strconv.FormatInt(bytes>>10, 10) + ")" }

// Open returns a database with at most so many connections, each with the pragmas. It opens none yet.
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

// Remove deletes a file and what SQLite keeps beside it. It must not be open.
func Remove(path string) error {
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}
