package fsck_test

import (
	"context"
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/operate/fsck"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// late is a store whose listing lacks the objects of the log, like that of a store to which another
// copy is being written.
type late struct{ objstore.Store }

func (s late) List(ctx context.Context, o objstore.ListOptions) ([]objstore.Entry, bool, error) {
	if strings.Contains(o.Prefix, "/") && !strings.HasPrefix(o.Prefix, "meta") {
		return nil, false, nil
	}
	return s.Store.List(ctx, o)
}

// lateDisk is a late folder that builds objects in its files.
type lateDisk struct {
	late
	objstore.Stager
}

// TestObjectsAreThereAlready: an object that appeared in the target since the listing is kept if it
// has the same bytes. Otherwise the copy fails and names it. The bytes are compared in memory and in
// each kind of file.
func TestObjectsAreThereAlready(t *testing.T) {
	t.Parallel()
	from := objstore.NewMemory()
	live(t, from, 4)
	settled(t, from)
	folder := disk(t)
	for key, b := range contentOf(t, from) {
		put(t, folder, key, b)
	}
	for name, c := range map[string]struct {
		from   objstore.Store
		to     objstore.Store
		memory int64
	}{
		"in memory":            {from, objstore.NewMemory(), 0},
		"a temporary file":     {from, objstore.NewMemory(), inFiles},
		"a file of the source": {folder, objstore.NewMemory(), inFiles},
		"a file of the target": {from, disk(t), inFiles},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := fsck.CopyOptions{From: c.from, To: c.to, MemoryBytes: c.memory}
			first := must.Get(fsck.Backup(t.Context(), o))(t)
			o.To = late{c.to}
			if d, ok := c.to.(*objstore.Disk); ok {
				o.To = lateDisk{late{c.to}, d}
			}
			again := must.Get(fsck.Backup(t.Context(), o))(t)
			check.Equalf(t, again.Copied, first.Copied, "objects that are copied again")
			key := packs(t, c.to)[0]
			change(t, c.to, key, func(b []byte) []byte { b[len(b)-1] ^= 1; return b })
			must.ErrorContains(t, check.Err(fsck.Backup(t.Context(), o)), key+" holds other bytes")
		})
	}
}
