package compact

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
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

// smallMax is the size of a range up to which it is read into memory and verified there. A busy
// broker merges tens of thousands of ranges of a few KiB. For one of those, a copy by the kernel and a
// mapping take more time than a read and a write.
const smallMax = 64 << 10

// forgetAfter is how many bytes of a mapping are read before its pages are dropped.
const forgetAfter = 256 << 10

// output is a built pack in an unnamed, mapped file. Its resident memory belongs to the page cache.
type output struct {
	*mapping // nil until mapFile
	file     *os.File
	staged   *objstore.Staged // the staged object that file belongs to, if the store can publish it
	size     int64
	head     int64 // size of head and index in data
}

func (p *output) close() {
	if p.mapping != nil {
		p.mapping.close()
	}
	if p.staged != nil {
		_ = p.staged.Close()
		return
	}
	_ = p.file.Close()
}

func (p *output) crc() uint32 { return record.ObjectCRC32C(p.data[:p.head], [][]byte{p.data[p.head:]}) }

// piece is a source and its position in the pack.
type piece struct {
	r        *state.Range
	from     int64 // position in the file
	verified bool  // when it was copied
}

// build writes the pack and verifies all of it against its sources: checksums, offsets, record
// counts.
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
	if err = m.gather(ctx, p, sources, view); err != nil {
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

// gather copies ranges to their positions behind the head, maps the file and verifies each range.
func (m *Merger) gather(ctx context.Context, p *output, ranges []*state.Range, view *state.State) error {
	objects, at := map[string][]piece{}, p.head
	for _, r := range ranges {
		key := view.RangeKey(r)
		objects[key] = append(objects[key], piece{r: r, from: at})
		at += int64(r.Len)
	}
	keys := sorting.Sorted(maps.Keys(objects), strings.Compare) // the order of a journal
	for _, key := range keys {
		if err := m.copyObject(ctx, p.file, key, objects[key]); err != nil {
			return err
		}
	}
	if err := p.mapFile(); err != nil {
		return err
	}
	return m.verifySources(ctx, p, keys, objects)
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

// mapFile maps all of the file.
func (p *output) mapFile() (err error) {
	p.mapping, err = mapFile(p.file, p.size)
	return err
}

// seal writes head and index before the batches, and verifies the whole object.
func (p *output) seal(l *Layout, pace *pace) error {
	prefix, err := record.EncodeObject(&l.Head, nil, l.Index, [][]byte{p.data[p.head:]})
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	if _, err = p.file.WriteAt(prefix, 0); err != nil {
		return fmt.Errorf("temporary file: %w", err)
	}
	if err = p.verify(pace); err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	return nil
}

// verify reads and verifies the whole object.
func (p *output) verify(pace *pace) error {
	head, _, index, need, err := record.DecodeMeta(p.data[:p.head])
	if err != nil {
		return err
	}
	if need > 0 || head.ObjectLen != uint64(p.size) {
		return fmt.Errorf("%d bytes of head and index, %d in all; %d more needed, %d in all named", p.head, p.size, need, head.ObjectLen)
	}
	batches := pacedReader{io.NewSectionReader(p.file, p.head, p.size-p.head), pace}
	return record.VerifyBody(&head, index, bufio.NewReaderSize(batches, smallMax), make([]byte, smallMax))
}

// copyObject reads the pieces of one object to their positions in the file. One request reads
// pieces that are close together.
func (m *Merger) copyObject(ctx context.Context, f *os.File, key string, pieces []piece) error {
	sorting.Sort(pieces, func(a, b piece) int { return cmp.Compare(a.r.Pos, b.r.Pos) })
	for len(pieces) > 0 {
		n, end := 1, int64(pieces[0].r.Pos)+int64(pieces[0].r.Len)
		for n < len(pieces) && int64(pieces[n].r.Pos)-end <= gapMax {
			end = int64(pieces[n].r.Pos) + int64(pieces[n].r.Len)
			n++
		}
		if err := m.copySpan(ctx, f, key, pieces[:n], end); err != nil {
			if gone(err) {
				for _, p := range pieces[:n] {
					m.bad[p.r.Source()] = struct{}{}
				}
			}
			return fmt.Errorf("read %s: %w", key, err)
		}
		m.pace.add(int(end-int64(pieces[0].r.Pos)) + n*rangeCost)
		pieces = pieces[n:]
	}
	return nil
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

func (m *Merger) copySpan(ctx context.Context, f *os.File, key string, pieces []piece, end int64) error {
	pos := int64(pieces[0].r.Pos)
	ctx, cancel := context.WithTimeout(ctx, readTimeout+time.Duration((end-pos)>>20)*time.Second)
	defer cancel()
	o, err := m.opt.Store.Get(ctx, key, objstore.Range{Offset: pos, Length: end - pos})
	if err != nil {
		return err
	}
	defer o.Body.Close()
	if s, ok := o.Body.(*objstore.Section); ok {
		return m.copySection(f, s, pieces)
	}
	for i := range pieces {
		p := &pieces[i]
		if _, err := io.CopyN(io.Discard, o.Body, int64(p.r.Pos)-pos); err != nil {
			return err
		}
		if err := m.copyStream(f, o.Body, p); err != nil {
			return err
		}
		pos = int64(p.r.Pos) + int64(p.r.Len)
	}
	return nil
}

// copyStream copies the next range of a stream. A stream that ends early is io.EOF or
// io.ErrUnexpectedEOF.
func (m *Merger) copyStream(f *os.File, from io.Reader, p *piece) error {
	if p.r.Len > smallMax {
		_, err := io.CopyN(io.NewOffsetWriter(f, p.from), from, int64(p.r.Len))
		return err
	}
	b := m.small[:p.r.Len]
	if _, err := io.ReadFull(from, b); err != nil {
		return err
	}
	return p.write(f, b)
}

// copySection copies ranges from one file to another. The kernel copies the large ones.
func (m *Merger) copySection(f *os.File, s *objstore.Section, pieces []piece) error {
	begin := int64(pieces[0].r.Pos)
	for i := range pieces {
		p := &pieces[i]
		from, n := s.Off+int64(p.r.Pos)-begin, int64(p.r.Len)
		if from+n > s.Off+s.Len {
			return io.EOF
		}
		if n > smallMax {
			if err := copyFile(f, p.from, s.File, from, n); err != nil {
				return err
			}
			continue
		}
		if done, err := s.File.ReadAt(m.small[:n], from); done < int(n) {
			return errors.Join(io.ErrUnexpectedEOF, err)
		}
		if err := p.write(f, m.small[:n]); err != nil {
			return err
		}
	}
	return nil
}

// write writes the bytes of a range, damaged or not.
func (p *piece) write(f *os.File, b []byte) error {
	p.verified = p.verify(b) == nil
	_, err := f.WriteAt(b, p.from)
	return err
}

// verifySources checks the ranges that were not verified when they were copied. A damaged range is
// read once more, because it may have been damaged in transit. If it is still damaged it stays where
// it is: merging around it loses nothing, and readers get the named error.
func (m *Merger) verifySources(ctx context.Context, p *output, keys []string, objects map[string][]piece) error {
	read := int64(0)
	for _, key := range keys {
		for _, c := range objects[key] {
			if c.verified {
				continue
			}
			if read += int64(c.r.Len); read > forgetAfter {
				p.forget()
				read = 0
			}
			err := c.verify(p.of(c))
			if err != nil {
				objstore.Forget(m.opt.Store, key)
				if err := m.copyObject(ctx, p.file, key, []piece{c}); err != nil {
					return err
				}
				err = c.verify(p.of(c))
			}
			if err != nil {
				m.bad[c.r.Source()] = struct{}{}
				return fmt.Errorf("%s at %d: %w", key, c.r.Pos, err)
			}
		}
	}
	return nil
}

// of returns the bytes of a range in the mapped file.
func (p *output) of(c piece) []byte { return p.data[c.from : c.from+int64(c.r.Len)] }

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
