package codec

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

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
