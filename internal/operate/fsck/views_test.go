package fsck_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/engine/views/snapshot"
	"github.com/sebbroker/seb/internal/operate/fsck"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// TestCopiesOfViews: fsck counts and reads copies of views. A fault in a copy loses no record.
func TestCopiesOfViews(t *testing.T) {
	t.Parallel()
	store := objstore.NewMemory()
	live(t, store, 1000)
	settled(t, store)
	cluster, _ := must.Get2(core.DecodeMeta(read(t, store, core.MetaKey)))(t)
	place := snapshot.LogPosition{Position: state.Position{Epoch: 1}, Nonce: record.ID{1}}
	copies := snapshot.Open(snapshot.Options{
		Store: store, View: "triggers", Schema: 1, Cluster: func() record.ID { return cluster }, PieceBytes: 1000,
		At: func() (snapshot.LogPosition, bool) { return place, true }, On: func(snapshot.LogPosition) bool { return true },
	})
	path := filepath.Join(t.TempDir(), "file")
	must.NoError(t, os.WriteFile(path, bytes.Repeat([]byte("some bytes "), 300), 0o600))
	for range 2 {
		place.Slot++
		must.Get(copies.Save(t.Context(), path, snapshot.Note{}, false))(t)
	}
	r := clean(t, store)
	if r.Views != 2 || r.Verified.Objects+r.Superseded.Objects < r.Listed.Objects {
		t.Errorf("%+v", r)
	}
	var names []string
	for key := range keys(t, store) {
		if strings.HasPrefix(key, snapshot.Prefix(0)) {
			names = append(names, key)
		}
	}
	slices.Sort(names) // four pieces and a manifest of each
	change(t, store, names[1], func(b []byte) []byte { b[len(b)/2] ^= 1; return b })
	remove(t, store, names[9])
	put(t, store, snapshot.Prefix(0)+"triggers/what-is-this", nil)
	r, found, err := verify(t, fsck.Options{Store: store})
	if err != nil || r.Damages != 0 || r.Views != 0 || r.Orphans.Objects != 4 {
		t.Errorf("%v: %+v", err, r)
	}
	var kinds []string
	for _, f := range found {
		kinds = append(kinds, string(f.Severity)+" "+f.Kind)
	}
	slices.Sort(kinds)
	check.EqualSlices(t, kinds, []string{"note corrupt copy of a view", "note unknown name", "orphan copy of a view"})
	remove(t, store, names[2])
	if r, found, err = verify(t, fsck.Options{Store: store}); err != nil || r.Damages != 0 || r.Orphans.Objects != 8 {
		t.Errorf("%v: %+v %+v", err, r, found)
	}
}
