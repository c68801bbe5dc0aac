package record

import (
	"encoding/binary"
	"math"

	"github.com/sebbroker/seb/internal/codec"
)

// CompactEntry is what a Compactor asks about: a record by its offset and key. Null says that its value is null: with a
// key it is a tombstone. Key aliases the batch, or a buffer of the Compactor, until the next record.
type CompactEntry struct {
	Offset int64
	Key    []byte // nil: none
	Null   bool
}

// Compactor removes records from stored batches, as compaction does. The offsets that the batches take stay: a batch
// keeps its base offset, last offset delta and base timestamp, and one that loses all its records stays as a header
// without records. Emptied batches that follow one another become one. The zero Compactor is ready; it keeps its
// buffers and must not be used concurrently.
type Compactor struct {
	// Limits bounds the decompression of each batch. Set it before use.
	Limits Limits

	reader  Reader
	kept    []byte // records that stay, uncompressed
	maxTime int64  // the largest timestamp of theirs
}

// Append appends the concatenated batches in b to dst without the records for which keep is false, and says what is left.
// A batch that loses nothing comes out byte for byte as it was; one that loses some has its other records as they were,
// compressed anew with its codec (or not, where that would be longer). The sum's timestamps, producer and so on are those of
// Verify. On an error, which is a Reader's, dst comes back as it was.
func (c *Compactor) Append(dst, b []byte, keep func(e *CompactEntry) bool) (out []byte, sum Summary, err error) {
	out = dst
	start, size := len(dst), len(b)
	empty := -1 // where in out the last batch begins, if it is empty
	for len(b) > 0 {
		batch, rest, err := splitStored(b, int64(size-len(b)))
		if err != nil {
			return dst, Summary{}, err
		}
		count, kind, err := c.filter(batch, keep)
		if err != nil {
			return dst, Summary{}, err
		}
		at := len(out)
		switch {
		case count == 0 && empty >= 0 && joinEmpty(Batch(out[empty:]), batch):
			at = empty
		case count == batch.Count() && count > 0:
			out = append(out, batch...)
		default:
			if out, err = c.rewrite(out, batch, count, kind); err != nil {
				return dst, Summary{}, err
			}
		}
		if empty = -1; count == 0 {
			empty = at
		}
		b = rest
	}
	if sum, err = Verify(out[start:]); err != nil {
		return dst, Summary{}, err
	}
	return out, sum, nil
}

// filter collects in c.kept the records that stay, uncompressed, and returns how many they are.
func (c *Compactor) filter(batch Batch, keep func(*CompactEntry) bool) (count int, kind Compression, err error) {
	r := &c.reader
	r.Limits = c.Limits
	r.Reset(batch, math.MinInt64)
	c.kept, c.maxTime = c.kept[:0], math.MinInt64
	var e CompactEntry
	if !r.open() {
		return 0, None, r.Err()
	}
	for {
		before := r.records
		if !r.step() {
			return count, batch.Compression(), r.Err()
		}
		e = CompactEntry{Offset: r.offset, Key: r.raw.key, Null: r.raw.value == nil}
		if keep(&e) {
			c.kept = append(c.kept, before[:len(before)-len(r.records)]...)
			c.maxTime = max(c.maxTime, r.timestamp())
			count++
		}
	}
}

// rewrite appends the batch with the records that stay, count of them.
func (c *Compactor) rewrite(dst []byte, batch Batch, count int, kind Compression) ([]byte, error) {
	start := len(dst)
	dst = append(dst, batch[:BatchHeadSize]...)
	head := len(dst)
	if count > 0 && kind != None {
		var err error
		if dst, err = codec.Compress(dst, codec.Kind(kind), c.kept); err != nil {
			return dst[:start], err
		}
	}
	if count == 0 || kind == None || len(dst)-head >= len(c.kept) {
		kind = None
		dst = append(dst[:head], c.kept...)
	}
	b := Batch(dst[start:])
	binary.BigEndian.PutUint32(b[posLength:], uint32(len(b)-lengthBase))
	binary.BigEndian.PutUint16(b[posAttributes:], uint16(b.Attributes()&^AttrCompression|int16(kind)))
	binary.BigEndian.PutUint32(b[posCount:], uint32(count))
	if count > 0 {
		binary.BigEndian.PutUint64(b[posMaxTimestamp:], uint64(c.maxTime))
	}
	binary.BigEndian.PutUint32(b[posCRC:], b.checksum())
	return dst, nil
}

// joinEmpty lets the empty batch a take the offsets of b too, which follows it and is to be emptied. It does nothing and
// returns false where they would be too many, or were written in different epochs.
func joinEmpty(a, b Batch) bool {
	span := a.Span() + b.Span()
	if span > math.MaxInt32 || a.LeaderEpoch() != b.LeaderEpoch() {
		return false
	}
	binary.BigEndian.PutUint32(a[posLastOffsetDelta:], uint32(span-1))
	binary.BigEndian.PutUint64(a[posMaxTimestamp:], uint64(max(a.MaxTimestamp(), b.MaxTimestamp())))
	binary.BigEndian.PutUint64(a[posBaseTimestamp:], uint64(min(a.BaseTimestamp(), b.BaseTimestamp())))
	binary.BigEndian.PutUint32(a[posCRC:], a.checksum())
	return true
}
