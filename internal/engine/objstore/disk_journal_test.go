package objstore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/engine/objstore/journal"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/storetest"
)

// TestJournalContract checks the contract for objects in journals: as their owner sees them, as
// another process sees them, and after another process has ended the journal.
func TestJournalContract(t *testing.T) {
	t.Parallel()
	t.Run("owner", func(t *testing.T) {
		t.Parallel()
		storetest.Run(t, func(t *testing.T) objstore.Store {
			return &owning{Disk: openDisk(t, folder(t), objstore.DiskOptions{})}
		})
	})
	t.Run("reader", func(t *testing.T) {
		t.Parallel()
		storetest.Run(t, func(t *testing.T) objstore.Store {
			dir := folder(t)
			owner := &owning{Disk: openDisk(t, dir, objstore.DiskOptions{NoSync: true})}
			return &halves{Disk: openDisk(t, dir, objstore.DiskOptions{}), writer: owner}
		})
	})
	if testing.Short() {
		return // the reader and the owner remain
	}
	t.Run("both write", func(t *testing.T) {
		t.Parallel()
		storetest.Run(t, func(t *testing.T) objstore.Store {
			dir := t.TempDir()
			owner := &owning{Disk: openDisk(t, dir, objstore.DiskOptions{})}
			return &halves{Disk: openDisk(t, dir, objstore.DiskOptions{}), writer: owner, both: true}
		})
	})
}

// owning is a Disk that claims each folder before its first object, if no folder is below it.
type owning struct {
	*objstore.Disk
	mu      sync.Mutex
	claimed map[string]bool
}

// Put implements objstore.Store.
func (o *owning) Put(ctx context.Context, key string, body objstore.Body) error {
	if objstore.ValidKey(key) && ctx.Err() == nil {
		if err := o.own(ctx, path.Dir(key)); err != nil {
			return err
		}
	}
	return o.Disk.Put(ctx, key, body)
}

