// Package localdb opens the SQLite files that Seb can rebuild from its log. It distinguishes a
// damaged file, which is rebuilt, from other errors such as a full disk.
package localdb

import (
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strconv"

	"modernc.org/sqlite" // also registers the driver "sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

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
