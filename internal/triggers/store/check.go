package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// ErrDamaged says that a file is not as it should be. It is deleted and made anew from the log.
var ErrDamaged = errors.New("damaged")

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrDamaged}, args...)...)
}

// classify makes ErrDamaged of what SQLite says of a file that is not as it should be.
func classify(err error) error {
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

// checkHeader compares the fields of SQLite's header that never change with what they must be. fresh says that there is no
// file.
func checkHeader(path string) (fresh bool, err error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return false, fmt.Errorf("%s is not a file (%w)", path, err)
	}
	var h [headerSize]byte
	if _, err := io.ReadFull(f, h[:]); err != nil {
		return false, damaged("header: %v", err)
	}
	u32 := func(pos int) uint32 { return binary.BigEndian.Uint32(h[pos:]) }
	switch {
	case string(h[:16]) != "SQLite format 3\x00" || u32(68) != applicationID:
		return false, damaged("not a file of triggers")
	case u32(60) != schemaVersion:
		return false, damaged("its format is version %d, not %d", u32(60), schemaVersion)
	case binary.BigEndian.Uint16(h[16:]) != pageSize, u32(18) != 2<<24|2<<16|0<<8|64, h[22] != 32, h[23] != 32,
		u32(44) != 4, u32(52) != 0, u32(56) != 1, u32(64) != 0, [20]byte(h[72:92]) != [20]byte{}:
		return false, damaged("its header says what none of ours says")
	}
	return false, nil
}

// check looks at the structure of all pages, the tables, and whose file it is. The sums of rows are checked when they are
// read.
func (f *File) check(ctx context.Context, cluster string) error {
	n := 0
	err := f.tx.query(ctx, func(scan func(...any) error) error {
		var text string
		if err := scan(&text); err != nil {
			return err
		}
		if n >= len(schema) || text != schema[n] {
			return damaged("its tables are others")
		}
		n++
		return nil
	}, "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY rowid")
	if err != nil {
		return err
	}
	if n != len(schema) {
		return damaged("it has %d tables and indexes, not %d", n, len(schema))
	}
	var said string
	if err := f.w.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&said); err != nil {
		return err
	}
	if said != "ok" {
		return damaged("%s", said)
	}
	var of string
	if err := f.w.QueryRowContext(ctx, "SELECT cluster, floor FROM meta WHERE id = 1").Scan(&of, &f.floor); err != nil {
		return damaged("meta: %v", err)
	}
	if of != cluster {
		return damaged("it is of cluster %s, not %s", of, cluster)
	}
	if err := f.w.QueryRowContext(ctx, "SELECT coalesce(max(seq), 0) FROM fire").Scan(&f.tx.seq); err != nil {
		return damaged("firings: %v", err)
	}
	return nil
}
