package fsck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sebbroker/seb/internal/log/core"
	"github.com/sebbroker/seb/internal/objstore"
	"github.com/sebbroker/seb/record"
)

// deleteAtOnce is the number of objects that one request deletes.
const deleteAtOnce = 1000

// repair deletes permanent garbage by the four tests of rule R7, with the older of the two newest
// snapshots. A leader requires both snapshots to be its own, because it knows only those to be on
// the log. Here the walk has verified both.
func (c *checker) repair(ctx context.Context) error {
	switch {
	case c.report.Damages > 0:
		return ErrDamaged
	case c.report.Grew || c.stopped:
		return ErrActive
	}
	if err := c.quiet(ctx); err != nil {
		return err
	}
	judge, err := c.judge(ctx)
	if err != nil {
		return err
	}
	r := &removal{c: c, judge: judge, asked: map[string]objstore.Entry{}}
	wal := core.WALPrefix(c.o.Shard)
	if err := r.list(ctx, wal, func(string) bool { return true }); err != nil {
		return err
	}
	if judge != nil {
		for _, key := range judge.Settle() {
			if err := r.remove(ctx, r.asked[key]); err != nil {
				return err
			}
		}
	}
	if err := r.list(ctx, "", func(key string) bool { return !strings.HasPrefix(key, wal) }); err != nil {
		return err
	}
	return r.flush(ctx)
}

// quiet waits, and returns ErrActive if a broker has written since the walk.
func (c *checker) quiet(ctx context.Context) error {
	select {
	case <-time.After(c.o.Quiet):
	case <-ctx.Done():
		return ctx.Err()
	}
	newest := c.newest
	if err := c.listSnapshots(ctx); err != nil {
		return err
	}
	if newest != c.newest {
		return ErrActive
	}
	return c.still(ctx)
}

// still returns ErrActive unless the slot at the end of the log is empty.
func (c *checker) still(ctx context.Context) error {
	_, missing, err := c.readHead(ctx, c.st.Key(c.st.Pos.Epoch, c.st.Pos.Slot))
	switch {
	case missing:
		return nil
	case err == nil, errors.Is(err, record.ErrCorrupt):
		return ErrActive
	}
	return err
}

// judge returns the tests of rule R7, or nil without two verified snapshots.
func (c *checker) judge(ctx context.Context) (*core.Collector, error) {
	n := len(c.proven)
	if n < 2 || c.proven[n-1].key != c.newest || c.proven[n-2].pos != c.floor {
		return nil, nil
	}
	older, _, err := c.loadSnapshot(ctx, c.proven[n-2])
	if errors.Is(err, objstore.ErrNotFound) {
		return nil, ErrActive
	}
	if err != nil {
		return nil, err
	}
	return core.NewCollector(older, nil), nil
}

// removal deletes garbage in batches.
type removal struct {
	c     *checker
	judge *core.Collector
	names []objstore.Entry
	asked map[string]objstore.Entry // names whose heads were read
	err   error
}

// list removes the garbage among the wanted names below a prefix.
func (r *removal) list(ctx context.Context, prefix string, wanted func(string) bool) error {
	err := r.c.list(ctx, prefix, "", func(e objstore.Entry) bool {
		if wanted(e.Key) && r.garbage(ctx, e) && r.err == nil {
			r.err = r.remove(ctx, e)
		}
		return r.err == nil
	})
	return cmp.Or(err, r.err)
}

// remove adds a name to the next request.
func (r *removal) remove(ctx context.Context, e objstore.Entry) error {
	r.names = append(r.names, e)
	if len(r.names) < deleteAtOnce {
		return nil
	}
	return r.flush(ctx)
}

func (r *removal) garbage(ctx context.Context, e objstore.Entry) bool {
	key := e.Key
	if r.c.probes[key] {
		return true // listed when fsck started; the probe of a live broker ends sooner
	}
	if r.judge == nil {
		return false
	}
	v := r.judge.Judge(key)
	if v == core.AskHead {
		h, missing, err := r.c.readHead(ctx, key)
		switch {
		case missing, errors.Is(err, record.ErrCorrupt):
			return false // an unreadable object is never deleted (rule R9)
		case err != nil:
			r.err = err
			return false
		}
		v = r.judge.Head(key, &h)
		r.asked[key] = e
	}
	return v == core.Delete && !r.forbidden(key)
}

// forbidden reports whether a name must never be deleted. It does not depend on the judge.
func (r *removal) forbidden(key string) bool {
	n, ok := parseSlot(r.c.o.Shard, key)
	p, pack := parsePack(r.c.o.Shard, key)
	return ok && !n.pos().Less(r.c.floor) || pack && p.epoch > r.c.st.Pos.Epoch || key == core.MetaKey
}

func (r *removal) flush(ctx context.Context) error {
	if len(r.names) == 0 {
		return nil
	}
	if err := r.c.still(ctx); err != nil {
		return err
	}
	keys := make([]string, len(r.names))
	for i, e := range r.names {
		keys[i] = e.Key
	}
	if err := objstore.Retry(ctx, retryPause, func() error { return r.c.o.Store.Delete(ctx, keys...) }); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	for _, e := range r.names {
		r.c.report.Deleted.add(e.Size)
		r.c.note("removed", e.Key, "%d bytes", e.Size)
	}
	r.names = r.names[:0]
	return nil
}

// discard deletes the objects of lost branches that a recovery has accepted. SEALs stay, because
// they fence. The names are never used again, so a late DELETE is harmless.
func (c *checker) discard(ctx context.Context) error {
	if c.report.Damages > 0 {
		return ErrDamaged
	}
	r := &removal{c: c}
	for _, e := range c.accepted {
		if err := r.remove(ctx, e); err != nil {
			return err
		}
	}
	return r.flush(ctx)
}
