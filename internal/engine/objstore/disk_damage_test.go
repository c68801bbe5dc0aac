package objstore_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/engine/objstore/journal"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// damagedJournal is a bucket with the objects 00 to 09 of 5,000 bytes in a folder with a journal: each
// of them is a batch of 8,192 bytes, from offset 0 on. Object 03 is deleted.
type damagedJournal struct {
	t      *testing.T
	dir    string
	folder string
	ended  bool // the process that wrote it has closed it
}

func (d *damagedJournal) file(name string) string { return filepath.Join(d.dir, name) }

func (d *damagedJournal) flip(name string, offset int64) {
	d.t.Helper()
	f := must.Get(os.OpenFile(d.file(name), os.O_RDWR, 0))(d.t)
	b := make([]byte, 1)
	must.NoError(d.t, check.Err(f.ReadAt(b, offset)))
	b[0] ^= 1
	must.NoError(d.t, errors.Join(check.Err(f.WriteAt(b, offset)), f.Close()))
}

func (d *damagedJournal) remove(name string) {
	d.t.Helper()
	must.NoError(d.t, os.RemoveAll(d.file(name)))
}

func newDamagedJournal(t *testing.T, ended bool) *damagedJournal {
	d := &damagedJournal{t: t, dir: memory(t), folder: "wal/1-a", ended: ended}
	store := must.Get(objstore.OpenDisk(d.dir, objstore.DiskOptions{NoSync: true}))(t)
	own(t, store, d.folder)
	for i := range 10 {
		mustPut(t, store, d.key(i), d.value(i))
	}
	must.NoError(t, store.Delete(t.Context(), d.key(3)))
	if ended {
		must.NoError(t, store.Close())
		return d
	}
	// What a killed process leaves is what a running one has.
	killed := d.copy(t)
	must.NoError(t, store.Close())
	return killed
}

func (d *damagedJournal) copy(t *testing.T) *damagedJournal {
	t.Helper()
	c := *d
	c.t, c.dir = t, memory(t)
	must.NoError(t, os.CopyFS(c.dir, os.DirFS(d.dir)))
	return &c
}

func (d *damagedJournal) key(i int) string   { return fmt.Sprintf("%s/%02d", d.folder, i) }
func (d *damagedJournal) value(i int) string { return strings.Repeat(fmt.Sprint(i), 5000) }

// damageCase is a kind of damage and its consequences.
type damageCase struct {
	spoil    func(d *damagedJournal)
	lost     []int  // objects that return ErrDamaged
	wrong    []int  // objects with another content, which their reader must notice
	absent   []int  // objects that return ErrNotFound
	back     []int  // deleted objects that exist again
	reported string // "": nothing
	whole    bool   // a name that was never put returns ErrNotFound
	only     string // "ended" or "running"; "" both
}

const (
	firstFile  = "wal/1-a+journal/00000001"
	claimFile  = "wal/1-a"
	endFile    = "wal/1-a+late/+end"
	batchBytes = 8192

	positionFile = "wal/1-a+position"
	lastDamaged  = firstFile + ": 8192 bytes at offset 73728 are damaged: the journal was stored to file 1 offset 81920"
)

