package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/sebbroker/seb/internal/localdb"
)

// copyShare is the part of the writer's cache that is kept in memory of each of the two files while one is copied, an eighth.
const copyShare = 8

// Copy writes what is committed now to another file, which must not be there, and reads all of that. What was deleted is not
// in it. It may run beside Update, which goes on; until it is done the write-ahead log only grows. Whoever calls it deletes
// the copy (Remove), after an error too. localdb.ErrDamaged says that something in the file itself is not right.
func (f *File) Copy(ctx context.Context, to string) error {
	err := f.copyTo(ctx, to)
	if !errors.Is(err, localdb.ErrDamaged) {
		return err
	}
	if own := f.checkRows(ctx); own != nil {
		return own
	}
	if own := localdb.CheckPages(ctx, f.rdb); own != nil {
		return localdb.Classify(own)
	}
	return fmt.Errorf("the file is right, and its copy is not: %v", err)
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
	// Nobody needs the copy after a crash.
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
	return out.PingContext(ctx) // writes that it has a write-ahead log into its header
}

// checkRows reads all rows that have checksums. It may run beside Update.
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
	err := q.query(ctx, func(scan func(...any) error) error {
		var k InstKey
		var entity sql.RawBytes
		var data sql.RawBytes
		var due sql.NullInt64
		if err := scan(&k.Trigger, &entity, &k.Partition, &due, &data); err != nil {
			return localdb.Damaged("instance: %v", err)
		}
		k.Entity = string(entity)
		_, err := k.open(due, data)
		return err
	}, "SELECT trig, entity, part, due, data FROM inst")
	if err != nil {
		return err
	}
	for after := int64(0); ; {
		list, err := q.Fires(ctx, FireQuery{After: after, Limit: copyRows})
		if err != nil || len(list) == 0 {
			return err
		}
		after = list[len(list)-1].Seq
	}
}

// copyRows is how many firings are read at a time.
const copyRows = 1000

// LastErasure is when an entity was erased last (ms); 0: none was.
func (q Queries) LastErasure(ctx context.Context) (at int64, err error) {
	err = q.query(ctx, func(scan func(...any) error) error { return scan(&at) }, "SELECT coalesce(max(time), 0) FROM erased")
	return at, err
}
