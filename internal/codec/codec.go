// Package codec compresses and decompresses the records of batches with the codecs of Kafka. The
// caller bounds the output of each decompression and SetMemory bounds the working memory of the
// process, so compressed data that claims large sizes cannot exhaust memory.
package codec

import (
	"context"
	"io"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/semaphore"
)

// Kind is a codec, as batches number it.
type Kind uint8

// The codecs of Kafka.
const (
	None Kind = iota
	Gzip
	Snappy
	LZ4
	Zstd
)

// String returns the codec's name as topic settings write it.
func (k Kind) String() string {
	if int(k) < len(names) {
		return names[k]
	}
	return "unknown"
}

var names = [...]string{None: "none", Gzip: "gzip", Snappy: "snappy", LZ4: "lz4", Zstd: "zstd"}

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

const (
	// InflatersMax is how many batches the process decompresses at once; others wait.
	InflatersMax = 4
	// DefaultMemory is the limit unless SetMemory is called.
	DefaultMemory = 32 << 20
)

// inflating limits the working memory of all decompressions. A zstd frame may ask for a window of 8
// MiB and an lz4 frame for blocks of 4 MiB, so without the limit many small requests could exhaust
// memory.
var inflating atomic.Pointer[memoryLimit]

func init() { SetMemory(DefaultMemory) }

// SetMemory bounds the working memory, in bytes, of all decompressions in the process; output is
// not counted. A batch that needs more than the limit is decompressed while no other is. bytes must
// be positive. SetMemory may be called at any time; decompressions that run or wait at that moment
// stay within the previous limit.
func SetMemory(bytes int64) {
	inflating.Store(&memoryLimit{size: bytes, bytes: semaphore.NewWeighted(bytes)})
}

// memoryLimit grants bytes to at most InflatersMax callers at once, in the order in which they ask.
type memoryLimit struct {
	size    int64
	bytes   *semaphore.Weighted
	waiting atomic.Int64 // callers of acquire that wait
}

// share is n bytes of a memoryLimit.
type share struct {
	of *memoryLimit
	n  int64
}

// acquire waits for n bytes. Until it releases them the caller must not wait for anything else,
// because acquire has no deadline: two callers that wait for each other would block permanently.
func (t *memoryLimit) acquire(n int64) share {
	n = min(max(n, t.size/InflatersMax), t.size)
	if !t.bytes.TryAcquire(n) {
		t.waiting.Add(1)
		_ = t.bytes.Acquire(context.Background(), n) // never fails: n is at most size
		t.waiting.Add(-1)
	}
	return share{t, n}
}

func (t share) release() { t.of.bytes.Release(t.n) }

// contended reports whether a caller waits in acquire.
func (t *memoryLimit) contended() bool { return t.waiting.Load() > 0 }

// Idle reports whether nothing is being decompressed.
func Idle() bool {
	t := inflating.Load()
	idle := t.bytes.TryAcquire(t.size)
	if idle {
		t.bytes.Release(t.size)
	}
	return idle
}
