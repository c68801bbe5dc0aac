package testenv

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestRoot(t *testing.T) {
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, "test", "testenv")); err != nil {
		t.Error(err)
	}
	t.Chdir(t.TempDir())
	if root, err := Root(); err == nil {
		t.Errorf("a folder without a go.mod above is in %s", root)
	}
}

// TestLock: the second waits for the first.
func TestLock(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	first, err := Lock(name)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan error, 1)
	go func() {
		unlock, err := Lock(name)
		if err == nil {
			unlock()
		}
		got <- err
	}()
	select {
	case err := <-got:
		t.Fatalf("two have the lock, %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	first()
	if err := <-got; err != nil {
		t.Error(err)
	}
	if _, err := Lock(filepath.Join(name, "below")); err == nil {
		t.Error("a lock below a file")
	}
}
