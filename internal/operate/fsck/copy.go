package fsck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sebbroker/seb/internal/engine/base/sorting"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/engine/views/snapshot"
	"github.com/sebbroker/seb/record"
)

// A copy of a log at a committed position P holds
//
//	the SEALs of all epochs before P                        so that rule R7 can judge names
//	every slot and pack in which a range of that state lies
//	the newest copy of each view that is not ahead of P
//	a snapshot of the state at P, written last
//
// The copy needs no other slot below P, because readers of the log begin at the snapshot. Objects
// never change, so a copy into a store that holds an earlier copy transfers only new objects.
// Several snapshots in one store are several restore points that share their objects.
//
// A bucket has the object meta/cluster. A backup has meta/backup instead, and an unfinished restore
// or copy has meta/copy. A broker refuses to start on either, because it finds objects of a log and
// no meta/cluster.
const (
	BackupMark = "meta/backup"
	CopyMark   = "meta/copy"
)

// CopyOptions configures Copy, Backup, Restore and Verify. From and To must be set.
type CopyOptions struct {
	From, To objstore.Store
	Shard    uint32
	// At is the restore point to restore; nil selects the newest.
	At *state.Position
	// Keep is the number of restore points that Backup keeps, newest first. 0 keeps all.
	Keep int
	// Copy calls Fence, if set, after the first pass, and then makes a second pass. After Fence
	// returns, no broker writes to From.
	Fence func(context.Context) error
	// Progress, if set, receives the progress of a pass. Calls are not concurrent.
	Progress func(done, total Count)
	// Workers is the number of objects copied concurrently; default 8. MemoryBytes bounds the bytes
	// of objects in memory; default 8 MiB. An object above a worker's part of it is in a file.
	Workers     int
	MemoryBytes int64
}

// CopyReport is the result of a copy.
type CopyReport struct {
	Cluster record.ID
	At      state.Position // the copy holds the log up to this position, exclusive
	Time    time.Time      // append time of its last record; zero if there is none
	Whole   Count          // objects of the copy
	Copied  Count          // objects transferred by this call
	Deleted Count          // objects of deleted restore points
	Points  int            // restore points in the backup
}

var (
	// ErrIsBucket reports that the target of a backup, restore or copy holds a log.
	ErrIsBucket = errors.New("a broker's log is there already")
	// ErrIsBackup reports that the store holds a backup or an unfinished copy instead of a bucket.
	ErrIsBackup = errors.New("no bucket of a broker")
	// ErrOtherLog reports that the target holds a copy of another log.
	ErrOtherLog = errors.New("it holds a copy of another log")
	// errCollected reports that an object was collected after the state was read. A newer state
	// exists that does not need it.
	errCollected = errors.New("collected meanwhile")
)

// copyTries bounds the attempts to read the state when objects are collected meanwhile.
const copyTries = 20

// Copy makes To a bucket that continues the log in From. To must be empty, or hold an unfinished
// copy of the same log. Errors: those of Backup, and Fence's.
func Copy(ctx context.Context, o CopyOptions) (*CopyReport, error) {
	c := newCopier(o)
	if err := c.source(ctx); err != nil {
		return nil, err
	}
	if err := c.mark(ctx, CopyMark); err != nil {
		return nil, err
	}
	if err := c.pass(ctx); err != nil {
		return nil, err
	}
	if o.Fence != nil {
		if err := o.Fence(ctx); err != nil {
			return nil, err
		}
		if err := c.pass(ctx); err != nil {
			return nil, err
		}
	}
	at := c.st.Pos
	if err := c.targetSnapshots(ctx, unfinished(at, at.Epoch+1)); err != nil {
		return nil, err
	}
	if err := c.putSnapshot(ctx); err != nil {
		return nil, err
	}
	if _, err := continueCopy(ctx, c.o.To, c.st, false); err != nil {
		return nil, err
	}
	return &c.out, c.finish(ctx)
}

// unfinished returns a function that accepts snapshots of an unfinished copy at a position or in
// the epoch that continues it. Any other snapshot is an error, because the two copies become
// indistinguishable once a broker runs.
func unfinished(at state.Position, epoch uint32) func(snapshotObject) error {
	return func(s snapshotObject) error {
		if s.pos != at && s.pos.Epoch != epoch {
			return fmt.Errorf("%w: an unfinished one at epoch %d slot %d: empty it first", ErrOtherLog, s.pos.Epoch, s.pos.Slot)
		}
		return nil
	}
}

// copier is the state of one call. Its checker reads From.
type copier struct {
	*checker
	o   CopyOptions
	out CopyReport
	// contents and views belong to the last pass.
	contents *contents
	views    []snapshot.Found

	progress sync.Mutex // guards done and out.Copied, and calls of Progress
	done     Count
}

func newCopier(o CopyOptions) *copier {
	if o.Workers <= 0 {
		o.Workers = 8
	}
	o.MemoryBytes = cmp.Or(o.MemoryBytes, memoryBytes)
	return &copier{checker: newChecker(Options{Store: o.From, Shard: o.Shard, Readers: o.Workers, MemoryBytes: o.MemoryBytes}), o: o}
}

