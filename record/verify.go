package record

import (
	"cmp"
	"encoding/binary"
	"errors"
	"io"
	"math"

	"github.com/sebbroker/seb/internal/engine/base/codec"
)

// Verify checks concatenated stored batches: bounds, checksums, counts, and offsets without a gap,
// as committed batches of one partition have. It does not decompress or parse records, so it runs
// at the speed of the checksum. The error is a *CorruptError. Summary describes the timestamps of
// the result.
func Verify(b []byte) (Summary, error) {
	var s Summary
	var next int64
	size := len(b)
	if size == 0 {
		return s, &CorruptError{What: "no batch"}
	}
	for len(b) > 0 {
		pos := int64(size - len(b))
		batch, rest, err := splitStored(b, pos)
		if err != nil {
			return Summary{}, err
		}
		if want := batch.checksum(); want != batch.CRC() {
			return Summary{}, &CorruptError{What: "batch checksum", Pos: pos, Want: int64(want), Got: int64(batch.CRC())}
		}
		if s.Batches > 0 && batch.BaseOffset() != next {
			return Summary{}, &CorruptError{What: "batch base offset", Pos: pos, Want: next, Got: batch.BaseOffset()}
		}
		next = batch.BaseOffset() + batch.Span()
		s.add(batch)
		b = rest
	}
	return s, nil
}

// splitStored is Split for stored batches. It also checks the ranges of the header's fields. pos is
// the position of b, for the error.
func splitStored(b []byte, pos int64) (first Batch, rest []byte, err error) {
	n, fault := batchBounds(b)
	if fault != nil {
		return nil, b, &CorruptError{What: "batch", Pos: pos, Err: fault}
	}
	first = Batch(b[:n:n])
	if err := first.checkStored(pos); err != nil {
		return nil, b, err
	}
	return first, b[n:], nil
}

// checkStored checks the ranges of the header's fields.
func (b Batch) checkStored(pos int64) error {
	if b.LastOffsetDelta() < 0 || b.Count() < 0 || int64(b.Count()) > b.Span() {
		return &CorruptError{What: "batch record count", Pos: pos, Want: b.Span(), Got: int64(b.Count())}
	}
	if b.BaseOffset() < 0 || b.BaseOffset()+b.Span() < 0 {
		return &CorruptError{What: "batch base offset", Pos: pos, Got: b.BaseOffset()}
	}
	return nil
}

// add counts a stored batch by its header.
func (s *Summary) add(b Batch) {
	low := b.BaseTimestamp()
	if b.Attributes()&AttrLogAppendTime != 0 {
		low = b.MaxTimestamp()
	}
	if s.Batches == 0 {
		s.MinTimestamp, s.MaxTimestamp = low, b.MaxTimestamp()
		s.ProducerID, s.ProducerEpoch, s.BaseSequence = b.ProducerID(), b.ProducerEpoch(), b.BaseSequence()
	}
	s.MinTimestamp = min(s.MinTimestamp, low)
	s.MaxTimestamp = max(s.MaxTimestamp, b.MaxTimestamp())
	s.Batches++
	s.Records += b.Count()
	s.Span += b.Span()
}

const (
	// InflatersMax bounds the batches that the process decompresses concurrently. Others wait.
	InflatersMax = codec.InflatersMax
	// DefaultInflateMemory is the default of SetInflateMemory.
	DefaultInflateMemory = codec.DefaultMemory
)

// SetInflateMemory bounds the working memory of all concurrent decompressions, their results
// excluded. A batch that needs more is decompressed while no other is. bytes must be positive.
// SetInflateMemory may be called at any time.
func SetInflateMemory(bytes int64) { codec.SetMemory(bytes) }

// DecompressedSize returns the number of bytes that the records of a stored batch decompress to, at
// most limit. It decompresses them, but keeps no result in memory. A larger size is an
// *InvalidError that is ErrTooLarge; invalid compressed data is a *CorruptError. It does not verify
// the checksum.
func (b Batch) DecompressedSize(limit int64) (int64, error) {
	kind, src := b.Compression(), b[BatchHeadSize:]
	if kind == None {
		return int64(len(src)), nil
	}
	f, err := codec.Open(codec.Kind(kind), src, limit)
	if err != nil {
		return 0, &CorruptError{What: "compressed records", Err: err}
	}
	defer f.Close()
	n, err := io.Copy(io.Discard, f.Scanner())
	switch {
	case errors.Is(err, codec.ErrLimit):
		return 0, inflatedMore(kind, FieldDecompressed, limit)
	case err != nil:
		return 0, &CorruptError{What: "compressed records", Err: err}
	}
	return n, nil
}

