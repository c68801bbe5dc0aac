package codec

import (
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Stream compresses the bytes written to it into the writer of the last Reset. Close ends the
// compressed stream; after a Reset the Stream can be used again. A Stream must not be used
// concurrently.
type Stream interface {
	io.WriteCloser
	// Reset discards unwritten output and begins a new compressed stream in w.
	Reset(w io.Writer)
}

// StreamBytes is an upper bound on the memory of a Stream of either codec, checked by
// TestStreamMemory.
const StreamBytes = 1 << 20

// streamWindow is the window of a zstd stream.
const streamWindow = 128 << 10

// NewStream returns a stream of a codec, Gzip or Zstd, at its fastest level. Other codecs give
// ErrUnknown.
func NewStream(k Kind) (Stream, error) {
	switch k {
	case Gzip:
		return gzip.NewWriterLevel(nil, gzip.BestSpeed)
	case Zstd:
		return zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithLowerEncoderMem(true),
			zstd.WithWindowSize(streamWindow))
	}
	return nil, ErrUnknown
}
