package record

import (
	"errors"
	"io"

	"github.com/sebbroker/seb/internal/codec"
)

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
