package node

import (
	"testing"

	"github.com/sebbroker/seb/internal/log/core"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
)

// TestPositionOfABucketWithFiles: the position of a bucket is known by each address of it, with files or
// with journals.
func TestPositionOfABucketWithFiles(t *testing.T) {
	for _, name := range []string{"file:/b", "file:/b?fsync=false"} {
		files := map[string]string{"file:/b": "file:/b?journal=false", "file:/b?fsync=false": "file:/b?fsync=false&journal=false"}[name]
		for _, names := range [][2]string{{name, files}, {files, name}} {
			dir := t.TempDir()
			want := &core.Seen{Cluster: record.NewID(), Epoch: 3, Nonce: record.NewID(), Slot: 4, Highest: 5}
			must.NoError(t, saveSeen(dir, names[0], want))
			if got, err := ReadSeen(dir, names[1]); err != nil || got == nil || *got != *want {
				t.Errorf("saved for %s, read for %s: %+v, %v", names[0], names[1], got, err)
			}
			if got, err := ReadSeen(dir, "file:/c?journal=false"); err != nil || got != nil {
				t.Errorf("another bucket: %+v, %v", got, err)
			}
			must.NoError(t, ForgetSeen(dir, names[1]))
			if got, err := ReadSeen(dir, names[0]); err != nil || got != nil {
				t.Errorf("forgotten for %s, read for %s: %+v, %v", names[1], names[0], got, err)
			}
		}
	}
}
