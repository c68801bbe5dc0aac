package codec

import (
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Stream compresses what is written to it, into the writer of the last Reset. Close ends the compressed form; after a Reset the
// stream can be used again. It belongs to one goroutine at a time.
type Stream interface {
	io.WriteCloser
	// Reset drops what is not sent yet and begins a new compressed form in w.
	Reset(w io.Writer)
}

// StreamBytes is above what a Stream of either codec takes, measured by TestStreamMemory.
const StreamBytes = 1 << 20

// streamWindow is how far back a zstd stream looks.
const streamWindow = 128 << 10

// NewStream returns a stream of a codec, Gzip or Zstd, at its fastest level: the answers that it is for are made faster than they
// are sent.
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