// inflatedMore returns the error of a batch that decompresses to more than limit bytes. field has
// the limit.
func inflatedMore(kind Compression, field string, limit int64) error {
	return &InvalidError{Field: field, Reason: kind.String() + " batch decompresses to more", Limit: limit, Given: limit + 1}
}

// Defaults of zero fields of Limits.
const (
	DefaultBatchBytes        = 1_048_588 // Kafka's max.message.bytes
	DefaultDecompressedBytes = 64 << 20
	DefaultRatio             = 1024 // the maximum of gzip

	// RatioExemptBytes is the decompressed size that a batch may always have, whatever the ratio.
	RatioExemptBytes = 1 << 20
)

// Limits bounds the batches that Check and a Reader accept. A zero field means its default, above.
type Limits struct {
	// BatchBytes bounds one batch, as sent.
	BatchBytes int
	// DecompressedBytes bounds the decompressed size of all batches of one Check, or of each batch
	// of a Reader.
	DecompressedBytes int64
	// Ratio bounds the decompressed bytes per compressed byte, beyond RatioExemptBytes.
	Ratio int
	// Transactional: the batches are part of a transaction. Otherwise none may be.
	Transactional bool
}

func (l Limits) withDefaults() Limits {
	l.BatchBytes = cmp.Or(l.BatchBytes, DefaultBatchBytes)
	l.DecompressedBytes = cmp.Or(l.DecompressedBytes, DefaultDecompressedBytes)
	l.Ratio = cmp.Or(l.Ratio, DefaultRatio)
	return l
}

// inflateLimit returns the limit for the decompressed size of n compressed bytes while left bytes
// are allowed, and the field with the limit.
func (l *Limits) inflateLimit(n int, left int64) (limit int64, field string) {
	byRatio := max(int64(n)*int64(l.Ratio), RatioExemptBytes)
	if byRatio < left {
		return byRatio, FieldCompressionRatio
	}
	return left, FieldDecompressed
}

// Check checks batches from a client: one or more, concatenated, of one partition. It ignores their
// base offsets. It refuses
//   - a magic other than 2, and control, delete-horizon, log-append-time and unknown attribute bits;
//   - transactional batches, or with Limits.Transactional others;
//   - offset deltas other than 0..n-1, and a count other than last offset delta + 1;
//   - a wrong checksum, and lengths and timestamps that do not match;
//   - more than HeadersMax headers, batches of several producers, and gaps in their sequences;
//   - batches that exceed l.
//
// Compressed records are decompressed once, as a stream that ends at the limit. The error is an
// *InvalidError. Check neither changes nor keeps b.
func Check(b []byte, l Limits) (Summary, error) { return check(b, checker{limits: l}) }

// CheckRepair is Check for bytes that the caller owns. It replaces a max timestamp that is not the
// largest of the batch's records, and the checksum, as Kafka does. The records do not change. It
// does not write to a correct batch. After an error some batches may be repaired.
func CheckRepair(b []byte, l Limits) (Summary, error) {
	return check(b, checker{limits: l, repair: true})
}

func check(b []byte, c checker) (Summary, error) {
	c.limits = c.limits.withDefaults()
	c.left = c.limits.DecompressedBytes
	if len(b) == 0 {
		return Summary{}, &InvalidError{Field: FieldLength, Reason: "no batch"}
	}
	for len(b) > 0 {
		n, fault := batchBounds(b)
		if fault == nil {
			fault = c.batch(Batch(b[:n:n]))
		}
		if fault != nil {
			fault.Batch = c.sum.Batches
			return Summary{}, fault
		}
		c.sum.Batches++
		b = b[n:]
	}
	return c.sum, nil
}

type checker struct {
	limits Limits
	repair bool
	left   int64 // remaining decompressed bytes
	sum    Summary
}

