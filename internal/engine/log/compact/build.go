package compact

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/sebbroker/seb/internal/engine/base/sorting"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
)

// gapMax is the size of a gap between two wanted ranges of an object up to which one request reads
// both.
const gapMax = 256 << 10

// smallMax is the size of a range up to which it is read into memory, together with the next ones. A
// busy broker merges tens of thousands of ranges of a few KiB. For those, copies by the kernel, and a
// write for each, take more time than a read and a write of many.
const smallMax = 64 << 10

// joinedMax bounds the bytes that are written at once.
const joinedMax = 256 << 10

// forgetAfter is how many bytes of a mapping are read before its pages are dropped.
const forgetAfter = 256 << 10

// output is a pack in a file: an unnamed one, or a staged object of the store.
type output struct {
	file   *os.File
	staged *objstore.Staged // the staged object that file belongs to, if the store can publish it
	size   int64
	head   int64 // size of head and index
}

func (p *output) close() {
	if p.staged != nil {
		_ = p.staged.Close()
		return
	}
	_ = p.file.Close()
}

// piece is a source and its position in the pack.
type piece struct {
	r    *state.Range
	key  string // of its object
	from int64  // position in the file
}

// build writes the pack and verifies all of it: checksums, offsets, record counts. If a range is
// damaged, the check of each finds it.
func (m *Merger) build(ctx context.Context, l *Layout, view *state.State) (_ *output, err error) {
	sources := l.Sources()
	p, err := m.newPack(ctx, len(l.Index), sizeOf(sources))
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	pieces, err := m.gather(ctx, p, sources, view)
	if err != nil {
		return nil, err
	}
	if err = p.seal(l, &m.pace); !errors.Is(err, record.ErrCorrupt) {
		return p, err
	}
	mapped, err := mapFile(p.file, p.size)
	if err != nil {
		return nil, err
	}
	defer mapped.close()
	if err = m.check(ctx, p.file, mapped, pieces); err != nil {
		return nil, err
	}
	return p, p.seal(l, &m.pace)
}

func sizeOf(ranges []*state.Range) (size int64) {
	for _, r := range ranges {
		size += int64(r.Len)
	}
	return size
}

// newPack creates the file of a pack with the given number of index entries and bytes of batches.
// If the store keeps its objects in files, the file is created there.
func (m *Merger) newPack(ctx context.Context, entries int, batches int64) (*output, error) {
	head := int64(record.HeadSize) + int64(entries)*record.IndexEntrySize
	stager, ok := m.opt.Store.(objstore.Stager)
	if !ok {
		return m.scratch(head, batches)
	}
	staged, err := stager.Stage(ctx, head+batches)
	if err != nil {
		return nil, err
	}
	return newPack(&output{file: staged.File, staged: staged, head: head, size: head + batches})
}

// scratch creates a temporary file for a head and batches.
func (m *Merger) scratch(head, batches int64) (*output, error) {
	f, err := m.tempFile()
	if err != nil {
		return nil, err
	}
	return newPack(&output{file: f, head: head, size: head + batches})
}

func newPack(p *output) (*output, error) {
	if err := p.file.Truncate(p.size); err != nil {
		p.close()
		return nil, fmt.Errorf("temporary file: %w", err)
	}
	return p, nil
}

// gather copies ranges to their positions behind the head.
func (m *Merger) gather(ctx context.Context, p *output, ranges []*state.Range, view *state.State) ([]piece, error) {
	pieces, at := make([]piece, 0, len(ranges)), p.head
	for _, r := range ranges {
		pieces = append(pieces, piece{r: r, key: view.RangeKey(r), from: at})
		at += int64(r.Len)
	}
	sorting.Sort(pieces, func(a, b piece) int { // the order of a journal
		return cmp.Or(strings.Compare(a.key, b.key), cmp.Compare(a.r.Pos, b.r.Pos))
	})
	return pieces, m.copyPieces(ctx, p.file, pieces)
}

// tempFile creates a file without a name: it is deleted when it is closed, however this process
// ends.
func (m *Merger) tempFile() (*os.File, error) {
	f, err := os.CreateTemp(m.opt.TempDir, "seb-pack-*")
	if err != nil {
		return nil, fmt.Errorf("temporary file: %w", err)
	}
	if err = os.Remove(f.Name()); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("temporary file: %w", err)
	}
	return f, nil
}

// seal verifies the batches in the file, and writes head and index before them.
func (p *output) seal(l *Layout, pace *pace) error {
	batches := pacedReader{io.NewSectionReader(p.file, p.head, p.size-p.head), pace, localRest}
	prefix, err := record.EncodeObjectOf(&l.Head, l.Index, bufio.NewReaderSize(batches, smallMax), make([]byte, smallMax))
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	if _, err = p.file.WriteAt(prefix, 0); err != nil {
		return fmt.Errorf("temporary file: %w", err)
	}
	return nil
}

// copyPieces copies pieces, in the order of their objects, to their positions in the file. One request
// reads pieces that are close together.
func (m *Merger) copyPieces(ctx context.Context, f *os.File, pieces []piece) error {
	to := joiner{file: f, buf: m.small[:0]}
	for len(pieces) > 0 {
		key, n, end := pieces[0].key, 1, pieces[0].end()
		for n < len(pieces) && pieces[n].key == key && int64(pieces[n].r.Pos)-end <= gapMax {
			end = pieces[n].end()
			n++
		}
		if err := m.copySpan(ctx, &to, pieces[:n], end); err != nil {
			if gone(err) {
				for _, p := range pieces[:n] {
					m.bad[p.r.Source()] = struct{}{}
				}
			}
			return fmt.Errorf("read %s: %w", key, err)
		}
		pieces = pieces[n:]
	}
	return to.flush()
}

