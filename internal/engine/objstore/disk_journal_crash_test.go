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

// torn tries what a power failure leaves of the batch that a journal is writing.
type torn struct {
	t          *testing.T
	dir, image string // the bucket, and what is left of it
	rng        *rand.Rand
	stored     map[string]string
	key, value string // of the object on its way
	images     int
}

const (
	tornFolder = "wal/1-a"
	sector     = 512
)

var tornFile = filepath.Join(journal.Files(tornFolder), "00000001")

// TestJournalTornBatches stops the machine between the write and the sync of each batch: any subset
// of its sectors is on the disk, and the others are zero or random. Every acknowledged object is
// there, and the one on its way is whole or absent.
func TestJournalTornBatches(t *testing.T) {
	t.Parallel()
	p := &torn{t: t, dir: memoryDir(t), image: memoryDir(t), rng: rand.New(rand.NewPCG(1, 2)), stored: map[string]string{}}
	d := tempDisk(t, p.dir)
	if err := d.Own(t.Context(), tornFolder); errors.Is(err, ErrUnsuitable) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	claim, err := os.ReadFile(filepath.Join(p.dir, tornFolder))
	if err == nil {
		err = os.MkdirAll(filepath.Join(p.image, journal.Files(tornFolder)), 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(p.image, tornFolder), claim, 0o600)
	}
	must.NoError(t, err)
	honest := d.calls.pwritev
	d.calls.pwritev = func(fd int, parts [][]byte, at int64) (int, error) {
		n, err := honest(fd, parts, at)
		p.tear(at, slices.Concat(parts...)[:n])
		return n, err
	}
	for i, size := range []int{10, 700, 3900, 9000, 0} {
		p.key, p.value = fmt.Sprintf("%s/%d", tornFolder, i), strings.Repeat(string(rune('a'+i)), size)
		mustPut(t, d, p.key, p.value)
		p.stored[p.key] = p.value
	}
	t.Logf("%d images", p.images)
}

// tear tries subsets of the sectors of a batch: all of them if they are few.
func (p *torn) tear(at int64, batch []byte) {
	subsets := sebtest.Runs(256, 32)
	if *allImages {
		subsets = 3000
	}
	sectors := len(batch) / sector
	if sectors <= 8 {
		subsets = min(subsets, 1<<sectors)
	}
	before := must.Get(os.ReadFile(filepath.Join(p.dir, tornFile)))(p.t)
	before = before[:at+int64(len(batch))+journal.BlockBytes] // what follows is zero
	for i := range 2 * subsets {
		content := slices.Clone(before)
		for s := range sectors {
			has := i>>1>>s&1 != 0
			if sectors > 8 {
				has = p.rng.IntN(sectors) > 0
			}
			to := content[at:][s*sector : (s+1)*sector]
			clear(to)
			if has {
				copy(to, batch[s*sector:])
			} else if i&1 != 0 {
				for b := range to {
					to[b] = byte(p.rng.Uint32())
				}
			}
		}
		p.try(content)
	}
}

// try opens the bucket with this content of the journal file.
func (p *torn) try(content []byte) {
	p.images++
	must.NoError(p.t, os.WriteFile(filepath.Join(p.image, tornFile), content, 0o600))
	left := must.Get(OpenDisk(p.image, DiskOptions{NoSync: true, Existing: true}))(p.t)
	defer left.Close()
	for k, want := range p.stored {
		if got, err := readString(p.t, left, k); err != nil || got != want {
			p.t.Fatalf("%s: %.20q, %v; %.20q was stored", k, got, err, want)
		}
	}
	if got, err := readString(p.t, left, p.key); err == nil && got != p.value || err != nil && !errors.Is(err, ErrNotFound) {
		p.t.Fatalf("%s: %.20q (%d bytes), %v; %d bytes were on their way", p.key, got, len(got), err, len(p.value))
	}
	entries, _, err := left.List(p.t.Context(), ListOptions{})
	if n := len(entries) - len(p.stored); err != nil || n != 0 && n != 1 {
		p.t.Fatalf("%d objects, %v; %d were stored", len(entries), err, len(p.stored))
	}
}
