package journalsim

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"syscall"
)

const (
	// sectorBytes is what the disk writes as a whole. A power failure leaves any subset of the
	// sectors that were written since the last sync.
	sectorBytes = 512
	// pageSectors is the number of sectors of a page of the page cache.
	pageSectors = 4096 / sectorBytes
	// versionsMax bounds the versions of a sector, name or size that are kept. Without a sync
	// between them the disk may have any of them; more are not more interesting.
	versionsMax = 6
)

// history is what a power failure may leave of a name, a size or a sector. The first value is
// durable; the others were written after it, in order.
type history[T any] struct {
	first  int // number of values[0]
	values []T
}

func durable[T any](v T) history[T] { return history[T]{values: []T{v}} }

// last returns the newest value.
func (h *history[T]) last() T { return h.values[len(h.values)-1] }

// number returns the number of the newest value.
func (h *history[T]) number() int { return h.first + len(h.values) - 1 }

func (h *history[T]) add(v T) {
	h.values = append(h.values, v)
	if n := len(h.values); n > versionsMax { // the durable one and the newest stay
		h.values = slices.Delete(h.values, 1, 2)
		h.first++
	}
}

// settle makes value number n durable, or the one after it if n is no longer there.
func (h *history[T]) settle(n int) {
	if drop := n - h.first; drop > 0 {
		h.values = slices.Clone(h.values[min(drop, len(h.values)-1):])
		h.first = n
	}
}

func (h *history[T]) dirty() bool { return len(h.values) > 1 }

// sector is the content of one sector; nil means zeros. The bytes are never changed in place.
type sector []byte

// cell is a sector of a file.
type cell struct {
	cache sector // what processes read
	disk  history[sector]
}

// lost reports whether the page cache has something that the disk will never get: its sync failed.
func (c *cell) lost() bool { return !c.disk.dirty() && string(c.cache) != string(c.disk.last()) }

// inode is a file or a folder.
type inode struct {
	id     int
	folder bool
	names  map[string]*history[*inode]

	cells map[int64]*cell // missing: zeros, also on the disk
	dirty map[int64]bool  // cells with more than one version
	size  history[int64]
	// errors counts failed write-backs. A handle reports each failure since it was opened once, like
	// errseq_t of Linux.
	errors int
}

func newFile(id int) *inode {
	return &inode{id: id, cells: map[int64]*cell{}, dirty: map[int64]bool{}, size: durable(int64(0))}
}

func newFolder(id int) *inode {
	return &inode{id: id, folder: true, names: map[string]*history[*inode]{}}
}

// Disk is a file system with its page cache. It is not safe for concurrent use; the scheduler lets
// one step happen at a time.
type Disk struct {
	root *inode
	ids  int
	// down: a folder's sync failed, so the file system takes no more changes until the power fails
	// (ext4 aborts its log, xfs shuts down).
	down bool
	// full: every request for space fails.
	full bool
	// changes counts changes of what a power failure may leave.
	changes int
}

// NewDisk returns an empty disk.
func NewDisk() *Disk { return &Disk{root: newFolder(0)} }

func (d *Disk) newID() int {
	d.ids++
	return d.ids
}

// lookup returns the inode of a name; "." is the root.
func (d *Disk) lookup(name string) (*inode, error) {
	n := d.root
	if name == "." {
		return n, nil
	}
	for part := range strings.SplitSeq(name, "/") {
		if !n.folder {
			return nil, fmt.Errorf("%s: %w (%w)", name, syscall.ENOTDIR, fs.ErrNotExist)
		}
		h := n.names[part]
		if h == nil || h.last() == nil {
			return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
		}
		n = h.last()
	}
	return n, nil
}

// parent returns the folder of a name and the last element of the name.
func (d *Disk) parent(name string) (*inode, string, error) {
	dir, base := ".", name
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		dir, base = name[:i], name[i+1:]
	}
	n, err := d.lookup(dir)
	if err == nil && !n.folder {
		err = fmt.Errorf("%s: %w", dir, syscall.ENOTDIR)
	}
	return n, base, err
}

// link gives an inode a name unless the name is taken.
func (d *Disk) link(name string, n *inode) error {
	dir, base, err := d.parent(name)
	if err != nil {
		return err
	}
	h := dir.names[base]
	if h == nil {
		h = &history[*inode]{values: []*inode{nil}}
		dir.names[base] = h
	}
	if h.last() != nil {
		return fmt.Errorf("%s: %w", name, fs.ErrExist)
	}
	h.add(n)
	return nil
}

// unlink removes a name. The inode stays for those who have it open.
func (d *Disk) unlink(name string) error {
	n, err := d.lookup(name)
	if err != nil {
		return err
	}
	if n.folder {
		return fmt.Errorf("%s: %w", name, syscall.EISDIR)
	}
	dir, base, err := d.parent(name)
	if err != nil {
		return err
	}
	dir.names[base].add(nil)
	return nil
}