func (o *owning) own(ctx context.Context, folder string) error {
	switch folder {
	case ".", "a", "c", "c/d", "c/d/e": // folders are below them
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.claimed[folder] {
		return nil
	}
	if err := o.Own(ctx, folder); err != nil && !errors.Is(err, objstore.ErrExists) {
		return err
	}
	if o.claimed == nil {
		o.claimed = map[string]bool{}
	}
	o.claimed[folder] = true
	return nil
}

// halves reads with one Disk what another one, like that of another process, has put. If both is
// set, every second Put goes to the reader, and Delete to both: an owner does not see what others
// delete before it knows that its journal has ended.
type halves struct {
	*objstore.Disk
	writer objstore.Store
	both   bool
	mu     sync.Mutex
	turn   int
}

func (h *halves) next() objstore.Store {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.turn++
	if h.both && h.turn%2 == 0 {
		return h.Disk
	}
	return h.writer
}

// Put implements objstore.Store.
func (h *halves) Put(ctx context.Context, key string, body objstore.Body) error {
	return h.next().Put(ctx, key, body)
}

// Delete implements objstore.Store.
func (h *halves) Delete(ctx context.Context, keys ...string) error {
	if err := h.writer.Delete(ctx, keys...); err != nil || !h.both {
		return err
	}
	return h.Disk.Delete(ctx, keys...)
}

func own(t *testing.T, d *objstore.Disk, folder string) {
	t.Helper()
	if err := d.Own(t.Context(), folder); errors.Is(err, objstore.ErrUnsuitable) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
}

func mustPut(t *testing.T, s objstore.Store, key, value string) {
	t.Helper()
	must.NoError(t, s.Put(t.Context(), key, objstore.NewBody([]byte(value))))
}

func wantGet(t *testing.T, s objstore.Store, key, want string) {
	t.Helper()
	o, err := s.Get(t.Context(), key, objstore.Whole)
	must.NoErrorf(t, err, "%s", key)
	defer o.Body.Close()
	got, err := io.ReadAll(o.Body)
	if err != nil || string(got) != want || o.Size != int64(len(want)) {
		t.Fatalf("%s: %.40q (%d bytes, size %d), %v; want %.40q (%d bytes)", key, got, len(got), o.Size, err, want, len(want))
	}
}

func wantKeys(t *testing.T, s objstore.Store, prefix string, want ...string) {
	t.Helper()
	entries, _ := must.Get2(s.List(t.Context(), objstore.ListOptions{Prefix: prefix}))(t)
	var got []string
	for _, e := range entries {
		got = append(got, e.Key)
	}
	must.Equalf(t, fmt.Sprint(got), fmt.Sprint(want), "list %q: %v, want %v", prefix, got, want)
}

func TestJournalTakeover(t *testing.T) {
	dir := t.TempDir()
	a := openDisk(t, dir, objstore.DiskOptions{})
	own(t, a, "wal/1-a")
	for i := range 100 {
		mustPut(t, a, fmt.Sprintf("wal/1-a/%03d", i), fmt.Sprint("value ", i))
	}
	b := openDisk(t, dir, objstore.DiskOptions{})
	wantGet(t, b, "wal/1-a/099", "value 99")
	size := func() int64 {
		t.Helper()
		info := must.Get(os.Stat(filepath.Join(dir, journal.Files("wal/1-a"), "00000001")))(t)
		return info.Size()
	}
	prepared := size()
	must.ErrorIsf(t, b.Put(t.Context(), "wal/1-a/099", objstore.NewBody([]byte("seal"))), objstore.ErrExists, "put a name of the journal")
	mustPut(t, b, "wal/1-a/100", "seal")
	if got := size(); got != 101*journal.BlockBytes || prepared <= got {
		t.Errorf("the journal file has %d bytes after its end and %d before it, want %d after it", got, prepared, 101*journal.BlockBytes)
	}
	must.ErrorIsf(t, a.Put(t.Context(), "wal/1-a/100", objstore.NewBody([]byte("late"))), objstore.ErrExists, "put a name that the other process has")
	mustPut(t, a, "wal/1-a/101", "late") // a fenced leader may put names that nothing reads
	own(t, b, "wal/2-b")
	mustPut(t, b, "wal/2-b/000", "next epoch")
	for _, s := range []*objstore.Disk{a, b, openDisk(t, dir, objstore.DiskOptions{Existing: true})} {
		wantGet(t, s, "wal/1-a/000", "value 0")
		wantGet(t, s, "wal/1-a/100", "seal")
		wantGet(t, s, "wal/1-a/101", "late")
		wantGet(t, s, "wal/2-b/000", "next epoch")
		wantKeys(t, s, "wal/1-a/09", "wal/1-a/090", "wal/1-a/091", "wal/1-a/092", "wal/1-a/093", "wal/1-a/094", "wal/1-a/095",
			"wal/1-a/096", "wal/1-a/097", "wal/1-a/098", "wal/1-a/099")
		wantKeys(t, s, "wal/1-a/1", "wal/1-a/100", "wal/1-a/101")
		wantKeys(t, s, "wal/2", "wal/2-b/000")
		if damage, err := s.Damage(t.Context(), ""); err != nil || len(damage) > 0 {
			t.Errorf("damage %v, %v", damage, err)
		}
	}
}

// TestJournalClaimAlone: the owner was killed after the claim, and another process has put a name.
func TestJournalClaimAlone(t *testing.T) {
	dir := t.TempDir()
	own(t, openDisk(t, dir, objstore.DiskOptions{}), "wal/1-a")
	must.NoError(t, os.RemoveAll(filepath.Join(dir, journal.Files("wal/1-a"))))
	mustPut(t, openDisk(t, dir, objstore.DiskOptions{}), "wal/1-a/0", "seal")
	other := openDisk(t, dir, objstore.DiskOptions{})
	wantKeys(t, other, "wal/", "wal/1-a/0")
	wantGet(t, other, "wal/1-a/0", "seal")
}

func TestJournalOwn(t *testing.T) {
	t.Run("a folder with objects", func(t *testing.T) {
		d := openDisk(t, t.TempDir(), objstore.DiskOptions{})
		mustPut(t, d, "wal/1-a/0", "x")
		must.ErrorIs(t, d.Own(t.Context(), "wal/1-a"), objstore.ErrExists)
		mustPut(t, d, "wal/1-a/1", "y")
	})
	t.Run("a claimed folder", func(t *testing.T) {
		dir := t.TempDir()
		d := openDisk(t, dir, objstore.DiskOptions{})
		own(t, d, "wal/1-a")
		must.ErrorIs(t, openDisk(t, dir, objstore.DiskOptions{}).Own(t.Context(), "wal/1-a"), objstore.ErrExists)
		mustPut(t, d, "wal/1-a/0", "x")
	})
	t.Run("without journals", func(t *testing.T) {
		d := openDisk(t, t.TempDir(), objstore.DiskOptions{NoJournal: true})
		must.ErrorIs(t, d.Own(t.Context(), "wal/1-a"), objstore.ErrUnsuitable)
		mustPut(t, d, "wal/1-a/0", "x")
	})
	t.Run("the claim is no object", func(t *testing.T) {
		d := openDisk(t, t.TempDir(), objstore.DiskOptions{})
		own(t, d, "wal/1-a")
		check.ErrorIsf(t, check.Err(d.Get(t.Context(), "wal/1-a", objstore.Whole)), objstore.ErrNotFound, "get")
		check.ErrorIsf(t, d.Put(t.Context(), "wal/1-a", objstore.NewBody(nil)), objstore.ErrRefused, "put")
		check.NoErrorf(t, d.Delete(t.Context(), "wal/1-a"), "delete")
		mustPut(t, d, "wal/1-a/0", "x")
		wantKeys(t, openDisk(t, d.String()[len("file:"):], objstore.DiskOptions{}), "", "wal/1-a/0")
	})
}

// TestJournalLarge stores objects around the limit above which an object is a file of its own.
func TestJournalLarge(t *testing.T) {
	dir := t.TempDir()
	d := openDisk(t, dir, objstore.DiskOptions{})
	own(t, d, "wal/1-a")
	values := map[string]string{}
	for i, size := range []int{0, 1, 4095, 4096, 4097, 1<<20 - 1, 1 << 20, 1<<20 + 1, 5 << 20} {
		key := fmt.Sprintf("wal/1-a/%d", i)
		values[key] = strings.Repeat(string(rune('a'+i)), size)
		mustPut(t, d, key, values[key])
		must.ErrorIsf(t, d.Put(t.Context(), key, objstore.NewBody([]byte("other"))), objstore.ErrExists, "put %s again", key)
	}
	for _, s := range []objstore.Store{d, openDisk(t, dir, objstore.DiskOptions{})} {
		for key, value := range values {
			wantGet(t, s, key, value)
		}
	}
	must.NoError(t, d.Delete(t.Context(), "wal/1-a/7", "wal/1-a/8"))
	left, err := os.ReadDir(filepath.Join(dir, journal.Large("wal/1-a", "")))
	if err != nil || len(left) != 0 {
		t.Fatalf("files of deleted objects: %v, %v", left, err)
	}
}

// TestJournalFilesAreSwept appends the tombstones of all objects, as a process does that is killed
// before it removes the file, and lists the folder.
func TestJournalFilesAreSwept(t *testing.T) {
	dir := t.TempDir()
	d := openDisk(t, dir, objstore.DiskOptions{NoSync: true})
	own(t, d, "wal/1-a")
	mustPut(t, d, "wal/1-a/0", "x")
	file := filepath.Join(dir, journal.Files("wal/1-a"), "00000001")
	before := must.Get(os.ReadFile(file))(t)
	must.NoError(t, d.Delete(t.Context(), "wal/1-a/0"))
	must.NoError(t, d.Close())
	if got, err := os.ReadFile(file); err != nil || string(got) != string(before[:2*journal.BlockBytes]) {
		t.Fatalf("the file of a deleted object: %d bytes, %v; want its batch and a free block", len(got), err)
	}
	wantKeys(t, openDisk(t, dir, objstore.DiskOptions{Existing: true}), "")
	must.NoErrorf(t, check.Err(os.Stat(file)), "a reader removed it")
	wantKeys(t, openDisk(t, dir, objstore.DiskOptions{}), "")
	must.ErrorIsf(t, check.Err(os.Stat(file)), os.ErrNotExist, "a journal file without objects is still there after a list")
}

// TestJournalFilesAreFreed fills several journal files and deletes everything.
func TestJournalFilesAreFreed(t *testing.T) {
	dir := t.TempDir()
	d := openDisk(t, dir, objstore.DiskOptions{NoSync: true})
	own(t, d, "wal/1-a")
	var keys []string
	value := strings.Repeat("x", 100_000)
	for i := range 300 {
		keys = append(keys, fmt.Sprintf("wal/1-a/%04d", i))
		mustPut(t, d, keys[i], value)
	}
	open := must.Get(d.Get(t.Context(), keys[0], objstore.Whole))(t)
	defer open.Body.Close()
	files := func() (n int) {
		found, err := os.ReadDir(filepath.Join(dir, journal.Files("wal/1-a")))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		return len(found)
	}
	before := files()
	if before < 4 {
		t.Fatalf("%d journal files for 30 MB", before)
	}
	must.NoError(t, d.Delete(t.Context(), keys[:290]...))
	if n := files(); n >= before {
		t.Fatalf("%d files after 290 of 300 objects were deleted, %d before", n, before)
	}
	if b, err := io.ReadAll(open.Body); err != nil || string(b) != value {
		t.Fatalf("an open object whose file was removed: %d bytes, %v", len(b), err)
	}
	other := openDisk(t, dir, objstore.DiskOptions{})
	wantKeys(t, other, "", keys[290:]...)
	mustPut(t, other, "wal/1-a/seal", "s")
	must.NoError(t, other.Delete(t.Context(), keys...))
	must.Equalf(t, files(), 0, "files after everything was deleted")
	wantKeys(t, openDisk(t, dir, objstore.DiskOptions{}), "", "wal/1-a/seal")
}
