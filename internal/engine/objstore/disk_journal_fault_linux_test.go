package objstore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sebbroker/seb/internal/engine/objstore/journal"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// ownFor claims a folder for a journal.
func ownFor(t *testing.T, d *Disk, folder string) {
	t.Helper()
	if err := d.Own(t.Context(), folder); errors.Is(err, ErrUnsuitable) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
}

// TestFailedAppendEndsAJournal: after a failed write or fsync the process stores nothing more, also
// when the disk reports success again. Another process finds every object that was stored before.
func TestFailedAppendEndsAJournal(t *testing.T) {
	boom := unix.EIO
	write := func(n int, err error) func(*diskCalls, *atomic.Bool) {
		return func(c *diskCalls, on *atomic.Bool) {
			honest := c.pwritev
			c.pwritev = func(fd int, parts [][]byte, at int64) (int, error) {
				if on.Load() {
					return n, err
				}
				return honest(fd, parts, at)
			}
		}
	}
	for name, sabotage := range map[string]func(c *diskCalls, on *atomic.Bool){
		"fsync": func(c *diskCalls, on *atomic.Bool) {
			honest := c.dataSync
			c.dataSync = func(fd int) error {
				if on.Load() {
					return boom
				}
				return honest(fd)
			}
		},
		"write":         write(0, boom),
		"write nothing": write(0, nil),
		"no space":      write(0, unix.ENOSPC),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			d := tempDisk(t, dir)
			var on atomic.Bool
			sabotage(&d.calls, &on)
			ownFor(t, d, "wal/1")
			mustPut(t, d, "wal/1/0", "before")
			on.Store(true)
			must.ErrorIsf(t, putString(t, d, "wal/1/1", "during"), ErrRefused, "put")
			check.ErrorIsf(t, d.BrokenBy(), ErrBroken, "broken by")
			on.Store(false) // the disk reports success again
			for _, key := range []string{"wal/1/1", "wal/1/2", "snap/1"} {
				if err := putString(t, d, key, "after"); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "fsync") {
					t.Errorf("put %s after a failed append: %v", key, err)
				}
			}
			check.ErrorIsf(t, d.Own(t.Context(), "wal/2"), ErrRefused, "own after a failed append")
			if v, err := readString(t, d, "wal/1/0"); v != "before" || err != nil {
				t.Errorf("get after a failed append: %q, %v", v, err)
			}
			again := tempDisk(t, dir)
			if v, err := readString(t, again, "wal/1/0"); v != "before" || err != nil {
				t.Errorf("another process: %q, %v", v, err)
			}
			mustPut(t, again, "wal/1/3", "next")
			check.NoError(t, d.Close())
			if v, err := readString(t, again, "wal/1/3"); v != "next" || err != nil {
				t.Errorf("another process: %q, %v", v, err)
			}
		})
	}
}

// TestRemovedFileEndsAJournal: while the owner leaves a file, another process ends the journal before
// the end mark and removes the next file. The owner's batch in it is behind the end: the journal has
// ended and the disk has not failed, so the owner puts the object as a file.
func TestRemovedFileEndsAJournal(t *testing.T) {
	dir := t.TempDir()
	d, other := tempDisk(t, dir), tempDisk(t, dir)
	d.sizes = journal.Options{FirstBytes: 4 * journal.BlockBytes, FileBytes: 4 * journal.BlockBytes}
	ownFor(t, d, "wal/1")
	value := strings.Repeat("x", 2*journal.BlockBytes-100) // two of them need another file
	mustPut(t, d, "wal/1/0", value)
	honest, ended := d.calls.pwritev, false
	d.calls.pwritev = func(fd int, parts [][]byte, at int64) (int, error) {
		const endOfFile = 2 // the kind of the batch
		if !ended && parts[0][40] == endOfFile {
			ended = true
			next := filepath.Join(dir, journal.Files("wal/1"), "00000002")
			_, before := os.Stat(next)
			mustPut(t, other, "wal/1/seal", "seal")
			if _, err := os.Stat(next); before != nil || !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the next file before the end: %v, and after it: %v", before, err)
			}
		}
		return honest(fd, parts, at)
	}
	mustPut(t, d, "wal/1/1", value)
	if !ended {
		t.Fatal("the owner did not leave its file")
	}
	check.NoError(t, d.BrokenBy())
	mustPut(t, d, "wal/1/2", "next")
	mustPut(t, d, "snap/1", "a file")
	ownFor(t, d, "wal/2")
	for _, s := range []*Disk{d, other, tempDisk(t, dir)} {
		for key, want := range map[string]string{"wal/1/0": value, "wal/1/1": value, "wal/1/2": "next", "wal/1/seal": "seal"} {
			if got, err := readString(t, s, key); err != nil || got != want {
				t.Errorf("%s: %.20q (%d bytes), %v", key, got, len(got), err)
			}
		}
	}
}

