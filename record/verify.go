package record

import (
	"errors"
	"io"

	"github.com/sebbroker/seb/internal/codec"
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
