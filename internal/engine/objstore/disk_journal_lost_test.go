package objstore

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/engine/objstore/journal"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// unended is what a killed process leaves of a journal of several files: no end names what was stored.
type unended struct {
	t       *testing.T
	dir     string
	objects int
	files   []string // journal files, the last one is in use
	used    []int64  // bytes of them in use
}

const unendedFolder = "wal/1-a"

func newUnended(t *testing.T, objects int) *unended { return newLeft(t, objects, false) }

// newLeft is what a process leaves that was killed, or has closed its journal.
func newLeft(t *testing.T, objects int, closed bool) *unended {
	t.Helper()
	from := memoryDir(t)
	d := tempDisk(t, from)
	d.sizes, d.inline = smallJournals, 6000
	ownFor(t, d, unendedFolder)
	for i := range objects {
		mustPut(t, d, unendedKey(i), unendedValue(i))
	}
	if closed {
		must.NoError(t, d.Close())
	}
	u := (&unended{t: t, dir: from, objects: objects}).copy(t)
	must.NoError(t, d.Close())
	for n := 1; ; n++ {
		name := fmt.Sprintf("%s/%08d", journal.Files(unendedFolder), n)
		content, err := os.ReadFile(u.path(name))
		used := int64(len(bytes.TrimRight(content, "\x00")))
		if err != nil || used == 0 { // prepared
			return u
		}
		u.files, u.used = append(u.files, name), append(u.used, used)
	}
}

func (u *unended) path(name string) string { return filepath.Join(u.dir, name) }

func (u *unended) copy(t *testing.T) *unended {
	t.Helper()
	c := *u
	c.t, c.dir = t, filepath.Join(memoryDir(t), "copy")
	must.NoError(t, os.CopyFS(c.dir, os.DirFS(u.dir)))
	return &c
}

// open opens the bucket as another process does.
func (u *unended) open() *Disk {
	u.t.Helper()
	d := must.Get(OpenDisk(u.dir, DiskOptions{NoSync: true}))(u.t)
	u.t.Cleanup(func() { check.NoError(u.t, d.Close()) })
	return d
}

func unendedKey(i int) string { return fmt.Sprintf("%s/%02d", unendedFolder, i) }

func unendedValue(i int) string { return strings.Repeat(string(rune('a'+i)), 100+1500*(i%4)) }

// names checks that a new process names the damage, and reports a name that was never put as damaged.
// After the end only the content of the last object shows that its body is damaged, as for each other.
func (u *unended) names(d *Disk, when string) {
	u.t.Helper()
	last := u.objects - 1
	if got, err := readString(u.t, d, unendedKey(last)); err == nil && got != unendedValue(last) && strings.Contains(when, "end") {
		return
	}
	found, err := d.Damage(u.t.Context(), "wal/")
	lost := false
	for _, f := range found {
		lost = lost || f.Lost && f.Folder == unendedFolder && f.Bytes > 0 && strings.Contains(f.Err.Error(), unendedFolder+"+journal/")
	}
	if err != nil || !lost {
		u.t.Errorf("%s: damage %v, %v; want one in which objects are lost", when, found, err)
	}
	if _, err := d.Get(u.t.Context(), unendedFolder+"/99", Whole); !errors.Is(err, ErrDamaged) {
		u.t.Errorf("%s: a name behind the damage: %v, want %v", when, err, ErrDamaged)
	}
}

// lose damages copies of the journal, and checks that each process names it: one that only reads, one
// that reads after another one has died between the mark and the end, one after a recovery.
func (u *unended) lose(what string, spoil func(*unended)) {
	u.t.Run(what, func(t *testing.T) {
		d := u.copy(t)
		spoil(d)
		d.names(d.open(), "a reader")

		marked := u.copy(t)
		spoil(marked)
		must.NoError(t, os.MkdirAll(marked.path(journal.Late(unendedFolder)), 0o700))
		marked.names(marked.open(), "the first process that finds the mark")
		marked.names(marked.open(), "the second process, after the end")

		by := d.open()
		_, _ = by.Get(t.Context(), unendedFolder+"/99", Whole) // a recovery reads first
		mustPut(t, by, unendedFolder+"/99.recovery", "seal")
		d.names(by, "the process of a recovery")
		d.names(d.open(), "a reader after the end of a recovery")
		if got := must.Get(readString(t, d.open(), unendedFolder+"/99.recovery"))(t); got != "seal" {
			t.Errorf("the object of the recovery is %q", got)
		}
	})
}

func (u *unended) edit(name string, change func([]byte) []byte) {
	u.t.Helper()
	content := must.Get(os.ReadFile(u.path(name)))(u.t)
	must.NoError(u.t, os.WriteFile(u.path(name), change(content), 0o600))
}

// places are offsets in the used part of each file, among them the starts and ends of blocks.
func (u *unended) places(n int64, try func(file string, at int64)) {
	for i, file := range u.files {
		for k := range n {
			at := u.used[i] * k / n
			if k%3 == 0 {
				at -= at % journal.BlockBytes
			}
			try(file, at)
		}
	}
}