// End returns the state at the end of a bucket's log. Errors: those of Backup.
func End(ctx context.Context, s objstore.Store, shard uint32) (*state.State, error) {
	c := newCopier(CopyOptions{From: s, Shard: shard})
	if err := c.source(ctx); err != nil {
		return nil, err
	}
	err := c.walkToEnd(ctx)
	return c.st, err
}

// source reads the cluster ID of From.
func (c *copier) source(ctx context.Context) error {
	if err := c.readMeta(ctx); err != nil {
		return err
	}
	if c.noMeta || c.badMeta != nil {
		return fmt.Errorf("%w: %s is missing or damaged: see seb fsck", ErrDamaged, core.MetaKey)
	}
	return nil
}

// mark verifies that To is empty or a copy of this log, and puts the mark. The mark is the first
// object in To.
func (c *copier) mark(ctx context.Context, name string) error {
	to := newChecker(Options{Store: c.o.To, Shard: c.o.Shard})
	var names []string
	if err := to.list(ctx, metaPrefix, "", func(e objstore.Entry) bool {
		names = append(names, e.Key)
		return true
	}); err != nil {
		return err
	}
	switch {
	case slices.Contains(names, core.MetaKey):
		return fmt.Errorf("%s: %w", c.o.To, ErrIsBucket)
	case !slices.Contains(names, name):
		var other string
		if err := to.list(ctx, "", "", func(e objstore.Entry) bool {
			if !strings.HasPrefix(e.Key, probePrefix) {
				other = e.Key
			}
			return other == ""
		}); err != nil || other != "" {
			return errors.Join(err, fmt.Errorf("%s: it is not empty and has no %s: it holds %s", c.o.To, name, other))
		}
		return c.put(ctx, name, core.EncodeMeta(c.cluster))
	}
	cluster, err := to.readMark(ctx, name)
	if err == nil && cluster != c.cluster {
		err = fmt.Errorf("%w, %s; this is %s", ErrOtherLog, cluster, c.cluster)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", c.o.To, err)
	}
	return nil
}

func (c *checker) readMark(ctx context.Context, name string) (cluster record.ID, err error) {
	err = objstore.Retry(ctx, retryPause, func() error {
		b, _, err := c.readUpTo(ctx, name, metaMax)
		if err == nil {
			cluster, _, err = core.DecodeMeta(b)
		}
		return err
	})
	return cluster, err
}

// finish makes To a bucket: it puts meta/cluster and deletes the mark.
func (c *copier) finish(ctx context.Context) error {
	if err := c.put(ctx, core.MetaKey, core.EncodeMeta(c.cluster)); err != nil {
		return err
	}
	return objstore.Retry(ctx, retryPause, func() error { return c.o.To.Delete(ctx, CopyMark) })
}

// pass reads the state at the end of the log and transfers the objects that it needs. The end is
// any committed position at or after the end at the start of the call.
func (c *copier) pass(ctx context.Context) (err error) {
	for range copyTries {
		if err = c.walkToEnd(ctx); err != nil {
			return err
		}
		if err = c.transfer(ctx); !errors.Is(err, errCollected) {
			return err
		}
	}
	return fmt.Errorf("%w after %d attempts", err, copyTries)
}

// walkToEnd replays the log up to a missing slot that is not a hole (rule R13): no object refers to
// the log after it, or a broker has written it since.
func (c *copier) walkToEnd(ctx context.Context) error {
	var before state.Position
	for try := 0; ; try++ {
		r := &recovery{checker: c.checker, o: RecoverOptions{Store: c.o.From, Shard: c.o.Shard}, next: map[partition]int64{}}
		c.seen = map[string]bool{}
		err := r.walk(ctx)
		if errors.Is(err, objstore.ErrNotFound) && try < copyTries {
			continue // the newest snapshot was replaced by a newer one
		}
		if err != nil {
			return err
		}
		if !r.cut.missing() {
			return fmt.Errorf("%w: %s: %w", ErrDamaged, r.cut.key, r.cut.err)
		}
		if more, err := c.refersBeyond(ctx); err != nil || !more {
			return err
		}
		if o := c.readObject(ctx, r.cut.key); o.err == nil {
			return nil
		} else if o.fatal() != nil {
			return o.err
		}
		// The slot may have been collected between the reads of the snapshots and of the slot. Then
		// a newer snapshot exists.
		if try > 0 && c.st.Pos == before {
			return fmt.Errorf("%w: %s is missing: see seb fsck", ErrDamaged, r.cut.key)
		}
		before = c.st.Pos
	}
}