// list returns the names in a folder, sorted.
func (n *inode) list() []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(n.names)) {
		if n.names[name].last() != nil {
			names = append(names, name)
		}
	}
	return names
}

// read copies what the page cache has at off, and returns the number of bytes up to the end.
func (n *inode) read(p []byte, off int64) int {
	return n.copy(p, off, func(c *cell) sector { return c.cache })
}

func (n *inode) copy(p []byte, off int64, what func(*cell) sector) int {
	left := n.size.last() - off
	if left <= 0 {
		return 0
	}
	p = p[:min(int64(len(p)), left)]
	for done := 0; done < len(p); {
		at := off + int64(done)
		within := int(at % sectorBytes)
		to := p[done:min(len(p), done+sectorBytes-within)]
		clear(to)
		if c := n.cells[at/sectorBytes]; c != nil {
			if s := what(c); s != nil {
				copy(to, s[within:])
			}
		}
		done += len(to)
	}
	return len(p)
}

// medium is read past the page cache. The kernel first writes dirty pages back, so only pages that
// it holds for clean differ: those that a failed sync left.
func (n *inode) medium(p []byte, off int64) int {
	return n.copy(p, off, func(c *cell) sector { return c.disk.last() })
}

// write puts bytes into the page cache.
func (n *inode) write(p []byte, off int64) {
	for done := 0; done < len(p); {
		at := off + int64(done)
		within := int(at % sectorBytes)
		k := min(len(p)-done, sectorBytes-within)
		c := n.cell(at / sectorBytes)
		s := make(sector, sectorBytes)
		copy(s, c.cache)
		copy(s[within:], p[done:done+k])
		c.cache = s
		n.redirty(at / sectorBytes)
		done += k
	}
	if end := off + int64(len(p)); end > n.size.last() {
		n.size.add(end)
	}
}

// truncate cuts the file; size is a multiple of sectorBytes. If it grows again, the new part is zero.
func (n *inode) truncate(size int64) {
	for _, i := range slices.Sorted(maps.Keys(n.cells)) {
		if i >= size/sectorBytes {
			n.cells[i].cache = nil
			n.redirty(i)
		}
	}
	n.size.add(size)
}

func (n *inode) cell(i int64) *cell {
	c := n.cells[i]
	if c == nil {
		c = &cell{disk: durable[sector](nil)}
		n.cells[i] = c
	}
	return c
}

// redirty gives the disk a new version of sector i, and of the sectors of its page that a failed
// sync left: the page is written as a whole.
func (n *inode) redirty(i int64) {
	page := i - i%pageSectors
	for k := page; k < page+pageSectors; k++ {
		if c := n.cells[k]; c != nil && (k == i || c.lost()) {
			c.disk.add(c.cache)
			n.dirty[k] = true
		}
	}
}

// mark is the state of a file or folder at the start of a sync.
type mark struct {
	cells map[int64]int
	size  int
	names map[string]int
}

// begin returns what a sync that begins now makes durable.
func (n *inode) begin() mark {
	if n.folder {
		m := mark{names: map[string]int{}}
		for name, h := range n.names {
			m.names[name] = h.number()
		}
		return m
	}
	m := mark{cells: map[int64]int{}, size: n.size.number()}
	for i := range n.dirty {
		m.cells[i] = n.cells[i].disk.number()
	}
	return m
}

// end makes durable what was there at the beginning of a sync.
func (n *inode) end(m mark) {
	for name, number := range m.names {
		n.names[name].settle(number)
	}
	if n.folder {
		return
	}
	n.size.settle(m.size)
	for i, number := range m.cells {
		c := n.cells[i]
		c.disk.settle(number)
		if !c.disk.dirty() {
			delete(n.dirty, i)
		}
	}
}

// lose is a failed sync: the page cache keeps the dirty sectors as clean, and the disk has them only
// where reached says so.
func (n *inode) lose(reached func() bool) {
	for _, i := range slices.Sorted(maps.Keys(n.dirty)) {
		c := n.cells[i]
		if reached() {
			c.disk.settle(c.disk.number())
		} else {
			c.disk = durable(c.disk.values[0])
		}
		delete(n.dirty, i)
	}
	n.errors++
}

// evict drops clean pages from the page cache.
func (n *inode) evict() {
	for i, c := range n.cells {
		page := i - i%pageSectors
		clean := true
		for k := page; k < page+pageSectors; k++ {
			clean = clean && !n.dirty[k]
		}
		if clean {
			c.cache = c.disk.last()
		}
	}
}

// files calls f for every file that has a name, in the order of names.
func (d *Disk) files(f func(name string, n *inode)) {
	var walk func(prefix string, n *inode)
	walk = func(prefix string, n *inode) {
		for _, name := range n.list() {
			if child := n.names[name].last(); child.folder {
				walk(prefix+name+"/", child)
			} else {
				f(prefix+name, child)
			}
		}
	}
	walk("", d.root)
}
