package fsck_test

import (
	"errors"
	"maps"
	"testing"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/operate/fsck"
	"github.com/sebbroker/seb/test/forged"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/storetest"
)

// TestANewerBucketIsNotChecked: objects of a newer format level are not damage, with and without
// --repair.
func TestANewerBucketIsNotChecked(t *testing.T) {
	for _, c := range forged.NewerBuckets {
		t.Run(c.Name, func(t *testing.T) {
			store := objstore.NewMemory()
			must.NoError(t, c.Found(t.Context(), store))
			notChecked(t, store)
		})
	}
	t.Run("in its layout", func(t *testing.T) {
		store := objstore.NewMemory()
		must.NoError(t, forged.NewerLayout(t.Context(), store))
		notChecked(t, store)
	})
}

func notChecked(t *testing.T, store objstore.Store) {
	t.Helper()
	before := must.Get(storetest.Checksums(t.Context(), store))(t)
	for _, repair := range []bool{false, true} {
		r, err := fsck.Run(t.Context(), fsck.Options{
			Store: store, Repair: repair, Quiet: 1,
			Found: func(f fsck.Finding) { t.Errorf("repair %v: found %+v", repair, f) },
		})
		if !errors.Is(err, state.ErrNewer) || r.Damages != 0 {
			t.Errorf("repair %v: %d damages, %v", repair, r.Damages, err)
		}
	}
	if after, err := storetest.Checksums(t.Context(), store); err != nil || !maps.Equal(before, after) {
		t.Errorf("there was %v and is %v, %v", before, after, err)
	}
}
