package fsck

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/engine/views/snapshot"
	"github.com/sebbroker/seb/record"
)

// Backup adds a restore point to a backup. The restore point holds every record acknowledged before
// the call. A broker may write meanwhile. An interrupted Backup leaves the earlier restore points
// intact, and the next call reuses the transferred objects.
//
// Errors: ErrNoLog, ErrDamaged, ErrIsBucket, ErrOtherLog, state.ErrNewer, and objstore's.
func Backup(ctx context.Context, o CopyOptions) (*CopyReport, error) {
	c := newCopier(o)
	if err := c.source(ctx); err != nil {
		return nil, err
	}
	if err := c.mark(ctx, BackupMark); err != nil {
		return nil, err
	}
	if err := c.pass(ctx); err != nil {
		return nil, err
	}
	if err := c.putSnapshot(ctx); err != nil {
		return nil, err
	}
	return &c.out, c.prune(ctx)
}

// Restore makes To a bucket from a restore point of a backup. To must be empty, or hold an
// unfinished restore of the same point. Clients and data directories may know more of the log than
// the backup holds. A recovery SEAL (rule R14) therefore continues the log above every epoch and
// offset that they can have seen.
//
// Errors: ErrNoLog if From is not a backup or lacks the restore point, and those of Copy.
func Restore(ctx context.Context, o CopyOptions) (*CopyReport, *Recovery, error) {
	c := newCopier(o)
	if err := c.point(ctx); err != nil {
		return nil, nil, err
	}
	if err := c.mark(ctx, CopyMark); err != nil {
		return nil, nil, err
	}
	at := c.st.Pos
	if err := c.targetSnapshots(ctx, unfinished(at, at.Epoch+restoreEpochs+1)); err != nil {
		return nil, nil, err
	}
	if err := c.transfer(ctx); err != nil {
		return nil, nil, err
	}
	if err := c.putSnapshot(ctx); err != nil {
		return nil, nil, err
	}
	r, err := continueCopy(ctx, c.o.To, c.st, true)
	if err != nil {
		return nil, nil, err
	}
	return &c.out, r, c.finish(ctx)
}

// point loads the requested restore point.
func (c *copier) point(ctx context.Context) error {
	cluster, err := c.readMark(ctx, BackupMark)
	if errors.Is(err, objstore.ErrNotFound) {
		return fmt.Errorf("%w: it has no %s: %w", ErrNoLog, BackupMark, errors.New("no backup"))
	}
	if err != nil {
		return err
	}
	c.cluster = cluster
	if err := c.listSnapshots(ctx); err != nil {
		return err
	}
	for _, s := range slices.Backward(c.snaps) {
		if c.o.At != nil && s.pos != *c.o.At {
			continue
		}
		st, _, err := c.loadSnapshot(ctx, s)
		if err == nil && (st.Cluster != cluster || st.Pos != s.pos || st.Nonce != s.nonce || st.Shard != c.o.Shard) {
			err = fmt.Errorf("%w: it is of another log or position", record.ErrCorrupt)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.key, err)
		}
		c.st = st
		return nil
	}
	return fmt.Errorf("%w at that position: seb backup --list shows the restore points", ErrNoLog)
}

// prune deletes the restore points beyond Keep, and then the objects that no other restore point
// needs. It deletes a restore point before its objects, so that each remaining one is complete.
func (c *copier) prune(ctx context.Context) error {
	var keep []snapshotObject
	var drop []string
	err := c.targetSnapshots(ctx, func(s snapshotObject) error {
		if c.o.Keep == 0 || len(keep) < c.o.Keep {
			keep = append(keep, s)
		} else {
			drop = append(drop, s.key)
		}
		return nil
	})
	c.out.Points = len(keep)
	if err != nil || len(drop) == 0 {
		return err
	}
	to := newChecker(Options{Store: c.o.To, Shard: c.o.Shard})
	there, views, err := to.listObjects(ctx)
	if err != nil {
		return err
	}
	for _, s := range keep {
		st, _, err := to.loadSnapshot(ctx, s)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", c.o.To, s.key, err)
		}
		n := contentsAt(st, views)
		for key := range there { //tidy:unordered a set
			// Objects behind the oldest point may belong to a backup in progress. Objects before it that
			// it does not need are not needed later either.
			if n.holds(key) || !n.before(key) {
				delete(there, key)
			}
		}
	}
	if err := c.remove(ctx, drop, nil); err != nil {
		return err
	}
	var names []string
	for key := range there { //tidy:unordered sorted below
		names = append(names, key)
	}
	slices.Sort(names)
	return c.remove(ctx, names, there)
}

func (c *copier) remove(ctx context.Context, names []string, sizes map[string]int64) error {
	for some := range slices.Chunk(names, 1000) {
		if err := objstore.Retry(ctx, retryPause, func() error { return c.o.To.Delete(ctx, some...) }); err != nil {
			return err
		}
		for _, name := range some {
			c.out.Deleted.add(sizes[name])
		}
	}
	return nil
}

// RestorePoint is a position that a backup can be restored to.
type RestorePoint struct {
	state.Position
	Time    time.Time // append time of the last record
	Records int64
	Topics  int
}

// RestorePoints lists the restore points of a backup, newest first. Errors: ErrNoLog if s is not a
// backup, and objstore's.
func RestorePoints(ctx context.Context, s objstore.Store, shard uint32) (points []RestorePoint, err error) {
	c := newCopier(CopyOptions{From: s, To: s, Shard: shard})
	if _, err := c.readMark(ctx, BackupMark); errors.Is(err, objstore.ErrNotFound) {
		return nil, fmt.Errorf("%w: no backup: it has no %s", ErrNoLog, BackupMark)
	} else if err != nil {
		return nil, err
	}
	err = c.targetSnapshots(ctx, func(s snapshotObject) error {
		st, _, err := c.loadSnapshot(ctx, s)
		if err != nil {
			return fmt.Errorf("%s: %w", s.key, err)
		}
		p := RestorePoint{Position: s.pos, Time: time.UnixMicro(st.AppendTime).UTC(), Topics: len(st.Topics())}
		for _, t := range st.Topics() {
			for _, q := range t.Partitions.Written() {
				for i := range q.Ranges {
					p.Records += int64(q.Ranges[i].Records)
				}
			}
		}
		points = append(points, p)
		return nil
	})
	return points, err
}

// Verify reads and verifies every object of a restore point. It ignores To. Errors:
// record.ErrCorrupt for a corrupt object, ErrDamaged for a missing object, and those of Restore.
func Verify(ctx context.Context, o CopyOptions) (*CopyReport, error) {
	o.To = nil
	c := newCopier(o)
	if err := c.point(ctx); err != nil {
		return nil, err
	}
	c.out.Cluster, c.out.At = c.st.Cluster, c.st.Pos
	err := c.transfer(ctx)
	if errors.Is(err, errCollected) {
		err = fmt.Errorf("%w: an object is missing: %w", ErrDamaged, err)
	}
	for i := range c.views {
		if err == nil {
			err = snapshot.Check(ctx, c.o.From, c.o.Shard, c.cluster, &c.views[i])
		}
	}
	return &c.out, err
}
