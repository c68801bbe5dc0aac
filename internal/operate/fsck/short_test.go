package fsck_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/operate/fsck"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// newLarge makes a bucket with the records 0 to 9 of a/0, and between them a record of a/1 in an object
// of its own of more than 1 MiB. It returns the file of that object, its key, and its size.
func newLarge(t *testing.T, journal bool) (j *journaled, file, key string, size int64) {
	t.Helper()
	j = &journaled{t, t.TempDir()}
	store := must.Get(objstore.OpenDisk(j.dir, objstore.DiskOptions{NoSync: true, NoJournal: !journal}))(t)
	b := open(t, options(store, 1000))
	if journal && !b.Status().Journaled {
		t.Skip("no journals on this file system")
	}
	create(t, b, "a", 2)
	for i := range values {
		if i == values/2 {
			produce(t, b, "a", 1, strings.Repeat("0123456789", 120_000))
		}
		produce(t, b, "a", 0, fmt.Sprintf("value-%d", i))
	}
	closeBroker(t, b)
	for k, n := range keys(t, store) { //tidy:unordered there is one
		if n > 1<<20 {
			key, size = k, n
		}
	}
	must.NoError(t, store.Close())
	file = filepath.Join(j.dir, key)
	if journal {
		file = filepath.Join(j.file("+journal/+large"), filepath.Base(key))
	}
	return j, file, key, size
}

// TestFilesOfAnotherSize changes the size of the file of an object, with and without a journal. A broker
// and a check judge it alike: they continue behind it if its head and index are there. Otherwise both
// name it, and a recovery continues. The check lists everything else too.
func TestFilesOfAnotherSize(t *testing.T) {
	t.Parallel()
	for _, journal := range []bool{true, false} {
		for name, c := range map[string]struct {
			to    func(size int64) int64
			leads bool
			reads bool // the record in the file
		}{
			"to nothing":      {func(int64) int64 { return 0 }, false, false},
			"to 10 bytes":     {func(int64) int64 { return 10 }, false, false},
			"to half":         {func(n int64) int64 { return n / 2 }, true, false},
			"by a byte":       {func(n int64) int64 { return n - 1 }, true, false},
			"longer by bytes": {func(n int64) int64 { return n + 7 }, true, true},
		} {
			t.Run(fmt.Sprintf("%s/journal %t", name, journal), func(t *testing.T) {
				t.Parallel()
				j, file, key, size := newLarge(t, journal)
				must.NoError(t, os.Truncate(file, c.to(size)))

				want := "corrupt batches " + key + ": "
				if !c.leads {
					want = "corrupt object " + key + ": "
				}
				j.finds(want)
				s := j.open()
				_, err := fsck.FindSecrets(t.Context(), fsck.Options{Store: s})
				if c.leads != (err == nil) || err != nil && !errors.Is(err, fsck.ErrDamaged) {
					t.Errorf("secrets: %v", err)
				}
				_, err = fsck.Backup(t.Context(), fsck.CopyOptions{From: s, To: objstore.NewMemory()})
				if errors.Is(err, objstore.ErrNoVerdict) || !errors.Is(err, record.ErrCorrupt) || !strings.Contains(err.Error(), key) {
					t.Errorf("backup: %v", err)
				}
				must.NoError(t, s.Close())

				if !c.leads {
					lost := j.refuses(key)
					must.Get(fsck.Recover(t.Context(), fsck.RecoverOptions{Store: j.open(), Accept: &lost.Pos}))(t)
					j.reads(upTo(values / 2)...)
					return
				}
				b := open(t, options(j.open(), 1000))
				defer kill(b)
				got := readAll(t, b)
				for i := range values {
					check.Equalf(t, got.values[fmt.Sprintf("a/0@%d", i)], fmt.Sprintf("value-%d", i), "record %d of another object", i)
				}
				_, there := got.values["a/1@0"]
				check.Equalf(t, there, c.reads, "the record is served")
				if !c.reads {
					check.ErrorIs(t, got.errs["a/1"], state.ErrCorrupt)
				}
				produce(t, b, "a", 0, "later")
			})
		}
	}
}

// TestCheckContinuesBehindACutFile: the damage of a file does not hide that of others.
func TestCheckContinuesBehindACutFile(t *testing.T) {
	t.Parallel()
	for _, to := range []int64{100, 600_000} {
		j, file, key, _ := newLarge(t, true)
		must.NoError(t, os.Truncate(file, to))
		j.flip("+journal/00000001", body(2))
		j.flip("+journal/00000001", body(8))
		store := j.open()
		_, found := must.Get2(verify(t, fsck.Options{Store: store}))(t)
		kinds := map[string]int{}
		for _, f := range found {
			kinds[f.Kind]++
			if f.Key == key && f.Kind == "corrupt batches" && (len(f.Lost) != 1 || !strings.Contains(f.Text, fmt.Sprint(to))) {
				t.Errorf("%+v", f)
			}
		}
		want := map[string]int{"corrupt object": 1, "corrupt batches": 1, "unreachable": values/2 + 1, "lost records": 1}
		if to > 100 {
			want = map[string]int{"corrupt batches": 3}
		}
		check.Equalf(t, fmt.Sprint(kinds), fmt.Sprint(want), "findings of a file of %d bytes: %+v", to, found)
	}
}
