package record

import (
	"errors"
	"io"

	"github.com/sebbroker/seb/internal/codec"
)

const (
	// InflatersMax is how many batches are decompressed at once in the process; others wait for their turn.
	InflatersMax = codec.InflatersMax
	// DefaultInflateMemory is what SetInflateMemory sets unless it is called.
	DefaultInflateMemory = codec.DefaultMemory
)

// SetInflateMemory bounds the bytes that decompressing takes in the process at once, beside what it gives. A batch that asks
// for more is decompressed when no other is. It must be positive, and may be called at any time.
func SetInflateMemory(bytes int64) { codec.SetMemory(bytes) }

// DecompressedSize is how many bytes the records of a stored batch decompress to, at most limit. It takes the time of decompressing
// them and no memory for what comes of it. More is an *InvalidError that is ErrTooLarge; what can not be decompressed is a *CorruptError. The
// checksum is not checked.
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

// inflatedMore says that a batch decompresses to more than the limit, in bytes, of a field.
func inflatedMore(kind Compression, field string, limit int64) error {
	return &InvalidError{Field: field, Reason: kind.String() + " batch decompresses to more", Limit: limit, Given: limit + 1}
}