var damageCases = map[string]damageCase{
	"nothing": {spoil: func(*damagedJournal) {}, whole: true},
	"a body": {
		spoil: func(d *damagedJournal) { d.flip(firstFile, 2*batchBytes+1000) }, wrong: []int{2}, whole: true,
	},
	"a head": {
		spoil: func(d *damagedJournal) { d.flip(firstFile, 2*batchBytes+50) }, lost: []int{2},
		reported: firstFile + ": 8192 bytes at offset 16384 are damaged",
	},
	"the magic of a head": {
		spoil: func(d *damagedJournal) { d.flip(firstFile, 2*batchBytes) }, lost: []int{2},
		reported: firstFile + ": 8192 bytes at offset 16384 are damaged",
	},
	"a table": {
		spoil: func(d *damagedJournal) { d.flip(firstFile, 2*batchBytes+81) }, lost: []int{2},
		reported: firstFile + ": 8192 bytes at offset 16384 are damaged",
	},
	"two heads": {
		spoil: func(d *damagedJournal) { d.flip(firstFile, 4*batchBytes); d.flip(firstFile, 5*batchBytes) }, lost: []int{4, 5},
		reported: firstFile + ": 16384 bytes at offset 32768 are damaged",
	},
	"the first head": {
		spoil: func(d *damagedJournal) { d.flip(firstFile, 0) }, lost: []int{0},
		reported: firstFile + ": 8192 bytes at offset 0 are damaged",
	},
	"the last head, with an end": {
		spoil: func(d *damagedJournal) { d.flip(firstFile, 9*batchBytes) }, lost: []int{9}, only: "ended",
		reported: firstFile + ": 8192 bytes at offset 73728 are damaged",
	},
	"the last head, without an end": {
		spoil: func(d *damagedJournal) { d.flip(firstFile, 9*batchBytes) }, lost: []int{9}, only: "running", reported: lastDamaged,
	},
	"the last head, without a position": { // of an older version; it looks like a torn write
		spoil: func(d *damagedJournal) { d.remove(positionFile); d.flip(firstFile, 9*batchBytes) }, absent: []int{9}, only: "running", whole: true,
	},
	"the last body, with an end": {
		spoil: func(d *damagedJournal) { d.flip(firstFile, 9*batchBytes+1000) }, wrong: []int{9}, only: "ended", whole: true,
	},
	"the last body, without an end": {
		spoil: func(d *damagedJournal) { d.flip(firstFile, 9*batchBytes+1000) }, lost: []int{9}, only: "running", reported: lastDamaged,
	},
	"the last body, without a position": {
		spoil: func(d *damagedJournal) { d.remove(positionFile); d.flip(firstFile, 9*batchBytes+1000) }, absent: []int{9}, only: "running", whole: true,
	},
	"the file is cut off": {
		spoil: func(d *damagedJournal) {
			must.NoError(d.t, os.Truncate(d.file(firstFile), 8*batchBytes+100))
		}, lost: []int{8, 9}, only: "ended", reported: firstFile + ": 16384 bytes at offset 65536 are damaged",
	},
	"the zeros behind a batch": {spoil: func(d *damagedJournal) { d.flip(firstFile, batchBytes-1) }, whole: true},
	"unused space": { // a file of an ended journal has none
		spoil: func(d *damagedJournal) { d.flip(firstFile, 20*batchBytes+5000) }, only: "running", whole: true,
	},
	"the claim": {
		spoil: func(d *damagedJournal) { d.flip(claimFile, 20) }, whole: true, reported: claimFile + ": claim is damaged: its content is invalid",
	},
	"the claim is missing": {
		spoil: func(d *damagedJournal) {
			must.NoError(d.t, os.Remove(d.file(claimFile)))
		}, whole: true, reported: claimFile + ": claim is damaged: the file is missing",
	},
	"the claim and the first head": {
		spoil: func(d *damagedJournal) { d.flip(claimFile, 20); d.flip(firstFile, 0) }, lost: []int{0},
		reported: claimFile + ": claim is damaged: its content is invalid\n" + firstFile + ": 8192 bytes at offset 0 are damaged",
	},
	"the end": {
		spoil: func(d *damagedJournal) { d.flip(endFile, 60) }, only: "ended", whole: true, reported: endFile + ": end is damaged: ",
	},
	"the end is missing": { // as after a kill before it had a name
		spoil: func(d *damagedJournal) { d.remove(endFile) }, only: "ended", whole: true,
	},
	"the end is missing, and the file was cut off at it": { // by an older version, or because it lost objects
		spoil: func(d *damagedJournal) {
			d.remove(endFile)
			must.NoError(d.t, os.Truncate(d.file(firstFile), 10*batchBytes))
		}, lost: []int{}, only: "ended", reported: firstFile + ": 4096 bytes at offset 81920 are damaged: the file was cut off",
	},
	"the file is cut off behind a batch": { // without a mark nothing says that the journal has ended
		spoil: func(d *damagedJournal) {
			d.remove(positionFile)
			must.NoError(d.t, os.Truncate(d.file(firstFile), 10*batchBytes))
		}, lost: []int{}, only: "running", reported: firstFile + ": 4096 bytes at offset 81920 are damaged: the file was cut off",
	},
	"a tombstone": {
		spoil: func(d *damagedJournal) { d.flip(firstFile+".gone", 9) }, back: []int{3}, whole: true,
	},
}

