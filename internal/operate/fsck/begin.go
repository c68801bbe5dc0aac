package fsck

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
)

// metaMax bounds the cluster object.
const metaMax = 4096

// begin reads the cluster's id, lists the probes and snapshots, and sets the genesis state.
func (c *checker) begin(ctx context.Context) error {
	if err := c.readMeta(ctx); err != nil {
		return err
	}
	c.probes = map[string]bool{}
	err := c.list(ctx, probePrefix, "", func(e objstore.Entry) bool {
		c.probes[e.Key] = true
		return len(c.probes) < probesMax
	})
	if err != nil {
		return err
	}
	c.st = state.Genesis(c.cluster, c.o.Shard)
	c.chain = slices.Clone(c.st.Epochs)
	if err := c.listRecoveries(ctx); err != nil {
		return err
	}
	return c.listSnapshots(ctx)
}

// readMeta reads the cluster's id from the cluster object. If that object is missing or corrupt,
// the id comes from the log.
func (c *checker) readMeta(ctx context.Context) error {
	var b []byte
	err := objstore.Retry(ctx, retryPause, func() (err error) {
		b, _, err = c.readUpTo(ctx, core.MetaKey, metaMax)
		return err
	})
	missing := errors.Is(err, objstore.ErrNotFound)
	if err != nil && !missing && !errors.Is(err, record.ErrCorrupt) {
		return err
	}
	if err == nil {
		if c.cluster, _, err = core.DecodeMeta(b); err == nil {
			c.verified(int64(len(b)), true)
			return nil
		}
		if errors.Is(err, state.ErrNewer) {
			return err
		}
	}
	if missing {
		for name, what := range map[string]string{
			BackupMark: "it is a backup: seb restore makes a bucket of it",
			CopyMark:   "a restore or copy into it was interrupted: run that again",
		} {
			if _, err := c.readMark(ctx, name); err == nil {
				return fmt.Errorf("%w: %s", ErrIsBackup, what)
			}
		}
	}
	known, listErr := c.clusterOfLog(ctx)
	switch {
	case listErr != nil:
		return listErr
	case known && missing:
		c.noMeta = true
		c.damage("no cluster object", core.MetaKey, "it is missing, and other objects of a log are there")
	case known:
		c.badMeta = err
		c.damage("corrupt cluster object", core.MetaKey, "%v", err)
	case missing:
		return ErrNoLog
	default:
		return fmt.Errorf("read %s: %w: %w", core.MetaKey, record.ErrCorrupt, err)
	}
	return nil
}

// clusterOfLog reads the cluster's id from the log. The id is the nonce of epoch 0, and every head
// holds it.
func (c *checker) clusterOfLog(ctx context.Context) (known bool, err error) {
	var failed error
	err = c.list(ctx, core.WALPrefix(c.o.Shard), "", func(e objstore.Entry) bool {
		n, ok := parseSlot(c.o.Shard, e.Key)
		if !ok {
			return true
		}
		if n.epoch == 0 {
			c.cluster, known = n.nonce, true
			return false
		}
		h, missing, err := c.readHead(ctx, e.Key)
		switch {
		case err == nil:
			c.cluster, known = h.Cluster, true
		case !missing && !errors.Is(err, record.ErrCorrupt):
			failed = err
		}
		return !known && failed == nil
	})
	return known, errors.Join(err, failed)
}

// listSnapshots lists the snapshots that were not read yet, and sets newest and floor.
func (c *checker) listSnapshots(ctx context.Context) error {
	c.snaps, c.gone = c.snaps[:0], false
	c.floor, c.newest = state.Position{}, ""
	n := 0
	err := c.list(ctx, core.SnapPrefix(c.o.Shard), "", func(e objstore.Entry) bool {
		s, ok := parseSnapshot(c.o.Shard, e.Key)
		if !ok {
			return true
		}
		s.size = e.Size
		switch n++; n {
		case 1:
			c.newest = s.key
		case 2:
			c.floor = s.pos
		}
		if !c.seen[s.key] {
			c.snaps = append(c.snaps, s)
		}
		return true
	})
	slices.Reverse(c.snaps) // the newest sorts first
	return err
}

