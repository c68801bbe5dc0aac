package codec

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

const (
	// InflatersMax is how many batches are decompressed at once in the process; others wait for their turn.
	InflatersMax = 4
	// DefaultMemory is what SetMemory sets unless it is called.
	DefaultMemory = 32 << 20
)

// inflating is what decompressing takes in the process: a zstd frame may ask for a window of 8 MiB, an lz4 frame for blocks
// of 4 MiB, so without a bound many small requests could take any amount of memory, each of them suspended in the middle
// of its work.
var inflating atomic.Pointer[turns]

func init() { SetMemory(DefaultMemory) }

// SetMemory bounds the bytes that decompressing takes in the process at once, beside what it gives. A batch that asks
// for more is decompressed when no other is. It must be positive. It may be called at any time; what is being
// decompressed then, or waits, stays within the bound before.
func SetMemory(bytes int64) {
	inflating.Store(&turns{size: bytes, bytes: semaphore.NewWeighted(bytes)})
}

// turns gives bytes to its callers, first come, first served, to at most InflatersMax at once.
type turns struct {
	size    int64
	bytes   *semaphore.Weighted
	waiting atomic.Int64 // callers of take that wait
}

// turn is n bytes of turns.
type turn struct {
	of *turns
	n  int64
}

// take waits for n bytes. Nobody may wait for anything else before giving them back.
func (t *turns) take(n int64) turn {
	n = min(max(n, t.size/InflatersMax), t.size)
	if !t.bytes.TryAcquire(n) {
		t.waiting.Add(1)
		_ = t.bytes.Acquire(context.Background(), n) // that never ends, and n is at most all
		t.waiting.Add(-1)
	}
	return turn{t, n}
}

func (t turn) give() { t.of.bytes.Release(t.n) }

// awaited says whether somebody waits for his turn.
func (t *turns) awaited() bool { return t.waiting.Load() > 0 }

// Idle says whether nothing is being decompressed.
func Idle() bool {
	t := inflating.Load()
	idle := t.bytes.TryAcquire(t.size)
	if idle {
		t.bytes.Release(t.size)
	}
	return idle
}
