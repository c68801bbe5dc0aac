package broker

import (
	"encoding/binary"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// verifier checks a range's batches as they are read, and selects the wanted ones.
type verifier struct {
	*Piece
	pos  int64 // of the next batch, relative to the range's beginning
	base int64 // its offset
	// need is the size of the next batch if the buffer ended inside it.
	need     int64
	segments []Segment // verified by the last call
}

// verify checks the whole batches in buf, which begins at v.pos. It checks their checksums, and
// their offsets and epoch against the range, because no batch's checksum covers those. It stops at
// max bytes from the wanted offset on. Errors are damage.
func (v *verifier) verify(buf []byte) (out Chunk, err error) {
	v.segments, v.need = v.segments[:0], 0
	out.Verified = true
	from := -1 // start of the wanted batches in buf
	at := 0
	for at < len(buf) {
		rest := buf[at:]
		if len(rest) < record.BatchHeadSize {
			if int64(v.Range.Len)-v.pos < record.BatchHeadSize {
				return out, damaged("header of the batch at offset %d exceeds its range", v.base)
			}
			v.need = record.BatchHeadSize
			break
		}
		if size := int64(binary.BigEndian.Uint32(rest[8:])) + 12; size > int64(len(rest)) {
			if size > int64(v.Range.Len)-v.pos {
				return out, damaged("batch at offset %d exceeds its range", v.base)
			}
			v.need = size
			break
		}
		batch, _, err := record.Split(rest)
		if err != nil {
			return out, &damage{err}
		}
		n := int64(batch.Len())
		if out.Size > 0 && out.Size+n > v.Max {
			break
		}
		if err := v.check(batch); err != nil {
			return out, err
		}
		v.remember(n, batch.Span())
		v.pos += n
		v.base += batch.Span()
		if v.base > v.Offset {
			if from < 0 {
				from, out.Base = at, v.base-batch.Span()
			}
			out.Size += n
			out.End = v.base
		}
		at += int(n)
	}
	if from >= 0 {
		out.Parts = [][]byte{buf[from:at:at]}
	}
	return out, nil
}

func (v *verifier) check(batch record.Batch) error {
	if _, err := record.Verify(batch); err != nil {
		return &damage{err}
	}
	last := v.pos+int64(batch.Len()) == int64(v.Range.Len)
	switch end := v.base + batch.Span(); {
	case batch.BaseOffset() != v.base:
		return damaged("batch at offset %d, want %d", batch.BaseOffset(), v.base)
	case uint32(batch.LeaderEpoch()) > v.Range.Epoch:
		return damaged("batch at offset %d has epoch %d, above its object's %d", v.base, batch.LeaderEpoch(), v.Range.Epoch)
	case end > v.Range.End() || last != (end == v.Range.End()):
		return damaged("batch at offset %d ends at %d, its range at %d", v.base, end, v.Range.End())
	}
	return nil
}

// ObjectRange is the location of a range, with its first offset.
type ObjectRange struct {
	state.Source
	Base int64
	Len  uint32 // bytes
}

// Written adds a range that this process has stored to the index. The broker checked its batches
// before, so readers need not, and can have them as a section of a file at once. parts returns the
// range's whole batches; they are not kept.
func (r *Reader) Written(at ObjectRange, parts func() [][]byte) {
	if r.opt.Share || at.Len < sectionMin {
		return // it will not be a section
	}
	v := verifier{base: at.Base}
	for _, rest := range parts() {
		for len(rest) > 0 {
			batch, more, err := record.Split(rest)
			if err != nil {
				return // a reader will report the damage
			}
			v.remember(int64(batch.Len()), batch.Span())
			v.pos += int64(batch.Len())
			v.base += batch.Span()
			rest = more
		}
	}
	r.index.Add(at.Source, v.segments)
}

// segmentBytes is the granularity of the index of segments. A reader that begins inside a segment
// gets it from its beginning, and a section ends at the end of a segment.
const segmentBytes = 64 << 10

// remember adds a batch to the segments, to the last one while that stays below segmentBytes.
func (v *verifier) remember(size, span int64) {
	if n := len(v.segments); n > 0 && v.segments[n-1].Size+size <= segmentBytes {
		v.segments[n-1].Size += size
		v.segments[n-1].End += span
		return
	}
	v.segments = append(v.segments, Segment{Pos: v.pos, Size: size, Base: v.base, End: v.base + span})
}