// TestRemovedFileWithAnEndMark: another process sees the end mark of a file before the owner has synced
// it, deletes the objects of the file, which removes it, and ends the journal behind the mark. The
// owner's next object was not written, although its position is before the end.
func TestRemovedFileWithAnEndMark(t *testing.T) {
	dir := t.TempDir()
	d, other := tempDisk(t, dir), tempDisk(t, dir)
	d.sizes = journal.Options{FirstBytes: 4 * journal.BlockBytes, FileBytes: 4 * journal.BlockBytes}
	ownFor(t, d, "wal/1")
	value := strings.Repeat("x", 2*journal.BlockBytes-100)
	mustPut(t, d, "wal/1/0", value)
	honest, ended := d.calls.pwritev, false
	d.calls.pwritev = func(fd int, parts [][]byte, at int64) (int, error) {
		n, err := honest(fd, parts, at)
		if !ended && parts[0][40] == 2 { // the kind of the batch: end of file
			ended = true
			check.NoError(t, other.Delete(t.Context(), "wal/1/0"))
			mustPut(t, other, "wal/1/seal", "seal")
		}
		return n, err
	}
	mustPut(t, d, "wal/1/1", value)
	if !ended {
		t.Fatal("the owner did not leave its file")
	}
	for _, s := range []*Disk{d, other, tempDisk(t, dir)} {
		if got, err := readString(t, s, "wal/1/1"); err != nil || got != value {
			t.Errorf("a stored object: %.20q (%d bytes), %v", got, len(got), err)
		}
	}
}

// TestRemovedFileIsNotOpened: while the owner prepares its next file, another process ends the journal,
// which removes that file before the owner opens it. The owner puts the object as a file.
func TestRemovedFileIsNotOpened(t *testing.T) {
	dir := t.TempDir()
	d, other := tempDisk(t, dir), tempDisk(t, dir)
	d.sizes = journal.Options{FirstBytes: 4 * journal.BlockBytes, FileBytes: 4 * journal.BlockBytes}
	ownFor(t, d, "wal/1")
	honest := d.calls.reserve
	var ended sync.Once
	d.calls.reserve = func(fd int, size int64) error {
		ended.Do(func() { mustPut(t, other, "wal/1/seal", "seal") })
		return honest(fd, size)
	}
	value := strings.Repeat("x", 2*journal.BlockBytes-100) // two of them need another file
	mustPut(t, d, "wal/1/0", value)
	mustPut(t, d, "wal/1/1", value)
	for _, s := range []*Disk{d, other, tempDisk(t, dir)} {
		if got, err := readString(t, s, "wal/1/1"); err != nil || got != value {
			t.Errorf("a stored object: %.20q (%d bytes), %v", got, len(got), err)
		}
	}
}

// fillable makes the reservations of files fail while the result is true.
func fillable(d *Disk) *atomic.Bool {
	full := new(atomic.Bool)
	honest := d.calls.reserve
	d.calls.reserve = func(fd int, size int64) error {
		if full.Load() {
			return unix.ENOSPC
		}
		return honest(fd, size)
	}
	return full
}

