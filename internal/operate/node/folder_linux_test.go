package node

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/sebbroker/seb/test/must"
)

// mountAt mounts a small file system; it skips the test where that is not allowed.
func mountAt(t *testing.T, dir, options string) {
	t.Helper()
	must.NoError(t, os.MkdirAll(dir, 0o700))
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("cannot mount a file system here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
}

// TestSmallDataFolders runs a node on a disk that becomes full at its first or a later file.
func TestSmallDataFolders(t *testing.T) {
	t.Parallel()
	w := newNodeImages(t, "one")
	for _, pages := range []int{1, 2, 3, 5, 10, 20, 40, 80} {
		t.Run(fmt.Sprint(pages), func(t *testing.T) {
			t.Parallel() // most of them wait
			w := *w
			w.t, w.dir = t, filepath.Join(t.TempDir(), "data")
			mountAt(t, w.dir, fmt.Sprintf("size=%dk", 4*pages))
			for range 2 {
				w.starts(fmt.Sprintf("a disk of %d pages", pages), w.dir)
			}
		})
	}
}

// TestReadOnlyDataFolder: the node locks the folder, or the error names it.
func TestReadOnlyDataFolder(t *testing.T) {
	w := newNodeImages(t, "one")
	for name, files := range map[string]folderImage{"of a killed node": w.crashed, "empty": {}} {
		t.Run(name, func(t *testing.T) {
			w := *w
			w.t, w.dir = t, filepath.Join(t.TempDir(), "data")
			mountAt(t, w.dir, "size=4m")
			for name, text := range files {
				path := filepath.Join(w.dir, name)
				must.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
				must.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			}
			must.NoError(t, syscall.Mount("", w.dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
			w.starts("read-only, "+name, w.dir)
		})
	}
}
