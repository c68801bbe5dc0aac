package compact

import (
	"cmp"
	"container/heap"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"github.com/sebbroker/seb/record"
)

// Scratch is a temporary file. Its content is gone when it is closed.
type Scratch interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
}

// entry is a triple of numbers, sorted by the first, then the second, then the third.
type entry [3]uint64

const (
	entrySize = 24
	// chunkEntries is how many entries are written at a time, and at most read at a time.
	chunkEntries = 512
)

// sorter sorts entries with bounded memory. Each time that its memory is full, it writes a sorted run
// to a file; the runs are then merged. Each run has a checksum, which is verified when the run was
// read to its end. So a caller must not use any entry before it has read all, unless it verifies the
// entries itself.
//
//	add ... add ──▶ sort ──▶ next ... next ──▶ close, or add again
type sorter struct {
	create  func() (Scratch, error)
	most    int // entries in memory
	entries []entry
	file    Scratch // nil: all entries are in memory
	runs    sortedRuns
	size    int64
}

// sortedRun is a run in the file, and the unread part of it.
type sortedRun struct {
	first entry  // not yet returned by next
	buf   []byte // what was read after first
	space []byte
	pos   int64
	left  int64 // bytes in the file from pos on
	sum   uint32
	read  uint32 // checksum of what was read
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// add adds an entry.
func (s *sorter) add(e entry) error {
	if len(s.entries) == s.most {
		if err := s.spill(); err != nil {
			return err
		}
	}
	if len(s.entries) == cap(s.entries) {
		s.entries = append(make([]entry, 0, min(s.most, max(2*len(s.entries), chunkEntries))), s.entries...)
	}
	s.entries = append(s.entries, e)
	return nil
}

// spill writes the entries in memory as a run.
func (s *sorter) spill() error {
	if s.file == nil {
		f, err := s.create()
		if err != nil {
			return err
		}
		s.file = f
	}
	slices.SortFunc(s.entries, compareEntries)
	run := &sortedRun{pos: s.size}
	chunk := make([]byte, 0, chunkEntries*entrySize)
	for part := range slices.Chunk(s.entries, chunkEntries) {
		chunk = chunk[:0]
		for i := range part {
			for _, n := range part[i] {
				chunk = binary.LittleEndian.AppendUint64(chunk, n)
			}
		}
		if _, err := s.file.WriteAt(chunk, s.size); err != nil {
			return fmt.Errorf("temporary file: %w", err)
		}
		run.sum = crc32.Update(run.sum, castagnoli, chunk)
		s.size += int64(len(chunk))
	}
	run.left = s.size - run.pos
	s.runs = append(s.runs, run)
	s.entries = s.entries[:0]
	return nil
}

// sort ends the adding. The memory of the entries is then shared by the buffers of the runs.
func (s *sorter) sort() error {
	if s.file == nil {
		slices.SortFunc(s.entries, compareEntries)
		return nil
	}
	if len(s.entries) > 0 {
		if err := s.spill(); err != nil {
			return err
		}
	}
	s.entries = nil
	each := min(max(s.most/len(s.runs), 1), chunkEntries)
	for _, r := range s.runs {
		r.space = make([]byte, each*entrySize)
		if _, err := r.advance(s.file); err != nil {
			return err
		}
	}
	heap.Init(&s.runs)
	return nil
}

// next returns the next entry in order; ok is false after the last.
func (s *sorter) next() (e entry, ok bool, err error) {
	if s.file == nil {
		if len(s.entries) == 0 {
			return e, false, nil
		}
		e, s.entries = s.entries[0], s.entries[1:]
		return e, true, nil
	}
	if len(s.runs) == 0 {
		return e, false, nil
	}
	e = s.runs[0].first
	more, err := s.runs[0].advance(s.file)
	switch {
	case err != nil:
		return e, false, err
	case more:
		heap.Fix(&s.runs, 0)
	default:
		heap.Pop(&s.runs)
	}
	return e, true, nil
}

// close drops all entries. The sorter is then empty.
func (s *sorter) close() {
	if s.file != nil {
		_ = s.file.Close()
	}
	*s = sorter{create: s.create, most: s.most}
}

// advance reads the next entry of the run into first; more is false at its end.
func (r *sortedRun) advance(f Scratch) (more bool, err error) {
	if len(r.buf) == 0 {
		if r.left == 0 {
			if r.read != r.sum {
				return false, &record.CorruptError{What: "sorted keys in a temporary file", Want: int64(r.sum), Got: int64(r.read)}
			}
			return false, nil
		}
		r.buf = r.space[:min(int64(len(r.space)), r.left)]
		if n, err := f.ReadAt(r.buf, r.pos); n < len(r.buf) {
			return false, fmt.Errorf("temporary file: %w", cmp.Or(err, io.ErrUnexpectedEOF))
		}
		r.read = crc32.Update(r.read, castagnoli, r.buf)
		r.pos += int64(len(r.buf))
		r.left -= int64(len(r.buf))
	}
	for i := range r.first {
		r.first[i] = binary.LittleEndian.Uint64(r.buf[8*i:])
	}
	r.buf = r.buf[entrySize:]
	return true, nil
}

// compareEntries is most of the time of a sort. The first numbers differ nearly always.
func compareEntries(a, b entry) int {
	for i := range a {
		if a[i] != b[i] {
			if a[i] < b[i] {
				return -1
			}
			return 1
		}
	}
	return 0
}

// sortedRuns is a heap of runs by their next entry.
type sortedRuns []*sortedRun

func (h sortedRuns) Len() int           { return len(h) }
func (h sortedRuns) Less(i, j int) bool { return compareEntries(h[i].first, h[j].first) < 0 }
func (h sortedRuns) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *sortedRuns) Push(r any)        { *h = append(*h, r.(*sortedRun)) }

func (h *sortedRuns) Pop() any {
	last := len(*h) - 1
	r := (*h)[last]
	*h = (*h)[:last]
	return r
}
