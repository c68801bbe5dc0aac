package objstore_test

import (
	"testing"

	"github.com/sebbroker/seb/internal/objstore"
	"github.com/sebbroker/seb/internal/objstore/storetest"
)

func TestMemoryContract(t *testing.T) {
	storetest.Run(t, func(*testing.T) objstore.Store { return objstore.NewMemory() })
}

func TestDiskContract(t *testing.T) {
	for name, options := range map[string]objstore.DiskOptions{"sync": {}, "nosync": {NoSync: true}} {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, func(t *testing.T) objstore.Store { return openDisk(t, t.TempDir(), options) })
		})
	}
}

func openDisk(t *testing.T, dir string, options objstore.DiskOptions) *objstore.Disk {
	t.Helper()
	d, err := objstore.OpenDisk(dir, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}