func wantFull(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, ErrRefused) || !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "the disk is full") {
		t.Fatalf("got %v, want that the disk is full", err)
	}
}

// TestFullDiskAtTheClaim: without space for a journal the folder has files.
func TestFullDiskAtTheClaim(t *testing.T) {
	dir := t.TempDir()
	d := tempDisk(t, dir)
	full := fillable(d)
	ownFor(t, d, "wal/0")
	full.Store(true)
	wantFull(t, d.Own(t.Context(), "wal/1"))
	for i := range 3 { // small files find space
		mustPut(t, d, fmt.Sprint("wal/1/", i), "x")
	}
	full.Store(false)
	ownFor(t, d, "wal/2")
	mustPut(t, d, "wal/2/0", "y")
	for _, s := range []Store{d, tempDisk(t, dir)} {
		entries, _, err := s.List(t.Context(), ListOptions{})
		if err != nil || len(entries) != 4 {
			t.Errorf("%v, %v", entries, err)
		}
	}
}

// TestFullDiskAtTheNextFile: without space for the next journal file a Put is refused, and succeeds when
// there is space again.
func TestFullDiskAtTheNextFile(t *testing.T) {
	dir := t.TempDir()
	d := tempDisk(t, dir)
	full := fillable(d)
	ownFor(t, d, "wal/1")
	full.Store(true)
	stored, value := 0, strings.Repeat("x", 1<<20)
	put := func() error {
		err := putString(t, d, fmt.Sprintf("wal/1/%02d", stored), value)
		if err == nil {
			stored++
		}
		return err
	}
	var err error
	for err == nil && stored < 100 {
		err = put()
	}
	wantFull(t, err)
	if stored == 0 || stored > 4 {
		t.Fatalf("%d objects of 1 MiB in a file of 4 MiB", stored)
	}
	wantFull(t, put())
	mustPut(t, d, "snap/1", "x") // the store works
	check.NoError(t, d.BrokenBy())
	if left, _ := filepath.Glob(filepath.Join(dir, "wal", "1+journal", "*")); len(left) != 1 {
		t.Errorf("files %q", left)
	}
	full.Store(false)
	for range 5 {
		must.NoError(t, put())
	}
	for _, s := range []Store{d, tempDisk(t, dir)} {
		for i := range stored {
			if v, err := readString(t, s, fmt.Sprintf("wal/1/%02d", i)); v != value || err != nil {
				t.Errorf("object %d: %d bytes, %v", i, len(v), err)
			}
		}
	}
}

// TestFullFileSystemAndJournals is TestFullDiskAtTheNextFile on a file system that is full.
func TestFullFileSystemAndJournals(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=10m"); err != nil {
		t.Skipf("mount tmpfs: %v", err)
	}
	t.Cleanup(func() { check.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	d := tempDisk(t, filepath.Join(dir, "b"))
	ownFor(t, d, "wal/1")
	stored, value := 0, strings.Repeat("x", 1<<20)
	var err error
	put := func() {
		if err = putString(t, d, fmt.Sprintf("wal/1/%02d", stored), value); err == nil {
			stored++
		}
	}
	filler := filepath.Join(dir, "filler")
	must.NoError(t, os.WriteFile(filler, make([]byte, 3<<20), 0o600))
	for err == nil && stored < 100 {
		put()
	}
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "the disk is full") || stored > 4 {
		t.Fatalf("%d objects, then %v", stored, err)
	}
	must.NoError(t, os.Remove(filler))
	must.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT, "size=64m"))
	for range 3 {
		if put(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range stored {
		if v, err := readString(t, d, fmt.Sprintf("wal/1/%02d", i)); v != value || err != nil {
			t.Errorf("object %d: %d bytes, %v", i, len(v), err)
		}
	}
}
