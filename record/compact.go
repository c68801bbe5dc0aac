package record

import (
	"encoding/binary"
	"math"

	"github.com/sebbroker/seb/internal/codec"
)

// CompactEntry describes a record for the decision of a Compactor. Null means a null value: with a
// key the record is a tombstone. Key aliases the batch or a buffer of the Compactor, until the next
// record.
type CompactEntry struct {
	Offset int64
	Key    []byte // nil: no key
	Null   bool
}

// Compactor removes records from stored batches, for compaction. Offsets do not change: a batch
// keeps its base offset, last offset delta and base timestamp. A batch that loses all its records
// stays as a header, and consecutive empty batches become one. The zero Compactor is ready. It
// keeps its buffers and must not be used concurrently.
type Compactor struct {
	// Limits bounds the decompression of each batch. Set it before use.
	Limits Limits

	reader  Reader
	kept    []byte // kept records, uncompressed
	maxTime int64  // largest timestamp of the kept records
}

// Append appends the batches of b to dst without the records for which keep is false, and returns
// the sum of the result. A batch that loses no record is copied unchanged. Otherwise the kept
// records are unchanged, and are compressed with the batch's codec, unless that makes them longer.
// The sum has the timestamps and producer of Verify. On an error of the Reader dst is returned
// unchanged.
func (c *Compactor) Append(dst, b []byte, keep func(e *CompactEntry) bool) (out []byte, sum Summary, err error) {
	out = dst
	start, size := len(dst), len(b)
	empty := -1 // start of the last batch in out, if it is empty
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

// filter collects the kept records in c.kept, uncompressed, and returns their number.
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

// rewrite appends the batch with count kept records.
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

// joinEmpty extends the empty batch a by the offsets of the following batch b, which is about to be
// emptied. It returns false and changes nothing if there are too many offsets, or if the epochs
// differ.
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
