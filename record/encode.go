package record

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"

	"github.com/sebbroker/seb/internal/engine/base/codec"
)

// Producer identifies an idempotent producer and the sequence of its first record.
type Producer struct {
	ID       int64
	Epoch    int16
	Sequence int32
}

// EncodeOptions are options of Append. The zero value means no compression and no producer.
type EncodeOptions struct {
	Compression Compression
	Producer    *Producer
	// Transactional: the batches are part of a transaction of Producer.
	Transactional bool
	BatchBytes    int // maximum size of a batch before compression; 0 or more than BatchTarget: BatchTarget
}

// Append appends recs to dst as concatenated batches of at most BatchBytes before compression; a
// larger record gets its own batch. Base offsets start at 0 and the leader epoch is
// 0 until Patch sets them. Errors: no records, a record over 2 GiB, more than HeadersMax headers,
// or timestamps too far apart. On an error dst is returned unchanged.
func Append(dst []byte, recs []Record, o EncodeOptions) ([]byte, Summary, error) {
	if len(recs) == 0 {
		return dst, Summary{}, fmt.Errorf("encode: no records")
	}
	if o.Compression > Zstd {
		return dst, Summary{}, fmt.Errorf("encode: %w", codec.ErrUnknown)
	}
	sum := Summary{
		Records: len(recs), Span: int64(len(recs)), ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1,
		MinTimestamp: recs[0].Timestamp, MaxTimestamp: recs[0].Timestamp, Transactional: o.Transactional,
	}
	if p := o.Producer; p != nil {
		sum.ProducerID, sum.ProducerEpoch, sum.BaseSequence = p.ID, p.Epoch, p.Sequence
	}
	out := dst
	for done := 0; done < len(recs); {
		n, size, err := cutBatch(recs[done:], cmp.Or(min(o.BatchBytes, BatchTarget), BatchTarget))
		if err != nil {
			return dst, Summary{}, fmt.Errorf("encode record %d: %w", done+n, err)
		}
		h := batchHead{
			attributes: int16(o.Compression), producerID: sum.ProducerID, producerEpoch: sum.ProducerEpoch, baseSequence: sum.BaseSequence,
		}
		if o.Transactional {
			h.attributes |= AttrTransactional
		}
		if sum.ProducerID >= 0 {
			h.baseSequence = nextSequence(sum.BaseSequence, int64(done))
		}
		start := len(out)
		if out, err = appendBatch(out, recs[done:done+n], size, &h); err != nil {
			return dst, Summary{}, fmt.Errorf("encode: %w", err)
		}
		binary.BigEndian.PutUint64(out[start:], uint64(done))
		sum.MinTimestamp, sum.MaxTimestamp = min(sum.MinTimestamp, h.minTime), max(sum.MaxTimestamp, h.maxTime)
		sum.Batches++
		done += n
	}
	return out, sum, nil
}

// cutBatch returns the number of recs in the next batch, and its uncompressed size. On an error n
// is the index of the invalid record.
func cutBatch(recs []Record, most int) (n, size int, err error) {
	size = BatchHeadSize
	for i := range recs {
		body, err := bodySize(&recs[i], recs[0].Timestamp, i)
		if err != nil {
			return i, 0, err
		}
		whole := varintSize(int64(body)) + body
		if i > 0 && size+whole > most {
			return i, size, nil
		}
		size += whole
	}
	return len(recs), size, nil
}

// appendBatch appends one batch of recs, whose uncompressed size is size bytes.
func appendBatch(dst []byte, recs []Record, size int, h *batchHead) ([]byte, error) {
	start := len(dst)
	h.count, h.baseTime, h.minTime, h.maxTime = len(recs), recs[0].Timestamp, recs[0].Timestamp, recs[0].Timestamp
	var head [BatchHeadSize]byte
	var plain []byte
	kind := Compression(h.attributes & AttrCompression)
	if dst = append(dst, head[:]...); kind == None {
		plain = dst
	} else {
		plain = make([]byte, 0, size)
	}
	for i := range recs {
		r := &recs[i]
		h.minTime, h.maxTime = min(h.minTime, r.Timestamp), max(h.maxTime, r.Timestamp)
		plain = appendRecord(plain, r, h.baseTime, i)
	}
	if kind == None {
		dst = plain
	} else {
		var err error
		if dst, err = codec.Compress(dst, codec.Kind(kind), plain); err != nil {
			return dst, err
		}
	}
	b := Batch(dst[start:])
	h.length = len(b)
	putBatchHead(b, h)
	binary.BigEndian.PutUint32(b[posCRC:], b.checksum())
	return dst, nil
}