// readSnapshot reads a snapshot. It returns nil if the snapshot was deleted meanwhile or is
// damaged; damage is reported.
func (c *checker) readSnapshot(ctx context.Context, s snapshotObject) (*state.State, error) {
	c.seen[s.key] = true
	st, size, err := c.loadSnapshot(ctx, s)
	switch {
	case errors.Is(err, objstore.ErrNotFound):
		c.gone = true // collected meanwhile: newer snapshots exist
		return nil, nil
	case errors.Is(err, state.ErrSnapshot):
		c.damage("corrupt snapshot", s.key, "%v", err)
	case err != nil:
		return nil, err
	case st.Cluster != c.cluster:
		c.damage("foreign snapshot", s.key, "it is of cluster %s, this is %s", st.Cluster, c.cluster)
		st = nil
	case st.Shard != c.o.Shard || st.Pos != s.pos || st.Nonce != s.nonce:
		c.damage("foreign snapshot", s.key, "it holds the state at epoch %d slot %d of shard %d", st.Pos.Epoch, st.Pos.Slot, st.Shard)
		st = nil
	}
	c.verified(size, st != nil)
	if st != nil {
		c.report.Snapshots++
	}
	return st, nil
}

// loadSnapshot reads and decodes a snapshot. It does not check the snapshot's cluster, shard or
// position.
func (c *checker) loadSnapshot(ctx context.Context, s snapshotObject) (st *state.State, size int64, err error) {
	var b []byte
	err = objstore.Retry(ctx, retryPause, func() (err error) {
		b, size, err = c.readUpTo(ctx, s.key, state.SnapshotMax)
		return err
	})
	switch {
	case err == nil:
		st, err = state.DecodeSnapshot(b)
	case errors.Is(err, record.ErrCorrupt):
		err = fmt.Errorf("%w: %w", state.ErrSnapshot, err)
	}
	return st, max(size, int64(len(b))), err
}

// compare reports damage if a snapshot at the walk's position differs from the fold.
func (c *checker) compare(s snapshotObject, st *state.State) {
	if !bytes.Equal(state.EncodeSnapshot(st), state.EncodeSnapshot(c.st)) {
		c.damage("snapshot differs", s.key, "%s", difference(st, c.st))
		return
	}
	c.report.Compared++
	c.proven = append(c.proven, s)
}

// difference describes how a snapshot differs from the fold.
func difference(snap, fold *state.State) string {
	if snap.PrevCRC != fold.PrevCRC || snap.AppendTime != fold.AppendTime || !slices.Equal(snap.Epochs, fold.Epochs) {
		return "it is not of this log: the slot before it, or the epochs, are others"
	}
	var names []string
	for _, t := range fold.Topics() {
		o := snap.Topic(t.ID)
		if o == nil || o.Name != t.Name || o.Partitions.Len() != t.Partitions.Len() {
			names = append(names, t.Name)
			continue
		}
		for i, p := range t.Partitions.All() {
			q := o.Partitions.At(i)
			if p.Start != q.Start || p.Next != q.Next || !slices.Equal(p.Ranges, q.Ranges) {
				names = append(names, fmt.Sprintf("%s/%d", t.Name, i))
			}
		}
	}
	for _, t := range snap.Topics() {
		if fold.Topic(t.ID) == nil {
			names = append(names, t.Name)
		}
	}
	if len(names) == 0 {
		return "it is not what the log adds up to, in settings, consumer offsets or producers"
	}
	if len(names) > 5 {
		names = append(names[:5], "...")
	}
	return "it is not what the log adds up to, in " + strings.Join(names, ", ")
}