func (c *checker) batch(b Batch) *InvalidError {
	if len(b) > c.limits.BatchBytes {
		return &InvalidError{
			Field: FieldBatchBytes, Reason: "batch too large",
			Limit: int64(c.limits.BatchBytes), Given: int64(len(b)),
		}
	}
	if fault := checkHead(b, c.limits.Transactional); fault != nil {
		return fault
	}
	if fault := c.producer(b); fault != nil {
		return fault
	}
	scan := recordScan{count: b.Count(), baseTime: b.BaseTimestamp(), min: math.MaxInt64, max: math.MinInt64}
	var fault *InvalidError
	if kind := b.Compression(); kind == None {
		fault = scan.plain(b[BatchHeadSize:])
	} else {
		fault = c.compressed(kind, b[BatchHeadSize:], &scan)
	}
	if fault != nil {
		return fault
	}
	// Some clients do not set the max timestamp and send -1.
	switch m := b.MaxTimestamp(); {
	case m == scan.max:
	case c.repair:
		b.restamp(func() { binary.BigEndian.PutUint64(b[posMaxTimestamp:], uint64(scan.max)) })
	case m != -1:
		return &InvalidError{Field: FieldTimestamp, Reason: "max timestamp is not the largest of the records", Limit: scan.max, Given: m}
	}
	s := &c.sum
	if s.Batches == 0 {
		s.MinTimestamp, s.MaxTimestamp = scan.min, scan.max
	}
	s.MinTimestamp, s.MaxTimestamp = min(s.MinTimestamp, scan.min), max(s.MaxTimestamp, scan.max)
	s.Records += b.Count()
	s.Span += b.Span()
	return nil
}

// checkHead checks the header's fields and the checksum.
func checkHead(b Batch, transactional bool) *InvalidError {
	attr, allowed := b.Attributes(), int16(AttrCompression)
	if transactional {
		allowed |= AttrTransactional
	}
	if attr&^allowed != 0 || transactional && !b.Transactional() {
		reason := "unknown bits"
		switch {
		case transactional && !b.Transactional():
			reason = "not a transactional batch"
		case attr&^allowed&AttrTransactional != 0:
			reason = "transactional batch"
		case attr&AttrControl != 0:
			reason = "control batch"
		case attr&AttrDeleteHorizon != 0:
			reason = "delete horizon set"
		case attr&AttrLogAppendTime != 0:
			reason = "log append time set by a client"
		}
		return &InvalidError{Field: FieldAttributes, Reason: reason, Given: int64(attr)}
	}
	if c := b.Compression(); c > Zstd {
		return &InvalidError{Field: FieldCompression, Reason: "unknown codec", Limit: int64(Zstd), Given: int64(c)}
	}
	if b.Count() < 1 || int64(b.Count()) != b.Span() {
		return &InvalidError{Field: FieldCount, Reason: "not last offset delta + 1, or no records", Limit: b.Span(), Given: int64(b.Count())}
	}
	if want := b.checksum(); want != b.CRC() {
		return &InvalidError{Field: FieldCRC, Reason: "wrong checksum", Limit: int64(want), Given: int64(b.CRC())}
	}
	return nil
}

// producer checks that the sequence of b follows that of the previous batch.
func (c *checker) producer(b Batch) *InvalidError {
	id, epoch, seq := b.ProducerID(), b.ProducerEpoch(), b.BaseSequence()
	switch {
	case id < -1:
		return &InvalidError{Field: FieldProducer, Reason: "negative producer id", Given: id}
	case id == -1 && c.limits.Transactional:
		return &InvalidError{Field: FieldProducer, Reason: "transactional batch without a producer", Given: id}
	case id == -1:
		epoch, seq = -1, -1 // clients send arbitrary values here
	case epoch < 0:
		return &InvalidError{Field: FieldProducer, Reason: "negative producer epoch", Given: int64(epoch)}
	case seq < 0:
		return &InvalidError{Field: FieldSequence, Reason: "negative base sequence", Given: int64(seq)}
	}
	s := &c.sum
	if s.Batches == 0 {
		s.ProducerID, s.ProducerEpoch, s.BaseSequence, s.Transactional = id, epoch, seq, c.limits.Transactional
		return nil
	}
	if id != s.ProducerID || epoch != s.ProducerEpoch {
		return &InvalidError{Field: FieldProducer, Reason: "batches of several producers", Limit: s.ProducerID, Given: id}
	}
	if want := nextSequence(s.BaseSequence, s.Span); id != -1 && seq != want {
		return &InvalidError{Field: FieldSequence, Reason: "gap between batches", Limit: int64(want), Given: int64(seq)}
	}
	return nil
}

// compressed scans compressed records within the limits.
func (c *checker) compressed(kind Compression, b []byte, scan *recordScan) *InvalidError {
	limit, field := c.limits.inflateLimit(len(b), c.left)
	f, err := codec.Open(codec.Kind(kind), b, limit)
	if err != nil {
		return &InvalidError{Field: FieldCompression, Reason: kind.String(), Err: err}
	}
	defer f.Close()
	fault := scan.stream(f.Scanner())
	if fault != nil && errors.Is(fault.Err, codec.ErrLimit) {
		return &InvalidError{Field: field, Reason: kind.String() + " batch decompresses to more", Limit: limit, Given: limit + 1}
	}
	c.left -= limit - f.Left()
	return fault
}
