package objstore_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/must"
)

// TestCloseFileEndsTheLock: a copy of the file descriptor, as a child process has between fork and exec,
// does not keep a closed file or folder locked.
func TestCloseFileEndsTheLock(t *testing.T) {
	dir := t.TempDir()
	for name, open := range map[string]func() (*os.File, error){
		"file":   func() (*os.File, error) { return os.Create(filepath.Join(dir, "lock")) },
		"folder": func() (*os.File, error) { return os.Open(dir) },
	} {
		t.Run(name, func(t *testing.T) {
			first, second := must.Get(open())(t), must.Get(open())(t)
			must.NoError(t, objstore.LockFile(first))
			if err := objstore.LockFile(second); !errors.Is(err, objstore.ErrFileInUse) {
				t.Fatalf("second LockFile: %v, want ErrFileInUse", err)
			}
			copied := must.Get(syscall.Dup(int(first.Fd())))(t)
			defer syscall.Close(copied)
			must.NoError(t, objstore.CloseFile(first))
			must.NoError(t, objstore.LockFile(second))
			must.NoError(t, objstore.CloseFile(second))
		})
	}
}
