// Package codec compresses and decompresses the records of batches with the codecs of Kafka. The
// caller bounds the output of each decompression and SetMemory bounds the working memory of the
// process, so compressed data that claims large sizes cannot exhaust memory.
package codec

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy/xerial"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
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

// zstdEncoder is shared. It has one stream and a small window, because an encoder may otherwise
// take hundreds of MB.
var zstdEncoder = sync.OnceValues(func() (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(256<<10))
})

var (
	gzipWriters = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}
	lz4Writers  = sync.Pool{New: func() any { return newLZ4Writer() }}
)

func newLZ4Writer() *lz4.Writer {
	w := lz4.NewWriter(nil)
	// 64 KiB blocks are what Java's client writes. The options are constants and always apply.
	if err := w.Apply(lz4.BlockSizeOption(lz4.Block64Kb), lz4.ConcurrencyOption(1)); err != nil {
		panic("codec: lz4 options: " + err.Error())
	}
	return w
}

// Compress appends src, compressed, to dst. Snappy uses the framing of Java's clients, which all
// clients can read.
func Compress(dst []byte, codec Kind, src []byte) ([]byte, error) {
	out := bytes.NewBuffer(dst)
	var err error
	switch codec {
	case Gzip:
		w := gzipWriters.Get().(*gzip.Writer)
		defer gzipWriters.Put(w)
		w.Reset(out)
		err = writeAll(w, src)
	case Snappy:
		return append(dst, xerial.Encode(nil, src)...), nil
	case LZ4:
		w := lz4Writers.Get().(*lz4.Writer)
		defer lz4Writers.Put(w)
		w.Reset(out)
		err = writeAll(w, src)
	case Zstd:
		w, err := zstdEncoder()
		if err != nil {
			return dst, fmt.Errorf("zstd encoder: %w", err)
		}
		return w.EncodeAll(src, dst), nil
	default:
		err = ErrUnknown
	}
	if err != nil {
		return dst, fmt.Errorf("compress %s: %w", codec, err)
	}
	return out.Bytes(), nil
}

func writeAll(w io.WriteCloser, src []byte) error {
	if _, err := w.Write(src); err != nil {
		return err
	}
	return w.Close()
}