// TestDamageInJournals damages each part of a journal, ended and not ended, and checks which objects
// can be read, what the others return, and what is reported. Each case is checked by a process that
// only reads and by one that ends the journal.
func TestDamageInJournals(t *testing.T) {
	for _, state := range []string{"ended", "running"} {
		journal := newDamagedJournal(t, state == "ended")
		for name, c := range damageCases {
			if c.only != "" && c.only != state {
				continue
			}
			for _, by := range []string{"a reader", "a writer"} {
				t.Run(fmt.Sprintf("%s/%s/%s", name, state, by), func(t *testing.T) {
					d := journal.copy(t)
					c.spoil(d)
					s := openDisk(t, d.dir, objstore.DiskOptions{Existing: true, NoSync: true})
					if by == "a writer" {
						// A recovery puts a name that does not exist, and a candidate reads first.
						_, _ = s.Get(t.Context(), d.key(20), objstore.Whole)
						mustPut(t, s, d.folder+"/20.recovery", "seal")
						wantGet(t, s, d.folder+"/20.recovery", "seal")
					}
					d.check(s, c.lost, c.wrong, c.absent, c.back)
					if _, err := s.Get(t.Context(), d.key(20), objstore.Whole); errors.Is(err, objstore.ErrDamaged) == c.whole || errors.Is(err, objstore.ErrNotFound) != c.whole {
						t.Errorf("a name that was never put: %v", err)
					}
					check.ErrorIsf(t, check.Err(s.Get(t.Context(), d.folder, objstore.Whole)), objstore.ErrNotFound, "the claim as an object")
					d.reports(s, c.reported)
				})
			}
		}
	}
}

// check reads and lists all objects.
func (d *damagedJournal) check(s *objstore.Disk, lost, wrong, absent, back []int) {
	t := d.t
	t.Helper()
	in := func(i int, list []int) bool { return strings.Contains(fmt.Sprint(list), fmt.Sprint(i)) }
	var names []string
	for i := range 10 {
		o, err := s.Get(t.Context(), d.key(i), objstore.Whole)
		if err == nil {
			_ = o.Body.Close()
			names = append(names, d.key(i))
		}
		switch {
		case in(i, lost):
			if !errors.Is(err, objstore.ErrDamaged) || !errors.Is(err, objstore.ErrRefused) || !strings.Contains(err.Error(), "+journal/00000001") {
				t.Errorf("%d: %v", i, err)
			}
		case in(i, absent) || i == 3 && !in(i, back):
			if err == nil || !errors.Is(err, objstore.ErrNotFound) && (lost == nil || !errors.Is(err, objstore.ErrDamaged)) {
				t.Errorf("%d: %v", i, err)
			}
		case err != nil:
			t.Errorf("%d: %v", i, err)
		case !in(i, wrong):
			wantGet(t, s, d.key(i), d.value(i))
		}
	}
	wantKeys(t, s, d.folder+"/0", names...)
}

// reports checks the damage that a store reports, one line for each part.
func (d *damagedJournal) reports(s *objstore.Disk, want string) {
	t := d.t
	t.Helper()
	found, err := s.Damage(t.Context(), "wal/")
	var got []string
	for _, f := range found {
		got = append(got, f.Err.Error())
		if f.Folder != d.folder {
			t.Errorf("damage of %s: %+v", f.Folder, f)
		}
	}
	if all := strings.Join(got, "\n"); err != nil || !strings.HasPrefix(all, want) || (want == "") != (all == "") || strings.Count(all, "\n") != strings.Count(want, "\n") {
		t.Errorf("reported %q, %v; want %q", all, err, want)
	}
	if other, err := s.Damage(t.Context(), "snap/"); err != nil || len(other) > 0 {
		t.Errorf("damage of another folder: %v, %v", other, err)
	}
}

// TestRemovedBucketIsNoticed: an append to a file without a name would end with the process.
func TestRemovedBucketIsNoticed(t *testing.T) {
	for _, o := range []objstore.DiskOptions{{}, {NoSync: true}} {
		d := openDisk(t, t.TempDir(), o)
		own(t, d, "wal/1-a")
		mustPut(t, d, "wal/1-a/0", "x")
		must.NoError(t, os.RemoveAll(strings.Split(strings.TrimPrefix(d.String(), "file:"), "?")[0]))
		if err := d.Put(t.Context(), "wal/1-a/1", objstore.NewBody([]byte("y"))); !errors.Is(err, objstore.ErrRefused) || !strings.Contains(err.Error(), "was removed") {
			t.Errorf("put into a removed bucket: %v", err)
		}
		check.ErrorIsf(t, d.BrokenBy(), objstore.ErrBroken, "the store is not broken")
	}
}

// TestOwnerFindsDamage: the owner reads its objects, and reports what another process could not read.
func TestOwnerFindsDamage(t *testing.T) {
	d := &damagedJournal{t: t, dir: t.TempDir(), folder: "wal/1-a"}
	owner := openDisk(t, d.dir, objstore.DiskOptions{NoSync: true})
	own(t, owner, d.folder)
	for i := range 10 {
		mustPut(t, owner, d.key(i), d.value(i))
	}
	d.reports(owner, "")
	file, err := os.OpenFile(d.file(firstFile), os.O_WRONLY, 0)
	if err == nil {
		_, err = file.WriteAt([]byte{'x'}, 2*batchBytes)
	}
	must.NoError(t, errors.Join(err, file.Close()))
	d.reports(owner, firstFile+": 8192 bytes at offset 16384 are damaged")
	wantGet(t, owner, d.key(2), d.value(2))
	mustPut(t, owner, d.key(10), d.value(1))
}

