package objstore_test

import (
	"context"
	"errors"
	"testing"

	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/storetest"
)

func TestMemoryContract(t *testing.T) {
	storetest.Run(t, func(*testing.T) objstore.Store { return objstore.NewMemory() })
}

func TestDiskContract(t *testing.T) {
	t.Parallel() // syncing waits for the disk
	for name, options := range map[string]objstore.DiskOptions{"sync": {}, "nosync": {NoSync: true}} {
		if testing.Short() && !options.NoSync {
			continue // TestStagedContract syncs
		}
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, func(t *testing.T) objstore.Store { return openDisk(t, folder(t), options) })
		})
	}
}

// TestStagedContract checks that a staged and published object fulfills the contract of Put.
func TestStagedContract(t *testing.T) {
	t.Parallel() // syncing waits for the disk
	for name, options := range map[string]objstore.DiskOptions{"sync": {}, "nosync": {NoSync: true}} {
		if testing.Short() && options.NoSync {
			continue
		}
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, func(t *testing.T) objstore.Store { return staging{openDisk(t, folder(t), options)} })
		})
	}
}

// staging is a Disk that stages every Put.
type staging struct{ *objstore.Disk }

// Put implements objstore.Store.
func (s staging) Put(ctx context.Context, key string, body objstore.Body) (err error) {
	if body.Size != objstore.NewBody(body.Parts...).Size {
		return objstore.ErrRefused
	}
	file, err := s.Stage(ctx, body.Size)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	for _, part := range body.Parts {
		if _, err := file.File.Write(part); err != nil {
			return err
		}
	}
	return file.Publish(ctx, key)
}

// folder is an empty folder: with -short in memory, where syncing does not wait for a disk.
func folder(t *testing.T) string {
	if testing.Short() {
		return memory(t)
	}
	return t.TempDir()
}

func openDisk(t *testing.T, dir string, options objstore.DiskOptions) *objstore.Disk {
	t.Helper()
	d := must.Get(objstore.OpenDisk(dir, options))(t)
	t.Cleanup(func() { check.NoError(t, d.Close()) })
	return d
}
