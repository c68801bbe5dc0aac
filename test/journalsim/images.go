package journalsim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/sebbroker/seb/internal/engine/objstore/journal"
	"github.com/sebbroker/seb/internal/engine/objstore/watermark"
)

// An image is what a power failure after a step may leave. The images of a run are checked without a
// scheduler: processes open the image one after the other, and each reads all names.

// imagesMax is the number of images of one step that are all tried. Of more, imagesDrawn are drawn.
const (
	imagesMax   = 512
	imagesDrawn = 24
)

// images checks the images of the disk after a step that has changed it.
func (w *World) images() {
	if w.cfg.Images == 0 || w.disk.changes == w.imaged || w.calm || w.err != nil {
		return
	}
	w.imaged = w.disk.changes
	if w.sched.IntN(w.cfg.Images) > 0 {
		return
	}
	if n := w.disk.unsynced(imagesMax + 1); n > imagesMax {
		for range imagesDrawn {
			w.image(w.disk.fail(newDrawn(w.draw)))
		}
		return
	}
	for e := (&each{}); ; {
		w.image(w.disk.fail(e))
		if w.err != nil || !e.next() {
			return
		}
	}
}

// image checks one image. Two processes read it; the second one ends all journals. The power fails
// in between, so the first one must have shown durable names.
func (w *World) image(d *Disk) {
	w.stats.Images++
	v := w.still(d)
	for round := range 2 {
		p := v.start()
		for e := 1; e <= w.epochs; e++ {
			p.verify(epoch(e), round == 1)
		}
		if v.err != nil {
			w.failf("in an image of the disk at step %d: %w", w.now, v.err)
			return
		}
		v.disk = v.disk.fail(newDrawn(v.draw))
		v.check.powerFailure()
	}
}

// still returns a world without a scheduler: each step of a process happens at once.
func (w *World) still(d *Disk) *World {
	v := &World{cfg: w.cfg, disk: d, calm: true, direct: true, now: w.now + 1, epochs: w.epochs}
	v.draw, v.load = w.draw, w.load
	v.check = newChecker(v)
	for k, o := range w.check.objects {
		c := *o
		c.bodies = maps.Clone(o.bodies)
		v.check.objects[k] = &c
	}
	v.check.powerFailure()
	return v
}

// flips damages images of the disk without loss: it flips single bits, cuts files off, clears them from an
// offset on, or removes them. A name that is known must be found, or something must say that the journal is damaged.
func (w *World) flips(n int) {
	whole := w.disk.fail(&kept{})
	files := map[string]*inode{}
	whole.files(func(name string, f *inode) {
		if strings.HasPrefix(name, "log/") && len(f.cells) > 0 {
			files[name] = f
		}
	})
	names := slices.Sorted(maps.Keys(files))
	for range n {
		if len(names) == 0 || w.err != nil {
			return
		}
		name := names[w.draw.IntN(len(names))]
		cells := slices.Sorted(maps.Keys(files[name].cells))
		at := cells[w.draw.IntN(len(cells))]*sectorBytes + w.draw.Int64N(sectorBytes)
		if w.draw.IntN(3) == 0 { // a head
			at = at - at%journal.BlockBytes + w.draw.Int64N(100)
		}
		if at < files[name].size.last() {
			w.flip(whole, name, at)
		}
	}
}

// Kinds of damage.
const (
	flippedBit = iota
	cutOff
	cleared
	removed // the last file of a journal without an end
	damages
)

// flip checks one flipped bit, or a file that ends at an offset, has zeros from there on, or is gone.
func (w *World) flip(whole *Disk, name string, at int64) {
	w.stats.Flips++
	d := whole.fail(&kept{})
	n, err := d.lookup(name)
	if err != nil {
		w.failf("simulator: %w", err)
		return
	}
	kind := max(flippedBit, w.draw.IntN(damages+3)-3)
	if kind == removed {
		_ = d.unlink(name)
	} else {
		w.spoil(n, kind, at)
	}
	folder, _, _ := strings.Cut(name, "+")
	if strings.Count(folder, "/") != 1 {
		folder = dirOf(name) // a plain file
	}
	file, last := w.lastBatch(whole, folder)
	switch stored := file == name && proven(whole, folder, name, last); {
	case kind == removed && !stored:
		return // it cannot be told from a file whose objects were deleted
	case file == name && (at >= last && kind == flippedBit || kind == cleared) && !stored:
		return // it cannot be told from a batch that was not finished
	}
	v := w.still(d)
	v.trace = w.trace
	for round := range 3 {
		v.flipped(v.start(), folder, name, round)
		if v.err != nil {
			w.failf("%s %s at %d, round %d: %w", name, []string{"has a flipped bit", "is cut off", "is cleared", "is removed"}[kind], at, round, v.err)
			return
		}
	}
}

