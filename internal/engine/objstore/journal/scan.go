package journal

import (
	"bytes"
	"hash/crc32"
	"io"
)

// Kinds of parts.
const (
	PartObjects   = "objects"     // a batch
	PartEndOfFile = "end of file" // a batch that says that the next file follows
	PartDamaged   = "damaged"     // no valid batch, before a valid one
	PartUnused    = "unused"      // zeros to the end of the file
	PartRest      = "rest"        // to the end of the file: a torn batch, or a damaged one
)

// Part is a part of a journal file.
type Part struct {
	Kind          string
	Run           Run // of a batch
	Offset, Bytes int64
	Objects       []Object
}

// Object is an object of a batch.
type Object struct {
	Name         string
	Offset, Size int64
	Large        bool // it is the file Large, and has no offset
	Damaged      bool // its checksum does not match
}

// Scan calls found with each part of a journal file, in order, as far as the file alone tells.
func Scan(f io.ReaderAt, size int64, number uint64, found func(*Part) error) error {
	s := scan{f: f, size: size}
	gap, zero := int64(-1), true
	for at := int64(0); at < size; {
		b, head, err := s.batch(Position{number, at})
		if err != nil {
			return err
		}
		if b == nil {
			if gap < 0 {
				gap, zero = at, true
			}
			zero = zero && len(bytes.Trim(head, "\x00")) == 0
			at += BlockBytes
			continue
		}
		if gap >= 0 {
			if err := found(&Part{Kind: PartDamaged, Offset: gap, Bytes: at - gap}); err != nil {
				return err
			}
			gap = -1
		}
		p := &Part{Kind: PartObjects, Run: s.run, Offset: at, Bytes: b.length}
		if b.kind == kindEndOfFile {
			p.Kind = PartEndOfFile
		}
		if p.Objects, err = s.objects(b); err != nil {
			return err
		}
		if err := found(p); err != nil {
			return err
		}
		at = b.next()
	}
	if gap < 0 {
		return nil
	}
	p := &Part{Kind: PartRest, Offset: gap, Bytes: size - gap}
	if zero {
		p.Kind = PartUnused
	}
	return found(p)
}

type scan struct {
	f     io.ReaderAt
	size  int64
	run   Run
	known bool // run is that of a valid batch
}

// batch decodes the batch at a position; nil if there is none. It also returns the block there.
func (s *scan) batch(at Position) (*batch, []byte, error) {
	block := make([]byte, min(BlockBytes, s.size-at.Offset))
	if _, err := s.f.ReadAt(block, at.Offset); err != nil && err != io.EOF {
		return nil, nil, err
	}
	if !s.known && len(block) >= headBytes {
		s.run = Run(block[8:24])
	}
	n, err := headLength(block, s.run, at)
	if err != nil || at.Offset+n > s.size {
		return nil, block, nil
	}
	head := block
	if n > int64(len(head)) {
		head = make([]byte, n)
		if _, err := s.f.ReadAt(head, at.Offset); err != nil && err != io.EOF {
			return nil, nil, err
		}
	}
	b, err := decodeHead(head[:n], at)
	if err != nil || at.Offset+b.length > s.size {
		return nil, block, nil
	}
	s.known = true
	return b, block, nil
}

func (s *scan) objects(b *batch) ([]Object, error) {
	objects := make([]Object, 0, len(b.frames))
	for _, f := range b.frames {
		o := Object{Name: f.key, Offset: f.offset, Size: f.size, Large: f.kind == frameFile}
		if !o.Large {
			sum := crc32.New(castagnoli)
			if _, err := io.Copy(sum, io.NewSectionReader(s.f, f.offset, f.size)); err != nil {
				return nil, err
			}
			o.Damaged = sum.Sum32() != f.crc
		}
		objects = append(objects, o)
	}
	return objects, nil
}

// DecodeGone calls found with each object that a file of tombstones names: the offset of its batch and
// its name.
func DecodeGone(b []byte, found func(batch int64, name string)) { decodeGone(b, found) }

// DecodeEnd returns the run and the position that an end names; ok is false if b is no end.
func DecodeEnd(b []byte) (run Run, end Position, ok bool) {
	fields, ok := unsealed(b, endWords, 3)
	if !ok || !run.parse(fields[0]) {
		return run, end, false
	}
	end, ok = decodeEnd(b, run)
	return run, end, ok
}

// DecodePosition returns the run of a position file, and the position up to which its batches were stored;
// ok is false if there is none.
func DecodePosition(b []byte) (run Run, at Position, ok bool) { return decodePosition(b) }
