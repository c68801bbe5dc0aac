package cache

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"

	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// TestDiskErrorsOnlyCostRequests fails each step on disk in turn, always or sometimes. Reads stay
// correct, the folder stays within its bound, one line is logged, and without errors the cache
// works again.
func TestDiskErrorsOnlyCostRequests(t *testing.T) {
	for _, op := range []string{"create", "write", "verify", "rename", "remove", "open", "reopen", "read"} {
		for _, fault := range []error{syscall.ENOSPC, syscall.EIO, syscall.EROFS, syscall.EMFILE}[:sebtest.Runs(4, 1)] {
			for _, every := range []int{1, 3} {
				diskErrors(t, op, fault, every)
			}
		}
	}
}

func diskErrors(t *testing.T, op string, fault error, every int) {
	t.Helper()
	var book sebtest.Log
	o := options()
	o.Bytes, o.Logger = 6*pageBytes, book.Logger()
	b, dir := newBucket(), t.TempDir()
	var mu sync.Mutex
	calls, broken := 0, true
	hook := func(step string) error {
		mu.Lock()
		defer mu.Unlock()
		if calls++; step == op && broken && calls%every == 0 {
			return fault
		}
		if got := onDisk(t, dir); got > o.Bytes {
			t.Errorf("%d bytes on disk, above the bound", got)
		}
		return nil
	}
	c := mustTune(t, dir, b, o, tuning{block: 1000, openMax: 1, hook: hook})
	data := pattern(3500, 1)
	for _, key := range []string{"a", "b", "c"} {
		b.fill(t, key, data)
	}
	for range 3 {
		for _, key := range []string{"a", "b", "c"} {
			want(t, c, key, data)
			c.Forget("b")
		}
	}
	if lines := book.Lines(); len(lines) > 2 { // an error, and damage
		t.Errorf("%s %v: logged %q", op, fault, lines)
	}
	settle(c)
	mu.Lock()
	broken = false
	mu.Unlock()
	if op == "remove" { // a file that cannot be removed stays counted until the next start
		mustClose(t, c)
		c = mustTune(t, dir, b, o, tuning{block: 1000, openMax: 1, hook: hook})
	}
	want(t, c, "a", data)
	b.asked()
	want(t, c, "a", data)
	if asked := b.asked(); len(asked) != 0 {
		t.Errorf("%s %v: without errors the second read requested %q, %+v, every %d", op, fault, asked, c.Stats(), every)
	}
	mustClose(t, c)
}

// settle waits until the cache has no more requests in flight.
func settle(c *Cache) {
	for busy := true; busy; runtime.Gosched() {
		c.mu.Lock()
		busy = len(c.filling) > 0
		c.mu.Unlock()
	}
}

// without opens a cache on an unusable folder and checks that it works without it.
func without(t *testing.T, dir string) {
	t.Helper()
	var book sebtest.Log
	o := options()
	o.Logger = book.Logger()
	b := newBucket()
	b.fill(t, "k", []byte("x"))
	c := mustOpen(t, dir, b, o)
	c.Keep("k", [][]byte{[]byte("x")}, nil)
	for range 3 {
		want(t, c, "k", []byte("x"))
	}
	if asked := b.asked(); len(asked) != 3 {
		t.Errorf("three reads made requests %q", asked)
	}
	if lines := book.Lines(); len(lines) != 1 {
		t.Errorf("logged %q", lines)
	}
}

func TestFolderThatCannotBeCreated(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must.NoError(t, os.WriteFile(file, nil, 0o600))
	without(t, file)
	without(t, filepath.Join(file, "below"))
}

func TestFolderOfAnotherProcess(t *testing.T) {
	dir := t.TempDir()
	first := mustOpen(t, dir, newBucket(), options())
	without(t, dir)
	child := must.Get(syscall.Dup(int(first.folder.lock.Fd())))(t) // as between fork and exec
	defer syscall.Close(child)
	mustClose(t, first)
	b := newBucket()
	b.fill(t, "k", []byte("x"))
	c := mustOpen(t, dir, b, options())
	want(t, c, "k", []byte("x"))
	check.Equalf(t, len(files(t, dir)), 1, "a folder that is no longer locked is not used")
}

func TestStoreErrorsReachTheReader(t *testing.T) {
	b := newBucket()
	b.fill(t, "k", pattern(3000, 1))
	o := options()
	o.Fetches = 1
	c := mustTune(t, t.TempDir(), b, o, tuning{block: 1000, openMax: openMax})
	for _, fault := range []error{objstore.ErrNoVerdict, objstore.ErrThrottled, objstore.ErrRefused, objstore.ErrNotFound} {
		b.failing(fault)
		if _, _, err := read(t.Context(), c, "k", objstore.Whole); !errors.Is(err, fault) {
			t.Errorf("%v became %v", fault, err)
		}
	}
	b.failing(nil)
	must.Get2(read(t.Context(), c, "k", objstore.Range{Length: 1}))(t)
	for _, fault := range []error{objstore.ErrRefused, objstore.ErrNotFound} {
		b.failing(fault)
		if _, _, err := read(t.Context(), c, "k", objstore.Whole); !errors.Is(err, objstore.ErrNoVerdict) {
			t.Errorf("%v in the middle of a read became %v", fault, err)
		}
	}
	b.failing(nil)
	want(t, c, "k", pattern(3000, 1))
}
