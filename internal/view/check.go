package view

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/sebbroker/seb/internal/keyrun"
	"github.com/sebbroker/seb/record"
)

// classify makes errDamaged of what SQLite says of a file that is not as it should be.
func classify(err error) error {
	var e *sqlite.Error
	if !errors.As(err, &e) || errors.Is(err, keyrun.ErrDamaged) {
		return err
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PERM,
		sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_INTERRUPT:
		return err
	}
	// An I/O error too: when it is the disk's, making the file anew will fail as well, and that is told.
	return fmt.Errorf("%w: %w", keyrun.ErrDamaged, err)
}

// headerSize is that of SQLite's file header.
const headerSize = 100

// checkHeader compares the fields of SQLite's header that never change in a view's file with what they must be: SQLite
// itself would believe some of them. fresh says that there is no file.
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
		return false, keyrun.Damaged("header: %v", err)
	}
	u32 := func(pos int) uint32 { return binary.BigEndian.Uint32(h[pos:]) }
	switch {
	case string(h[:16]) != "SQLite format 3\x00" || u32(68) != applicationID:
		return false, keyrun.Damaged("not a view's file")
	case u32(60) != schemaVersion:
		return false, keyrun.Damaged("its format is version %d, not %d", u32(60), schemaVersion)
	case binary.BigEndian.Uint16(h[16:]) != pageSize, u32(18) != 2<<24|2<<16|0<<8|64, h[22] != 32, h[23] != 32,
		u32(44) != 4, u32(52) != 0, u32(56) != 1, u32(64) != 0, [20]byte(h[72:92]) != [20]byte{}:
		return false, keyrun.Damaged("its header says what no view's says")
	}
	return false, nil
}

// load reads what is in the file, and checks all of it: nothing that SQLite does not look at stays unseen.
func (f *file) load(ctx context.Context, cluster record.ID) error {
	for _, step := range []func(context.Context) error{
		f.checkSchema, f.checkPages, f.loadManifest, f.loadPositions, f.loadJournal, f.loadRuns, f.findDead,
	} {
		if err := step(ctx); err != nil {
			return err
		}
		if f.man.Cluster != "" && f.man.Cluster != cluster.String() {
			return keyrun.Damaged("it is of cluster %s, not %s", f.man.Cluster, cluster)
		}
	}
	return nil
}

func (f *file) checkSchema(ctx context.Context) error {
	rows, err := f.w.QueryContext(ctx, "SELECT coalesce(sql, '') FROM sqlite_schema ORDER BY rowid")
	if err != nil {
		return err
	}
	defer rows.Close()
	n := 0
	for ; rows.Next(); n++ {
		var text string
		if err := rows.Scan(&text); err != nil {
			return err
		}
		if n >= len(schema) || text != schema[n] {
			return keyrun.Damaged("its tables are others")
		}
	}
	if err := rows.Err(); err != nil || n == len(schema) {
		return err
	}
	return keyrun.Damaged("it has %d tables, not %d", n, len(schema))
}

// checkPages has SQLite look at the structure of all pages, those of its free list too.
func (f *file) checkPages(ctx context.Context) error {
	var said string
	if err := f.w.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&said); err != nil {
		return err
	}
	if said != "ok" {
		return keyrun.Damaged("%s", said)
	}
	return nil
}

func (f *file) loadManifest(ctx context.Context) error {
	var data []byte
	var rows int
	err := f.w.QueryRowContext(ctx, "SELECT data, (SELECT count(*) FROM manifest) FROM manifest WHERE id = 1").Scan(&data, &rows)
	if err != nil || rows != 1 {
		return keyrun.Damaged("manifest: %d rows: %v", rows, err)
	}
	f.man, err = decodeManifest(data)
	return err
}

func (f *file) loadPositions(ctx context.Context) error {
	rows, err := f.w.QueryContext(ctx, "SELECT topic, partition, number, next, origin, settled FROM positions")
	if err != nil {
		return err
	}
	defer rows.Close()
	var sum uint64
	for rows.Next() {
		var topic, origin []byte
		var k partKey
		var p position
		if err := rows.Scan(&topic, &k.partition, &p.number, &p.next, &origin, &p.settled); err != nil {
			return keyrun.Damaged("position: %v", err)
		}
		if copy(k.topic[:], topic) != len(topic) || copy(p.origin[:], origin) != len(origin) {
			return keyrun.Damaged("position of a topic with an id of %d bytes", len(topic))
		}
		f.positions[k] = p
		sum += p.sum(k)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if len(f.positions) != f.man.Positions || sum != f.man.PositionsSum {
		return keyrun.Damaged("positions")
	}
	return nil
}

func (f *file) loadJournal(ctx context.Context) error {
	rows, err := f.w.QueryContext(ctx, "SELECT sequence, data FROM journal ORDER BY sequence")
	if err != nil {
		return err
	}
	defer rows.Close()
	next := f.man.JournalFrom
	for ; rows.Next(); next++ {
		var sequence int64
		var data []byte
		if err := rows.Scan(&sequence, &data); err != nil {
			return keyrun.Damaged("journal: %v", err)
		}
		list, err := keyrun.Decode(journalID(sequence), data)
		if err != nil {
			return err
		}
		if sequence != next {
			return keyrun.Damaged("journal has %d where %d should be", sequence, next)
		}
		f.recent.add(list)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if next != f.man.JournalNext {
		return keyrun.Damaged("journal ends at %d, not %d", next, f.man.JournalNext)
	}
	return nil
}

// journalID keeps blocks of the journal and of runs apart.
func journalID(sequence int64) int64 { return -1 - sequence }

func (f *file) loadRuns(ctx context.Context) error {
	for _, info := range f.man.Runs {
		r, err := f.run(info)
		if err != nil {
			return err
		}
		if err := r.Check(); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		f.runs = append(f.runs, r)
	}
	return nil
}

// findDead finds blocks of runs that are not in the manifest: a merge left them that did not end.
func (f *file) findDead(ctx context.Context) error {
	listed := map[int64]bool{}
	for _, r := range f.man.Runs {
		listed[r.ID] = true
	}
	for from := int64(0); ; {
		var id int64
		err := f.w.QueryRowContext(ctx, "SELECT coalesce(min(id), -1) FROM blocks WHERE id >= ?", from).Scan(&id)
		if err != nil || id < 0 {
			return err
		}
		number := keyrun.RunOf(id)
		if !listed[number] {
			f.dead = append(f.dead, deadRun(number))
		}
		_, from = keyrun.IDs(number)
	}
}
