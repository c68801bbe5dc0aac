package seb_test

import (
	"context"
	"testing"

	"github.com/sebbroker/seb"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/forged"
	"github.com/sebbroker/seb/test/must"
)

// TestFinalizeUpgrade: the bucket of an older program keeps its format level until the embedding
// program raises it.
func TestFinalizeUpgrade(t *testing.T) {
	dir := t.TempDir()
	store := must.Get(objstore.OpenDisk(dir, objstore.DiskOptions{}))(t)
	must.Get(forged.OldBucket(t.Context(), store))(t)
	b := must.Get(seb.Open(t.Context(), seb.Options{Bucket: dir, HoldUpgrade: true}))(t)
	defer b.Close(context.Background())
	if now, highest := b.FormatLevel(); now != state.LevelFirst || highest != state.LevelMax {
		t.Errorf("level %d of %d", now, highest)
	}
	for range 2 {
		must.NoError(t, b.FinalizeUpgrade(t.Context()))
	}
	if now, _ := b.FormatLevel(); now != state.LevelMax {
		t.Errorf("level %d", now)
	}
}
