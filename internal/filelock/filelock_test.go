package filelock_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/sebbroker/seb/internal/filelock"
	"github.com/sebbroker/seb/test/must"
)

// TestCloseEndsTheLock: a copy of the file descriptor, as a child process has between fork and exec,
// does not keep a closed file or folder locked.
func TestCloseEndsTheLock(t *testing.T) {
	dir := t.TempDir()
	for name, open := range map[string]func() (*os.File, error){
		"file":   func() (*os.File, error) { return os.Create(filepath.Join(dir, "lock")) },
		"folder": func() (*os.File, error) { return os.Open(dir) },
	} {
		t.Run(name, func(t *testing.T) {
			first, second := must.Get(open())(t), must.Get(open())(t)
			must.NoError(t, filelock.Lock(first))
			if err := filelock.Lock(second); !errors.Is(err, filelock.ErrInUse) {
				t.Fatalf("second Lock: %v, want ErrInUse", err)
			}
			copied := must.Get(syscall.Dup(int(first.Fd())))(t)
			defer syscall.Close(copied)
			must.NoError(t, filelock.Close(first))
			must.NoError(t, filelock.Lock(second))
			must.NoError(t, filelock.Close(second))
		})
	}
}