// bodySize returns the length of a record without its length field, or the reason why it cannot be
// encoded.
func bodySize(r *Record, baseTime int64, i int) (int, error) {
	delta := r.Timestamp - baseTime
	if (r.Timestamp < baseTime) != (delta < 0) {
		return 0, fmt.Errorf("timestamp %d too far from %d", r.Timestamp, baseTime)
	}
	if len(r.Headers) > HeadersMax {
		return 0, fmt.Errorf("%d headers, limit %d", len(r.Headers), HeadersMax)
	}
	n := 1 + varintSize(delta) + varintSize(int64(i)) + nullableSize(r.Key) + nullableSize(r.Value) + varintSize(int64(len(r.Headers)))
	for _, h := range r.Headers {
		n += varintSize(int64(len(h.Key))) + len(h.Key) + nullableSize(h.Value)
	}
	if n > math.MaxInt32-BatchHeadSize-binary.MaxVarintLen32 {
		return 0, fmt.Errorf("%d bytes do not fit in a batch", n)
	}
	return n, nil
}

func appendRecord(dst []byte, r *Record, baseTime int64, i int) []byte {
	body, _ := bodySize(r, baseTime, i) // checked by cutBatch
	dst = binary.AppendVarint(dst, int64(body))
	dst = append(dst, 0)
	dst = binary.AppendVarint(dst, r.Timestamp-baseTime)
	dst = binary.AppendVarint(dst, int64(i))
	dst = appendNullable(dst, r.Key)
	dst = appendNullable(dst, r.Value)
	dst = binary.AppendVarint(dst, int64(len(r.Headers)))
	for _, h := range r.Headers {
		dst = binary.AppendVarint(dst, int64(len(h.Key)))
		dst = append(dst, h.Key...)
		dst = appendNullable(dst, h.Value)
	}
	return dst
}

func appendNullable(dst, v []byte) []byte {
	if v == nil {
		return append(dst, 1) // -1
	}
	dst = binary.AppendVarint(dst, int64(len(v)))
	return append(dst, v...)
}

func nullableSize(v []byte) int {
	if v == nil {
		return 1
	}
	return varintSize(int64(len(v))) + len(v)
}

// varintSize returns the length of the zigzag varint of v.
func varintSize(v int64) int {
	u := uint64(v<<1) ^ uint64(v>>63)
	return (bits.Len64(u|1) + 6) / 7
}

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
// stays as a header that is part of no transaction, and consecutive empty batches become one. Markers
// stay unchanged unless Drop drops them. The zero Compactor is ready. It keeps its buffers and must not
// be used concurrently.
type Compactor struct {
	// Limits bounds the decompression of each batch. Set it before use.
	Limits Limits
	// Drop, if not nil, reports whether a batch loses everything: all its records or, if it is a marker, its
	// control record. Append then does not ask for the records.
	Drop func(Batch) bool

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
		case count < 0 || count == batch.Count() && count > 0:
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

// filter collects the kept records in c.kept, uncompressed, and returns their number, or -1 for a marker that
// stays.
func (c *Compactor) filter(batch Batch, keep func(*CompactEntry) bool) (count int, kind Compression, err error) {
	r := &c.reader
	r.Limits = c.Limits
	r.Reset(batch, math.MinInt64)
	c.kept, c.maxTime = c.kept[:0], math.MinInt64
	var e CompactEntry
	if !r.open() {
		return 0, None, r.Err()
	}
	if c.Drop != nil && c.Drop(batch) {
		return 0, None, nil
	}
	if batch.Control() {
		return -1, None, nil
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
	attributes := b.Attributes()&^AttrCompression | int16(kind)
	if count == 0 {
		attributes &^= AttrTransactional | AttrControl
	}
	binary.BigEndian.PutUint16(b[posAttributes:], uint16(attributes))
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