// spoil changes a file of an image.
func (w *World) spoil(n *inode, kind int, at int64) {
	for i := range n.cells {
		if kind != flippedBit && i > at/sectorBytes {
			delete(n.cells, i)
		}
	}
	s := make(sector, sectorBytes)
	if c := n.cells[at/sectorBytes]; c != nil {
		copy(s, c.cache)
	}
	switch kind {
	case flippedBit:
		s[at%sectorBytes] ^= 1 << w.draw.IntN(8)
	case cutOff:
		n.size = durable(at)
		clear(s[at%sectorBytes:])
	case cleared:
		clear(s[at%sectorBytes:])
	}
	n.cells[at/sectorBytes] = &cell{cache: s, disk: durable(s)}
}

// proven reports whether the position file of a journal says that the batch at an offset was stored. A
// power failure can lose what it says.
func proven(d *Disk, folder, file string, batch int64) bool {
	n, err := d.lookup(journal.PositionFile(folder))
	if err != nil {
		return false
	}
	content := make([]byte, n.size.last())
	record, ok := watermark.Decode(content[:n.read(content, 0)])
	return ok && strings.HasSuffix(file, fmt.Sprintf("/%08d", binary.LittleEndian.Uint64(record[16:]))) &&
		int64(binary.LittleEndian.Uint64(record[24:])) > batch
}

// flipped reads all names of a damaged folder as a process that may end the journal (round 1), or
// deletes what it finds before the next one reads (round 2).
func (w *World) flipped(p *Process, folder, file string, round int) {
	if round == 1 {
		_, _ = p.store.put(folder, "999999", []byte("SEAL"))
	}
	listed, _, listErr := p.store.list(folder)
	tombstone := strings.HasSuffix(file, ".gone")
	for _, name := range w.check.names(folder) {
		o := w.check.objects[key(folder, name)]
		if o.since == 0 || o.deletes > 0 || o.touched > 0 || o.since > w.now {
			continue
		}
		b, isFile, err := p.store.get(folder, name)
		switch {
		case errors.Is(err, errMissing):
			w.failf("D7: %s/%s is missing, and nothing names the damage", folder, name)
		case err == nil && !slices.Contains(listed, name) && listErr == nil && !p.store.damaged(folder):
			w.failf("D7: %s/%s is not listed, and nothing names the damage", folder, name)
		case err == nil && o.bodies[string(b)] == nil && isFile && !strings.HasSuffix(file, "/"+name):
			w.failf("D3: %s/%s has other bytes, %s", folder, name, excerpt(b))
		}
		if round == 1 && err == nil && !tombstone && w.draw.IntN(2) == 0 {
			w.check.deleting(key(folder, name))
			_ = p.store.delete(folder, name)
		}
	}
}

// kept is a power failure that loses nothing.
type kept struct{}

func (*kept) file(*Disk, *inode) {}

func (*kept) choose(n int) int { return n - 1 }

func (*kept) sector(_ int64, versions []sector) sector { return versions[len(versions)-1] }

// lastBatch returns the file and the offset of the last complete batch of a journal that has no
// end; file is "" if it has one. It reads heads as FORMAT.md describes them: length at 48.
func (w *World) lastBatch(d *Disk, folder string) (file string, offset int64) {
	name := journal.Late(folder) + "/+end"
	if _, err := d.lookup(name); err == nil {
		return "", 0
	}
	files, err := d.lookup(journal.Files(folder))
	if err != nil {
		return "", 0
	}
	p := w.still(d.fail(&kept{})).start()
	j, err := journal.Open(p, folder)
	if err == nil {
		err = j.End()
	}
	content, readErr := p.ReadFile(name)
	var words, run string
	var number, end, length int64
	_, scanErr := fmt.Sscanf(string(content), "seb journal end %s %s %d %d", &words, &run, &number, &end)
	if err := errors.Join(err, readErr, scanErr); err != nil {
		w.failf("simulator: end of %s: %w", folder, err)
	}
	for _, name := range files.list() {
		n := files.names[name].last()
		k, err := strconv.ParseInt(name, 10, 64)
		if err != nil || n.folder || k > number {
			continue
		}
		head := make([]byte, 64)
		for at := int64(0); (k < number || at < end) && n.read(head, at) == len(head) && string(head[:7]) == "SEBJRNL"; {
			file, offset = journal.Files(folder)+"/"+name, at
			length = int64(binary.LittleEndian.Uint64(head[48:]))
			at += (length + journal.BlockBytes - 1) / journal.BlockBytes * journal.BlockBytes
		}
	}
	return file, offset
}

// DrawImages returns a small run whose images are checked after each change of the disk.
func DrawImages(seed uint64) Config {
	c := Draw(seed)
	r := rand.New(rand.NewPCG(seed, 4))
	c.Steps, c.Processes, c.InFlight, c.BodyMax = 150+r.IntN(250), 1+r.IntN(2), 1+r.IntN(2), 100
	c.Images, c.Cuts, c.Power, c.Flips = 1, r.IntN(2), 0, 20
	c.Journal.FirstBytes, c.Journal.FileBytes, c.Journal.GroupBytes, c.Large = 4*journal.BlockBytes, 8*journal.BlockBytes, 3<<10, 6<<10
	return c
}
