package objstore_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

const (
	shortKey   = "wal/1-a/0"
	largeFile  = "wal/1-a+journal/+large/0"
	largeBytes = 1<<20 + 5004
)

// fileOf stores an object of largeBytes bytes and returns the folder, the file that the object is in,
// and its value.
func fileOf(t *testing.T, journaled bool) (dir, file, value string) {
	t.Helper()
	dir, value = memory(t), strings.Repeat("0123456789", largeBytes/10)
	s := must.Get(objstore.OpenDisk(dir, objstore.DiskOptions{NoSync: true}))(t)
	file = shortKey
	if journaled {
		own(t, s, "wal/1-a")
		file = largeFile
	}
	mustPut(t, s, shortKey, value)
	must.NoError(t, s.Close())
	return dir, filepath.Join(dir, file), value
}

// TestFilesOfAnotherSize: an object whose file has lost bytes has the bytes that are left, with and
// without a journal. A range behind them is an error that repeating does not end.
func TestFilesOfAnotherSize(t *testing.T) {
	for _, journaled := range []bool{false, true} {
		dir, file, value := fileOf(t, journaled)
		for _, size := range []int{largeBytes + 7, largeBytes - 1, largeBytes / 2, 10, 0} {
			t.Run(fmt.Sprintf("journal %t/%d bytes", journaled, size), func(t *testing.T) {
				must.NoError(t, os.Truncate(file, int64(size)))
				s := openDisk(t, dir, objstore.DiskOptions{Existing: true})
				o := must.Get(s.Get(t.Context(), shortKey, objstore.Whole))(t)
				got, err := io.ReadAll(o.Body)
				must.NoError(t, errors.Join(err, o.Body.Close()))
				check.Equalf(t, o.Size, int64(size), "size")
				check.Equalf(t, len(got), size, "bytes")
				left := min(size, largeBytes)
				check.Equalf(t, string(got[:left]) == value[:left], true, "the bytes that are left are those of the object")

				_, err = s.Get(t.Context(), shortKey, objstore.Range{Offset: largeBytes - 1, Length: 1})
				switch {
				case size >= largeBytes:
					check.NoError(t, err)
				case !errors.Is(err, objstore.ErrRefused) || !errors.Is(err, objstore.ErrOutOfRange) || errors.Is(err, objstore.ErrNoVerdict):
					t.Errorf("the last byte: %v", err)
				case journaled:
					check.ErrorIs(t, err, objstore.ErrDamaged)
					if text := err.Error(); !strings.Contains(text, largeFile) || !strings.Contains(text, fmt.Sprint(largeBytes)) || !strings.Contains(text, fmt.Sprint(size)) {
						t.Errorf("the error names neither file nor sizes: %v", err)
					}
				}
				_, err = s.Get(t.Context(), shortKey, objstore.Range{Offset: largeBytes + 100, Length: 1})
				if !errors.Is(err, objstore.ErrOutOfRange) || errors.Is(err, objstore.ErrDamaged) {
					t.Errorf("a range behind the object: %v", err)
				}
			})
		}
	}
}

// TestJournalFilesThatShrink: an object in a part that a journal file has lost is damaged, for the
// process that owns the journal and for one that has read it before.
func TestJournalFilesThatShrink(t *testing.T) {
	d := &damagedJournal{t: t, dir: memory(t), folder: "wal/1-a"}
	owner := openDisk(t, d.dir, objstore.DiskOptions{NoSync: true})
	own(t, owner, d.folder)
	for i := range 3 {
		mustPut(t, owner, d.key(i), d.value(i))
	}
	reader := openDisk(t, d.dir, objstore.DiskOptions{Existing: true, NoSync: true})
	wantGet(t, reader, d.key(2), d.value(2))
	must.NoError(t, os.Truncate(d.file(firstFile), 2*batchBytes+1000))
	for name, s := range map[string]*objstore.Disk{"owner": owner, "reader": reader} {
		wantGet(t, s, d.key(1), d.value(1))
		for _, r := range []objstore.Range{objstore.Whole, {Length: 10}, {Offset: 4999, Length: 1}} {
			_, err := s.Get(t.Context(), d.key(2), r)
			if !errors.Is(err, objstore.ErrDamaged) || errors.Is(err, objstore.ErrNoVerdict) || !strings.Contains(err.Error(), firstFile+" has 17384 bytes") {
				t.Errorf("%s, %+v: %v", name, r, err)
			}
		}
	}
}

// TestFilesThatShrinkWhileOpen: a file that has lost bytes after it was opened is damaged. A deleted one
// keeps its bytes.
func TestFilesThatShrinkWhileOpen(t *testing.T) {
	for _, journaled := range []bool{false, true} {
		dir, file, value := fileOf(t, journaled)
		s := openDisk(t, dir, objstore.DiskOptions{NoSync: true})
		open := func() io.ReadCloser {
			t.Helper()
			o := must.Get(s.Get(t.Context(), shortKey, objstore.Whole))(t)
			t.Cleanup(func() { _ = o.Body.Close() })
			return o.Body
		}
		deleted, read, sent := open(), open(), open()
		kept := file + "-kept"
		must.NoError(t, os.Link(file, kept))
		must.NoError(t, s.Delete(t.Context(), shortKey))
		check.Equalf(t, string(must.Get(io.ReadAll(deleted))(t)) == value, true, "a deleted object is read to its end")
		must.NoError(t, os.Truncate(kept, 1000))
		n, err := io.Copy(io.Discard, io.MultiReader(read)) // MultiReader hides WriteTo
		check.Equalf(t, n, int64(1000), "bytes read")
		check.ErrorIs(t, err, objstore.ErrDamaged)
		n, err = sent.(io.WriterTo).WriteTo(io.Discard)
		check.Equalf(t, n, int64(1000), "bytes sent")
		check.ErrorIs(t, err, objstore.ErrDamaged)
		if errors.Is(err, objstore.ErrNoVerdict) || !strings.Contains(err.Error(), fmt.Sprintf("ends before byte %d", largeBytes)) {
			t.Error(err)
		}
	}
}
