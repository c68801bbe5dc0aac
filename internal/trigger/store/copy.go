package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/sebbroker/seb/internal/localdb"
)

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
