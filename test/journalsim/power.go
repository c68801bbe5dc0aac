package journalsim

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"slices"
)

// fate decides what a power failure leaves of what was not durable.
type fate interface {
	// file is called before the sectors of a file.
	file(d *Disk, n *inode)
	// choose selects one of n versions; 0 is the durable one.
	choose(n int) int
	// sector selects the content of sector i from its versions.
	sector(i int64, versions []sector) sector
}

// fail returns the disk after a power failure. d stays as it is.
func (d *Disk) fail(f fate) *Disk {
	after := &Disk{ids: d.ids}
	same := map[*inode]*inode{} // a file with two names stays one file
	var remains func(n *inode) *inode
	remains = func(n *inode) *inode {
		if same[n] != nil {
			return same[n]
		}
		if !n.folder {
			same[n] = d.remainsOf(n, f)
			return same[n]
		}
		to := newFolder(n.id)
		same[n] = to
		for _, name := range slices.Sorted(maps.Keys(n.names)) {
			h := n.names[name]
			chosen := h.values[0]
			if h.dirty() {
				chosen = h.values[f.choose(len(h.values))]
			}
			if chosen != nil {
				v := durable(remains(chosen))
				to.names[name] = &v
			}
		}
		return to
	}
	after.root = remains(d.root)
	return after
}

func (d *Disk) remainsOf(n *inode, f fate) *inode {
	to := newFile(n.id)
	f.file(d, n)
	size := n.size.values[0]
	if n.size.dirty() {
		size = n.size.values[f.choose(len(n.size.values))]
	}
	to.size = durable(size)
	for _, i := range slices.Sorted(maps.Keys(n.cells)) {
		c := n.cells[i]
		content := c.disk.values[0]
		if c.disk.dirty() {
			content = f.sector(i, c.disk.values)
		}
		if i*sectorBytes < size && content != nil {
			to.cells[i] = &cell{cache: content, disk: durable(content)}
		}
	}
	return to
}

// unsynced returns the number of images that a power failure may leave, at most limit.
func (d *Disk) unsynced(limit int) int {
	count := 1
	times := func(n int) {
		if count = count * n; count > limit {
			count = limit
		}
	}
	seen := map[*inode]bool{}
	var walk func(n *inode)
	walk = func(n *inode) {
		if n == nil || seen[n] {
			return
		}
		seen[n] = true
		for _, h := range n.names {
			times(len(h.values))
			for _, v := range h.values {
				walk(v)
			}
		}
		if !n.folder {
			times(len(n.size.values))
			for i := range n.dirty {
				times(len(n.cells[i].disk.values))
			}
		}
	}
	walk(d.root)
	return count
}

// Kinds of outcomes of a power failure for one file or for the names.
const (
	allOld = iota
	allNew
	mostlyOld
	mostlyNew
	half
	prefix // the sectors up to a point
	suffix // the sectors from a point
	stale  // the sectors have what another file has there, as if blocks were used again
	kinds
)

// drawn draws the outcome. A file gets one kind of outcome, because independent sectors alone would
// hardly ever leave a whole batch.
type drawn struct {
	r     *rand.Rand
	names int // kind for names and sizes
	kind  int
	cut   int64 // for prefix and suffix
	donor *inode
	shift int64 // in sectors, of the donor
}

func newDrawn(r *rand.Rand) *drawn {
	return &drawn{r: r, names: r.IntN(prefix)}
}

func (w *drawn) file(d *Disk, n *inode) {
	w.kind, w.donor = min(w.r.IntN(kinds+2), stale), nil
	dirty := slices.Sorted(maps.Keys(n.dirty))
	if len(dirty) > 0 {
		w.cut = dirty[w.r.IntN(len(dirty))]
	}
	if w.kind != stale {
		return
	}
	var all []*inode
	d.files(func(_ string, f *inode) {
		if f != n && f.size.last() >= pageSectors*sectorBytes { // a journal, or a large object
			all = append(all, f)
		}
	})
	if len(all) == 0 {
		w.kind = half
		return
	}
	w.donor, w.shift = all[w.r.IntN(len(all))], 0
	if w.r.IntN(3) == 0 { // from another position
		w.shift = pageSectors * (w.r.Int64N(5) - 2)
	}
}

func (w *drawn) choose(n int) int { return w.pick(w.names, n) }

func (w *drawn) pick(kind, n int) int {
	odds := map[int]int{allOld: 0, allNew: 100, mostlyOld: 10, mostlyNew: 90}
	percent, ok := odds[kind]
	switch {
	case !ok:
		return w.r.IntN(n)
	case w.r.IntN(100) < percent:
		return n - 1
	case percent == 100 || percent == 0:
		return 0
	}
	return w.r.IntN(n)
}

func (w *drawn) sector(i int64, versions []sector) sector {
	n := len(versions)
	switch {
	case !slices.ContainsFunc(versions, func(v sector) bool { return !bytes.Equal(v, versions[0]) }):
		return versions[0] // what is written again as it was stays as it is
	case w.kind == prefix && i < w.cut, w.kind == suffix && i >= w.cut:
		return versions[n-1]
	case w.kind == prefix, w.kind == suffix:
		return versions[0]
	case w.kind == stale:
		if c := w.donor.cells[i+w.shift]; c != nil {
			return c.disk.values[0]
		}
		return nil
	case w.kind == half && w.r.IntN(8) == 0:
		return w.torn(versions[0], versions[n-1])
	}
	return versions[w.pick(w.kind, n)]
}

// torn is a sector that is written in part, or that has random bytes.
func (w *drawn) torn(old, next sector) sector {
	s := make(sector, sectorBytes)
	copy(s, old)
	if w.r.IntN(2) == 0 {
		copy(s[:w.r.IntN(sectorBytes)], next)
		return s
	}
	for i := range s {
		s[i] = byte(w.r.Uint32())
	}
	return s
}

// each enumerates the outcomes: every subset of names and sectors. next moves on to the next one.
type each struct {
	digits []int // the choices of this outcome
	limits []int
	at     int
}

func (e *each) file(*Disk, *inode) {}

func (e *each) choose(n int) int {
	if e.at == len(e.digits) {
		e.digits, e.limits = append(e.digits, 0), append(e.limits, 0)
	}
	e.limits[e.at] = n
	e.at++
	return e.digits[e.at-1]
}

func (e *each) sector(_ int64, versions []sector) sector { return versions[e.choose(len(versions))] }

// next moves on to the next outcome; false: there is none.
func (e *each) next() bool {
	e.digits, e.limits = e.digits[:e.at], e.limits[:e.at]
	e.at = 0
	for i := len(e.digits) - 1; i >= 0; i-- {
		if e.digits[i]++; e.digits[i] < e.limits[i] {
			e.digits, e.limits = e.digits[:i+1], e.limits[:i+1]
			return true
		}
	}
	return false
}
