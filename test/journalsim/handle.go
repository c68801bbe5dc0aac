package journalsim

import (
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"syscall"

	"github.com/sebbroker/seb/internal/engine/objstore/journal"
	"github.com/sebbroker/seb/internal/engine/objstore/watermark"
)

// handle is an open file.
type handle struct {
	p      *Process
	n      *inode
	name   string
	write  bool
	errors int // failures of write-back that it has reported, or that were before it
	closed bool
}

var _ journal.File = (*handle)(nil)

// ReadAt implements journal.File. The parts are read one after the other, while others may write.
func (h *handle) ReadAt(b []byte, off int64) (int, error) {
	done := 0
	for _, part := range h.p.w.cuts(h.name, off, b) {
		if err := h.p.look("read %s at %d, %d bytes", h.name, off+int64(done), len(part)); err != nil {
			return done, err
		}
		h.mustBeOpen()
		n := h.n.read(part, off+int64(done))
		if done += n; n < len(part) {
			break
		}
	}
	if done < len(b) {
		return done, io.EOF
	}
	return done, nil
}

// WriteAt implements journal.File. A process can be stopped or killed after any byte.
func (h *handle) WriteAt(parts [][]byte, off int64) error {
	if !h.write {
		return fmt.Errorf("write %s: %w", h.name, syscall.EBADF)
	}
	all := slices.Concat(parts...)
	for _, part := range h.p.w.cuts(h.name, off, all) {
		if err := h.p.change("write %s at %d, %d bytes", h.name, off, len(part)); err != nil {
			return err
		}
		h.mustBeOpen()
		if h.p.w.disk.full && off+int64(len(part)) > h.n.size.last() {
			h.p.w.stats.Full++
			return syscall.ENOSPC
		}
		if h.p.w.fault(h.p.w.cfg.WriteErrors) {
			h.p.w.stats.WriteErrors++
			h.p.w.tracef("%d   write error", h.p.id)
			return syscall.EIO
		}
		h.n.write(part, off)
		off += int64(len(part))
	}
	return nil
}

// Sync implements journal.File.
func (h *handle) Sync() error {
	err := h.p.syncFile(h.n, h.name)
	h.mustBeOpen()
	if h.n.errors != h.errors { // also failures of syncs of others
		h.errors = h.n.errors
		if err == nil {
			err = syscall.EIO
		}
	}
	if err != nil && !h.p.dead && h.write {
		h.p.w.check.broke(h.p, h.name)
	}
	if n, _ := h.p.w.disk.lookup(h.name); err == nil && h.write && n != h.n {
		return fmt.Errorf("%s was removed: %w", h.name, fs.ErrNotExist)
	}
	return err
}

// ReadMedium implements journal.File.
func (h *handle) ReadMedium(b []byte, off int64) (bool, error) {
	if off%journal.BlockBytes != 0 || len(b)%journal.BlockBytes != 0 {
		return false, fmt.Errorf("read %s past the cache at %d, %d bytes: %w", h.name, off, len(b), syscall.EINVAL)
	}
	if h.p.mediumless {
		return false, nil
	}
	if err := h.p.look("read %s past the cache at %d, %d bytes", h.name, off, len(b)); err != nil {
		return true, err
	}
	h.mustBeOpen()
	if h.n.medium(b, off) < len(b) {
		return true, io.EOF
	}
	return true, nil
}

// Size implements journal.File.
func (h *handle) Size() (int64, error) {
	if err := h.p.look("fstat %s", h.name); err != nil {
		return 0, err
	}
	h.mustBeOpen()
	return h.n.size.last(), nil
}

// Close implements journal.File.
func (h *handle) Close() error {
	h.closed = true
	return nil
}

// mustBeOpen reports the use of a closed handle: its descriptor may be that of another file.
func (h *handle) mustBeOpen() {
	if h.closed && !h.p.dead {
		h.p.w.failf("process %d uses %s after closing it", h.p.id, h.name)
	}
}

// cuts divides bytes at drawn places, sometimes at the borders of sectors. What it draws depends on
// its arguments alone, because calls come here in any order before their first step.
func (w *World) cuts(name string, off int64, b []byte) [][]byte {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	r := rand.New(rand.NewPCG(w.cfg.Seed+h.Sum64(), uint64(off)<<20+uint64(len(b))))
	var at []int
	for range r.IntN(w.cfg.Cuts + 1) {
		if len(b) > 1 {
			k := r.IntN(len(b))
			if r.IntN(2) == 0 {
				k -= k % sectorBytes
			}
			at = append(at, k)
		}
	}
	slices.Sort(at)
	var parts [][]byte
	from := 0
	for _, k := range append(at, len(b)) {
		if k > from || k == len(b) {
			parts = append(parts, b[from:k])
			from = k
		}
	}
	return parts
}

// openMark is an open watermark. Its writes are in the page cache at once, and no process syncs them: the disk
// writes them back at any time.
type openMark struct {
	p        *Process
	n        *inode
	name     string
	sequence uint64
	closed   bool
}

var _ journal.Mark = (*openMark)(nil)

// Set implements journal.Mark. A process can be killed after any byte.
func (m *openMark) Set(record []byte) error {
	m.sequence++
	b, off := watermark.Encode(m.sequence, record)
	for _, part := range m.p.w.cuts(m.name, off, b) {
		if err := m.p.change("set %s at %d, %d bytes", m.name, off, len(part)); err != nil {
			return err
		}
		if m.closed && !m.p.dead {
			m.p.w.failf("process %d sets %s after closing it", m.p.id, m.name)
		}
		m.n.write(part, off)
		off += int64(len(part))
	}
	return nil
}

// Close implements journal.Mark.
func (m *openMark) Close() error {
	m.closed = true
	return nil
}