// TestDamagedClaimBeforeAnyObject: the position file names the run, and says that nothing is lost.
func TestDamagedClaimBeforeAnyObject(t *testing.T) {
	d := &damagedJournal{t: t, dir: t.TempDir(), folder: "wal/1-a"}
	own(t, openDisk(t, d.dir, objstore.DiskOptions{NoSync: true}), d.folder)
	d.flip(claimFile, 20)
	s := openDisk(t, d.dir, objstore.DiskOptions{NoSync: true})
	check.ErrorIs(t, check.Err(s.Get(t.Context(), d.key(0), objstore.Whole)), objstore.ErrNotFound)
	d.reports(s, claimFile+": claim is damaged: its content is invalid")
}

// TestDamagedClaimWithoutAPosition: nothing names the run of the journal, so everything may be lost.
func TestDamagedClaimWithoutAPosition(t *testing.T) {
	dir := t.TempDir()
	owner := openDisk(t, dir, objstore.DiskOptions{NoSync: true})
	own(t, owner, "wal/1-a")
	d := &damagedJournal{t: t, dir: dir, folder: "wal/1-a"}
	d.flip(claimFile, 20)
	d.remove(positionFile)
	s := openDisk(t, dir, objstore.DiskOptions{Existing: true, NoSync: true})
	check.ErrorIs(t, check.Err(s.Get(t.Context(), "wal/1-a/0", objstore.Whole)), objstore.ErrDamaged)
	wantKeys(t, s, "")
	mustPut(t, s, "wal/1-a/0.recovery", "seal")
	wantGet(t, s, "wal/1-a/0.recovery", "seal")
	if err := owner.Put(t.Context(), "wal/1-a/0", objstore.NewBody([]byte("late"))); err == nil {
		t.Error("the owner stores an object after another process has ended its journal")
	}
	found, err := s.Damage(t.Context(), "")
	if err != nil || len(found) != 2 || found[0].Lost || !found[1].Lost || found[1].Bytes != 4<<20 {
		t.Errorf("%+v, %v", found, err)
	}
	var part journal.Damage
	if !errors.As(found[1].Err, &part) || part.File != "wal/1-a+journal/00000001" {
		t.Errorf("%+v", found[1])
	}
}

// TestDamageInJournalsOfSeveralFiles damages what connects the files of a journal.
func TestDamageInJournalsOfSeveralFiles(t *testing.T) {
	const batch = 1<<20 + 4096 // of an object of 1 MiB; the first file has three of them and an end mark
	second := "wal/1-a+journal/00000002"
	for name, c := range map[string]struct {
		file     string
		offset   int64
		lost     int // object, or -1
		reported string
	}{
		"an end mark":            {firstFile, 3 * batch, -1, fmt.Sprintf("%s: %d bytes at offset %d are damaged", firstFile, 4<<20-3*batch, 3*batch)},
		"a first head":           {second, 0, 3, fmt.Sprintf("%s: %d bytes at offset 0 are damaged", second, batch)},
		"the head before a mark": {firstFile, 2 * batch, 2, fmt.Sprintf("%s: %d bytes at offset %d are damaged", firstFile, batch, 2*batch)},
	} {
		t.Run(name, func(t *testing.T) {
			d := &damagedJournal{t: t, dir: memory(t), folder: "wal/1-a"}
			owner := openDisk(t, d.dir, objstore.DiskOptions{NoSync: true})
			own(t, owner, d.folder)
			value, keys := strings.Repeat("x", 1<<20), []string{}
			for i := range 6 {
				keys = append(keys, d.key(i))
				mustPut(t, owner, d.key(i), value)
			}
			d.flip(c.file, c.offset)
			s := openDisk(t, d.dir, objstore.DiskOptions{NoSync: true})
			for i, key := range keys {
				if i != c.lost {
					wantGet(t, s, key, value)
				} else if _, err := s.Get(t.Context(), key, objstore.Whole); !errors.Is(err, objstore.ErrDamaged) {
					t.Errorf("%s: %v", key, err)
				}
			}
			d.reports(s, c.reported)
			must.NoError(t, s.Delete(t.Context(), keys...))
			mustPut(t, s, d.folder+"/seal", "x") // ends the journal, so that its files can be removed
			must.NoError(t, s.Delete(t.Context(), keys...))
			check.NoErrorf(t, check.Err(os.Stat(d.file(c.file))), "a file with damage, in which an object may be, was removed")
		})
	}
}
