package objstore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/engine/objstore/journal"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// smallJournals are files that a few objects fill.
var smallJournals = journal.Options{FirstBytes: 4 * journal.BlockBytes, FileBytes: 8 * journal.BlockBytes, GroupBytes: journal.BlockBytes}

// journaled uses the journals of two stores on one folder: claims, several files, an object that is a
// file, deletes, an end that both name, objects that are put after it, a journal whose objects are all
// deleted, a clean close.
func (p *tape) journaled() {
	one, two := tempDisk(p.t, p.dir), tempDisk(p.t, p.dir)
	for _, d := range []*Disk{one, two} {
		d.sizes, d.inline = smallJournals, 6000
		p.watch(d)
	}
	p.journals = true
	p.look()
	ownFor(p.t, one, "wal/1")
	for i, size := range []int{10, 3000, 7000, 5000, 0, 5000} {
		_ = p.put(one, fmt.Sprint("wal/1/", i), strings.Repeat(string(rune('a'+i)), size))
	}
	_ = p.put(two, "wal/0/file", "a folder without a journal")
	_ = p.delete(one, "wal/1/1", "wal/1/2")
	_ = p.delete(one, "wal/1/0")
	// The second store ends the journal while the first one appends the same name.
	honest, once := one.calls.pwritev, false
	one.calls.pwritev = func(fd int, v [][]byte, at int64) (int, error) {
		if !once {
			once = true
			_ = p.put(two, "wal/1/6", "value of two")
		}
		return honest(fd, v, at)
	}
	_ = p.put(one, "wal/1/6", "value of one")
	p.settle(one, "wal/1/6")
	_ = p.put(one, "wal/1/7", "behind the end")
	ownFor(p.t, two, "wal/2")
	_ = p.put(two, "wal/2/0", "next journal")
	for i := range 6 { // the last ones remove journal files
		_ = p.delete(two, fmt.Sprint("wal/1/", i))
	}
	_ = p.put(two, "wal/1/1", "a deleted name that is put again")
	_ = p.delete(two, "wal/1/7")
	must.NoError(p.t, two.Close())
	p.look()
}

// appended is the largest number of bytes that were appended to a file in a step, of those of claims,
// ends, tombstones and small objects.
func (p *tape) appended(step int) (n int) {
	const most = 128 // a larger file is an object, or a journal file
	for _, s := range p.steps {
		durable, newest := s.node.after(step)
		_, before := s.node.after(step - 1)
		if gained := len(newest) - len(durable); newest != before && gained <= most {
			n = max(n, gained)
		}
	}
	return n
}

// sectors returns a fate that leaves some of the sectors that were not synced. The others are as
// before, zero or random.
func sectors(rng *rand.Rand) diskFate {
	return func(durable, newest string) string {
		left := []byte(newest)
		for from := 0; from < len(left); from += sector {
			to := left[from:min(from+sector, len(left))]
			before := durable[min(from, len(durable)):min(from+len(to), len(durable))]
			if string(to) == before {
				continue
			}
			switch rng.IntN(4) {
			case 0, 1: // zero behind the durable bytes
				clear(to[copy(to, before):])
			case 2:
				for i := copy(to, before); i < len(to); i++ {
					to[i] = byte(rng.Uint32())
				}
			}
		}
		return string(left)
	}
}

// successor opens a remainder as two more processes do, of which one puts every name. The names that
// exist stay as they are, and each other name has one winner.
func (p *tape) successor(dir string, reader *Disk, what string) {
	p.t.Helper()
	next, err := OpenDisk(dir, DiskOptions{NoSync: true})
	must.NoErrorf(p.t, err, "%s", what)
	defer next.Close()
	want := map[string]string{}
	for key := range p.values {
		value, err := readString(p.t, reader, key)
		exists := err == nil
		if want[key] = value; !exists {
			want[key] = "successor"
		}
		if err := putString(p.t, next, key, "successor"); exists != errors.Is(err, ErrExists) || !exists && err != nil {
			p.t.Fatalf("%s: put %s: %v; it was there: %v", what, key, err, exists)
		}
	}
	third, err := OpenDisk(dir, DiskOptions{NoSync: true, Existing: true})
	must.NoErrorf(p.t, err, "%s", what)
	defer third.Close()
	for _, d := range []*Disk{reader, next, third} {
		for key, value := range want {
			if got, err := readString(p.t, d, key); err != nil || got != value {
				p.t.Fatalf("%s: %s is %.40q, %v after the successor's puts, want %.40q", what, key, got, err, value)
			}
		}
		if damage, err := d.Damage(p.t.Context(), ""); err != nil || len(damage) > 0 {
			p.t.Fatalf("%s: damage %v, %v", what, damage, err)
		}
	}
}

// TestJournalPowerFailures stops the machine at every step of stores with journals, with any part of the
// sectors and names that are not synced, and with every prefix of a claim, an end and a tombstone.
// Every acknowledged object is there, an object on its way is whole or absent, and a name that is
// absent can be put by one process.
func TestJournalPowerFailures(t *testing.T) {
	t.Parallel()
	p := newTape(t, memoryDir(t))
	p.journaled()
	must.Equalf(t, len(p.at(p.step)), 4, "objects at the end")
	rng, dir, images, prefixes := rand.New(rand.NewPCG(1, 2)), filepath.Join(memoryDir(t), "left"), 0, 0
	try := func(step int, happened map[int]bool, fate diskFate, what string) {
		images++
		must.NoError(t, errors.Join(os.RemoveAll(dir), p.remains(dir, step, happened, fate)))
		p.check(dir, step, what)
	}
	most := sebtest.Runs(2, 1)
	if *allImages {
		most = 300
	}
	fates := append(slices.Clone(diskFates), sectors(rng), sectors(rng))
	for step := 1; step <= p.step; step += sebtest.Runs(1, 3) {
		choices := p.open(step)
		for i := range most {
			happened := map[int]bool{}
			for _, c := range choices {
				if rng.IntN(2) == 0 {
					happened[c] = true
				}
			}
			fate := rng.IntN(len(fates))
			try(step, happened, fates[fate], fmt.Sprintf(" (image %d: %d of %d names, fate %d)", i, len(happened), len(choices), fate))
		}
		happened := map[int]bool{}
		for _, c := range choices {
			happened[c] = true
		}
		for n := 0; n < p.appended(step); n += sebtest.Runs(3, 45) {
			prefixes++
			try(step, happened, func(durable, newest string) string {
				return prefix(durable, newest, min(len(newest), len(durable)+n))
			}, fmt.Sprintf(" (all names, %d bytes)", n))
		}
	}
	t.Logf("%d steps, %d images, %d of them with a prefix", p.step, images, prefixes)
}