// refersBeyond reports whether an object shows that the log continues after the missing slot at its
// end (rule R13). It lists only names after that slot, so its cost does not grow with the age of
// the log.
func (c *checker) refersBeyond(ctx context.Context) (more bool, err error) {
	at := c.st.Pos
	for _, s := range c.snaps {
		if at.Less(s.pos) && !c.st.OnLostBranch(s.pos) {
			return true, nil
		}
	}
	var failed error
	err = c.list(ctx, core.WALPrefix(c.o.Shard), c.st.Key(at.Epoch, at.Slot), func(e objstore.Entry) bool {
		n, ok := parseSlot(c.o.Shard, e.Key)
		if !ok || n.epoch == at.Epoch && n.nonce != c.st.Nonce {
			return true
		}
		h, missing, err := c.readHead(ctx, e.Key)
		switch {
		case errors.Is(err, record.ErrCorrupt):
			more = true
		case err == nil:
			more = core.RefersBeyond(c.st, &h)
		case !missing:
			failed = err
		}
		return !more && failed == nil
	})
	if err = errors.Join(err, failed); err != nil || more {
		return more, err
	}
	found := func(objstore.Entry) bool { more = true; return false }
	if err := c.list(ctx, state.PackPrefix(c.o.Shard), state.PackEpochPrefix(c.o.Shard, at.Epoch+1), found); err != nil || more {
		return more, err
	}
	err = c.list(ctx, state.ViewPrefix(c.o.Shard), "", func(e objstore.Entry) bool { // the newest of a view sorts first
		p, ok := state.ParseViewPosition(c.o.Shard, e.Key)
		more = ok && at.Less(p) && !c.st.OnLostBranch(p)
		return false
	})
	return more, err
}

// listObjects lists the commit objects, packs and copies of views of a store.
func (c *checker) listObjects(ctx context.Context) (sizes map[string]int64, views []snapshot.Found, err error) {
	sizes = map[string]int64{}
	g := snapshot.Gather{Shard: c.o.Shard}
	for _, prefix := range []string{core.WALPrefix(c.o.Shard), state.PackPrefix(c.o.Shard), state.ViewPrefix(c.o.Shard)} {
		err := c.list(ctx, prefix, "", func(e objstore.Entry) bool {
			sizes[e.Key] = e.Size
			g.Add(e)
			return true
		})
		if err != nil {
			return nil, nil, err
		}
	}
	return sizes, g.List, nil
}

// transfer copies the objects that the state needs and To lacks. Without To it only verifies them.
func (c *copier) transfer(ctx context.Context) error {
	from, views, err := c.listObjects(ctx)
	if err != nil {
		return err
	}
	c.views = viewsAt(c.st, views)
	there := map[string]int64{}
	if c.o.To != nil {
		to := newChecker(Options{Store: c.o.To, Shard: c.o.Shard})
		if there, _, err = to.listObjects(ctx); err != nil {
			return err
		}
	}
	c.contents = contentsAt(c.st, views)
	must := maps.Clone(c.contents.must)
	c.done, c.out.Whole = Count{}, Count{}
	var missing []objstore.Entry
	for key, size := range from { //tidy:unordered sorted below
		if !c.contents.holds(key) {
			continue
		}
		delete(must, key)
		c.out.Whole.add(size)
		switch has, copied := there[key]; {
		case !copied:
			missing = append(missing, objstore.Entry{Key: key, Size: size})
		case has != size:
			return fmt.Errorf("%s: %s has %d bytes there and %d in %s: delete it, and run this again", c.o.To, key, has, size, c.o.From)
		default:
			c.done.add(size)
		}
	}
	for key := range must { //tidy:unordered any of them
		return fmt.Errorf("%s: %w", key, errCollected)
	}
	sorting.Sort(missing, func(a, b objstore.Entry) int { return strings.Compare(a.Key, b.Key) })
	c.step(0, false)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(c.o.Workers)
	for _, e := range missing {
		g.Go(func() error { return c.one(ctx, e) })
	}
	return g.Wait()
}

func (c *copier) step(size int64, copied bool) {
	c.progress.Lock()
	defer c.progress.Unlock()
	if copied {
		c.done.add(size)
		c.out.Copied.add(size)
	}
	if c.o.Progress != nil {
		c.o.Progress(c.done, c.out.Whole)
	}
}

// putSnapshot writes the restore point. To already holds every object that it refers to.
func (c *copier) putSnapshot(ctx context.Context) error {
	c.out.Cluster, c.out.At = c.st.Cluster, c.st.Pos
	if c.st.AppendTime > 0 {
		c.out.Time = time.UnixMicro(c.st.AppendTime).UTC()
	}
	b := state.EncodeSnapshot(c.st)
	c.out.Whole.add(int64(len(b)))
	return c.put(ctx, state.SnapKey(c.o.Shard, c.st.Pos, c.st.Nonce), b)
}

// targetSnapshots calls f with each snapshot in To, newest first.
func (c *copier) targetSnapshots(ctx context.Context, f func(snapshotObject) error) error {
	var failed error
	to := newChecker(Options{Store: c.o.To, Shard: c.o.Shard})
	err := to.list(ctx, core.SnapPrefix(c.o.Shard), "", func(e objstore.Entry) bool {
		if s, ok := parseSnapshot(c.o.Shard, e.Key); ok {
			failed = f(s)
		}
		return failed == nil
	})
	return errors.Join(err, failed)
}
