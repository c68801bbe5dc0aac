package testenv

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/must"
)

func TestRoot(t *testing.T) {
	root := must.Get(Root())(t)
	if _, err := os.Stat(filepath.Join(root, "test", "testenv")); err != nil {
		t.Error(err)
	}
	t.Chdir(t.TempDir())
	if root, err := Root(); err == nil {
		t.Errorf("a folder without a go.mod above has root %s", root)
	}
}

// TestLock checks that the second caller waits for the first.
func TestLock(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	first := must.Get(lock(name))(t)
	got := make(chan error, 1)
	go func() {
		unlock, err := lock(name)
		if err == nil {
			unlock()
		}
		got <- err
	}()
	select {
	case err := <-got:
		t.Fatalf("the lock was granted twice, %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	first()
	if err := <-got; err != nil {
		t.Error(err)
	}
	if _, err := lock(filepath.Join(name, "below")); err == nil {
		t.Error("a lock below a file")
	}
}

func TestInstall(t *testing.T) {
	root := t.TempDir()
	must.NoError(t, os.WriteFile(filepath.Join(root, "go.mod"), []byte("module github.com/sebbroker/seb\n"), 0o600))
	t.Chdir(root)
	fault := errors.New("no network")
	calls := 0
	build := func(err error) func(string) error {
		return func(dir string) error {
			calls++
			return errors.Join(err, os.WriteFile(filepath.Join(dir, "client"), []byte("x"), 0o600))
		}
	}
	if _, err := Install("client-1", "a client", build(fault)); !errors.Is(err, fault) {
		t.Fatalf("failed build: %v", err)
	}
	for range 2 {
		dir := must.Get(Install("client-1", "a client", build(nil)))(t)
		if text, err := os.ReadFile(filepath.Join(dir, "client")); err != nil || string(text) != "x" {
			t.Fatalf("installed: %q, %v", text, err)
		}
	}
	if calls != 2 {
		t.Errorf("built %d times, want once with an error and once without", calls)
	}
}