// end returns the end of the piece in its object.
func (p *piece) end() int64 { return int64(p.r.Pos) + int64(p.r.Len) }

// joiner joins writes of adjacent bytes of a file.
type joiner struct {
	file *os.File
	buf  []byte // will be written at
	at   int64
}

// next returns the memory for the next n bytes, which belong to a position in the file.
func (j *joiner) next(pos int64, n int) ([]byte, error) {
	if pos != j.at+int64(len(j.buf)) || len(j.buf)+n > cap(j.buf) {
		if err := j.flush(); err != nil {
			return nil, err
		}
		j.at = pos
	}
	from := len(j.buf)
	j.buf = j.buf[:from+n]
	return j.buf[from:], nil
}

func (j *joiner) flush() error {
	_, err := j.file.WriteAt(j.buf, j.at)
	j.buf = j.buf[:0]
	return err
}

// gone reports whether an object is missing or has lost bytes, so that a retry does not help. A body
// that was cut off in transit is no verdict.
func gone(err error) bool {
	is := func(target error) bool { return errors.Is(err, target) }
	if is(objstore.ErrNoVerdict) {
		return false
	}
	return is(objstore.ErrNotFound) || is(objstore.ErrDamaged) || is(objstore.ErrOutOfRange) || is(io.EOF) || is(io.ErrUnexpectedEOF)
}

func (m *Merger) copySpan(ctx context.Context, to *joiner, pieces []piece, end int64) error {
	pos := int64(pieces[0].r.Pos)
	ctx, cancel := context.WithTimeout(ctx, readTimeout+time.Duration((end-pos)>>20)*time.Second)
	defer cancel()
	o, err := m.opt.Store.Get(ctx, pieces[0].key, objstore.Range{Offset: pos, Length: end - pos})
	if err != nil {
		return err
	}
	defer o.Body.Close()
	if s, ok := o.Body.(*objstore.Section); ok {
		return m.copySection(to, s, pieces)
	}
	for i := range pieces {
		p := &pieces[i]
		if _, err := io.CopyN(io.Discard, o.Body, int64(p.r.Pos)-pos); err != nil {
			return err
		}
		if err := m.copyStream(to, o.Body, p); err != nil {
			return err
		}
		m.pace.rest(remoteRest)
		pos = p.end()
	}
	return nil
}

// copyStream copies the next range of a stream. A stream that ends early is io.EOF or
// io.ErrUnexpectedEOF.
func (m *Merger) copyStream(to *joiner, from io.Reader, p *piece) error {
	if p.r.Len > smallMax {
		_, err := io.CopyN(io.NewOffsetWriter(to.file, p.from), pacedReader{from, &m.pace, remoteRest}, int64(p.r.Len))
		return err
	}
	b, err := to.next(p.from, int(p.r.Len))
	if err == nil {
		_, err = io.ReadFull(from, b)
	}
	return err
}

// copySection copies ranges from one file to another. The kernel copies the large ones.
func (m *Merger) copySection(to *joiner, s *objstore.Section, pieces []piece) error {
	begin := int64(pieces[0].r.Pos)
	for i := range pieces {
		p := &pieces[i]
		from, n := s.Off+int64(p.r.Pos)-begin, int64(p.r.Len)
		if from+n > s.Off+s.Len {
			return io.EOF
		}
		if n > smallMax {
			if err := m.copyLarge(to.file, p.from, s.File, from, n); err != nil {
				return err
			}
			continue
		}
		b, err := to.next(p.from, int(n))
		if err != nil {
			return err
		}
		if done, err := s.File.ReadAt(b, from); done < len(b) {
			return errors.Join(io.ErrUnexpectedEOF, err)
		}
		m.pace.rest(localRest)
	}
	return nil
}

// copyLarge copies bytes between positions of two files, and rests meanwhile.
func (m *Merger) copyLarge(to *os.File, at int64, from *os.File, pos, n int64) error {
	const portion = 1 << 20
	for done := int64(0); done < n; done += portion {
		if err := copyFile(to, at+done, from, pos+done, min(n-done, portion)); err != nil {
			return err
		}
		m.pace.rest(localRest)
	}
	return nil
}

// check verifies each piece in the file. A damaged range is read once more, because it may have been
// damaged in transit. If it is still damaged it stays in its object: merging around it loses nothing,
// and readers get the named error.
func (m *Merger) check(ctx context.Context, f *os.File, mapped *mapping, pieces []piece) error {
	read := int64(0)
	for i := range pieces {
		p := &pieces[i]
		if read += int64(p.r.Len); read > forgetAfter {
			mapped.forget()
			read = 0
		}
		b := mapped.data[p.from : p.from+int64(p.r.Len)]
		err := p.verify(b)
		if err != nil {
			objstore.Forget(m.opt.Store, p.key)
			if err := m.copyPieces(ctx, f, pieces[i:i+1]); err != nil {
				return err
			}
			err = p.verify(b)
		}
		if err != nil {
			m.bad[p.r.Source()] = struct{}{}
			return fmt.Errorf("%s at %d: %w", p.key, p.r.Pos, err)
		}
		m.pace.rest(localRest)
	}
	return nil
}

// verify checks the bytes of a range against the state. No checksum covers the offset of its first
// batch.
func (p *piece) verify(b []byte) error {
	sum, err := record.Verify(b)
	if err != nil {
		return err
	}
	if base := record.Batch(b).BaseOffset(); base != p.r.Base || sum.Span != int64(p.r.Span) || sum.Records != int(p.r.Records) {
		return fmt.Errorf("%d records over %d offsets from %d on, want %d over %d from %d on",
			sum.Records, sum.Span, base, p.r.Records, p.r.Span, p.r.Base)
	}
	return nil
}
