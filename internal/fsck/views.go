package fsck

import (
	"context"
	"errors"

	"github.com/sebbroker/seb/internal/localdb/snapshot"
)

// views verifies the copies of views in the listing. Records are readable without them, so a
// corrupt copy is not damage.
func (l *listing) views(ctx context.Context) error {
	c := l.c
	for i := range l.copies.List {
		f := &l.copies.List[i]
		if !f.Complete {
			for range f.Keys[1:] {
				c.report.Orphans.Objects++
			}
			c.orphan("copy of a view", f.Keys[0], f.Bytes, "not whole: it is being made, or was given up; the next one takes its %d objects away", len(f.Keys))
			continue
		}
		manifest := f.Keys[len(f.Keys)-1]
		err := snapshot.Check(ctx, c.o.Store, c.o.Shard, c.cluster, f)
		switch {
		case errors.Is(err, snapshot.ErrGone):
		case errors.Is(err, snapshot.ErrDamaged):
			c.note("corrupt copy of a view", manifest, "it is left alone, and no record is lost: %v", err)
		case err != nil:
			return err
		default:
			c.verified(f.Bytes, true)
			c.mu.Lock()
			c.report.Verified.Objects += int64(len(f.Keys) - 1)
			c.report.Views++
			c.mu.Unlock()
		}
	}
	return nil
}

func isView(shard uint32, key string) bool {
	_, ok := snapshot.ParseName(shard, key)
	return ok
}