// TestLossInAJournalWithoutAnEnd: the end of a log is not inferred from what is missing.
func TestLossInAJournalWithoutAnEnd(t *testing.T) {
	t.Parallel()
	u := newUnended(t, 16)
	if len(u.files) < 3 {
		t.Fatalf("%d files", len(u.files))
	}
	n := int64(sebtest.Runs(17, 6))
	u.places(n, func(file string, at int64) {
		u.lose(fmt.Sprintf("%s is cut off at %d", file, at), func(u *unended) { must.NoError(t, os.Truncate(u.path(file), at)) })
		u.lose(fmt.Sprintf("%s is zero from %d", file, at), func(u *unended) {
			u.edit(file, func(b []byte) []byte { clear(b[at:]); return b })
		})
	})
	last, other := u.files[len(u.files)-1], newUnended(t, 16)
	for k := range n {
		start := (u.used[len(u.used)-1] - 1) &^ (journal.BlockBytes - 1)
		start -= journal.BlockBytes // the last object takes two blocks
		at := start + (u.used[len(u.used)-1]-start)*k/n
		u.lose(fmt.Sprintf("a bit in byte %d of the last batch is flipped", at-start), func(u *unended) {
			u.edit(last, func(b []byte) []byte { b[at] ^= 1; return b })
		})
	}
	for i, file := range u.files {
		if i > 0 && i < len(u.files)-1 {
			continue // between others, it looks like a file whose objects were deleted; the log has a gap there
		}
		if i > 0 {
			u.lose(file+" is removed", func(u *unended) { must.NoError(t, os.Remove(u.path(file))) })
		}
		u.lose(file+" is replaced", func(u *unended) {
			u.edit(file, func([]byte) []byte { return must.Get(os.ReadFile(other.path(file)))(t) })
		})
	}
	for _, name := range []string{"", unendedFolder} {
		u.lose("the folder and "+name+" are removed", func(u *unended) {
			must.NoError(t, os.RemoveAll(u.path(journal.Files(unendedFolder))))
			if name != "" {
				must.NoError(t, os.Remove(u.path(name)))
			}
		})
	}
	u.lose("all files are removed", func(u *unended) {
		must.NoError(t, errors.Join(os.RemoveAll(u.path(journal.Files(unendedFolder))), os.Mkdir(u.path(journal.Files(unendedFolder)), 0o700)))
	})
}

// TestLossWithoutAPosition: a journal of an older version has no position. A file that was cut off in its
// used part, or that is missing behind an end mark, is damage nevertheless.
func TestLossWithoutAPosition(t *testing.T) {
	t.Parallel()
	u := newUnended(t, 16)
	must.NoError(t, os.Remove(u.path(journal.PositionFile(unendedFolder))))
	u.places(int64(sebtest.Runs(17, 6)), func(file string, at int64) {
		u.lose(fmt.Sprintf("%s is cut off at %d", file, at), func(u *unended) { must.NoError(t, os.Truncate(u.path(file), at)) })
	})
	last := u.files[len(u.files)-1]
	u.lose("the last file is removed", func(u *unended) { must.NoError(t, os.Remove(u.path(last))) })
}

// TestLostFilesOfAnEndedJournal: the end names a file that is lost. A file whose objects were deleted is
// not.
func TestLostFilesOfAnEndedJournal(t *testing.T) {
	t.Parallel()
	u := newLeft(t, 16, true)
	last := u.files[len(u.files)-1]
	lost := map[string]func(*unended){
		"the last file is removed": func(u *unended) { must.NoError(t, os.Remove(u.path(last))) },
		"the folder is removed":    func(u *unended) { must.NoError(t, os.RemoveAll(u.path(journal.Files(unendedFolder)))) },
	}
	for what, spoil := range lost {
		t.Run(what, func(t *testing.T) {
			d := u.copy(t)
			spoil(d)
			d.names(d.open(), "a reader")
			d.names(d.open(), "another reader")
		})
	}
	d := u.open()
	var keys []string
	for i := range u.objects {
		keys = append(keys, unendedKey(i))
	}
	must.NoError(t, d.Delete(t.Context(), keys...))
	must.ErrorIsf(t, check.Err(os.Stat(u.path(last))), os.ErrNotExist, "the last file without objects")
	if found, err := u.open().Damage(t.Context(), ""); err != nil || len(found) > 0 {
		t.Errorf("all objects were deleted: damage %v, %v", found, err)
	}
}

// TestHealthyJournalWithoutAnEnd: a killed process leaves no damage, and a cut in unused space is none.
func TestHealthyJournalWithoutAnEnd(t *testing.T) {
	t.Parallel()
	for objects := range 17 {
		for _, what := range []string{"killed", "marked", "cut in unused space", "without a position", "with an empty position file", "ended"} {
			t.Run(fmt.Sprintf("%d objects, %s", objects, what), func(t *testing.T) {
				u := newUnended(t, objects)
				position := u.path(journal.PositionFile(unendedFolder))
				switch what {
				case "marked":
					must.NoError(t, os.Mkdir(u.path(journal.Late(unendedFolder)), 0o700))
				case "cut in unused space":
					for i, file := range u.files {
						must.NoError(t, os.Truncate(u.path(file), (u.used[i]+2*journal.BlockBytes-1)&^(journal.BlockBytes-1)))
					}
				case "without a position":
					must.NoError(t, os.Remove(position))
				case "with an empty position file":
					must.NoError(t, os.WriteFile(position, make([]byte, 1024), 0o600))
				case "ended":
					mustPut(t, u.open(), unendedFolder+"/99", "seal")
					if _, err := os.Stat(position); !errors.Is(err, os.ErrNotExist) {
						t.Errorf("the position file remains after the end: %v", err)
					}
				}
				for _, by := range []string{"a reader", "a writer"} {
					d := u.open()
					if by == "a writer" {
						_ = putString(t, d, unendedFolder+"/99", "seal")
					}
					entries, _, err := d.List(t.Context(), ListOptions{Prefix: unendedFolder + "/0"})
					if want := min(objects, 10); err != nil || len(entries) != want {
						t.Errorf("%s: %d names, %v; want %d", by, len(entries), err, want)
					}
					if found, err := d.Damage(t.Context(), ""); err != nil || len(found) > 0 {
						t.Errorf("%s: damage %v, %v", by, found, err)
					}
				}
			})
		}
	}
}
