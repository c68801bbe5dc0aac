package codec

import (
	"container/list"
	"sync"
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
var inflating = turns{size: DefaultMemory}

// SetMemory bounds the bytes that decompressing takes in the process at once, beside what it gives. A batch that asks
// for more is decompressed when no other is. It must be positive, and may be called at any time.
func SetMemory(bytes int64) { inflating.resize(bytes) }

// turns gives bytes to whoever asks, first come, first served, to at most InflatersMax at once.
type turns struct {
	mu      sync.Mutex // guards what follows
	size    int64
	used    int64
	waiting list.List // of *turn
}

type turn struct {
	n    int64
	come chan struct{} // closed once n is counted as used
}

// InUse is how many bytes are being used of what SetMemory allows.
func InUse() int64 {
	inflating.mu.Lock()
	defer inflating.mu.Unlock()
	return inflating.used
}

// take waits for n bytes and returns what to give back. Nobody may wait for anything else before giving back.
func (t *turns) take(n int64) int64 {
	t.mu.Lock()
	n = min(max(n, t.size/InflatersMax), t.size)
	if t.waiting.Len() == 0 && t.used+n <= t.size {
		t.used += n
		t.mu.Unlock()
		return n
	}
	w := &turn{n: n, come: make(chan struct{})}
	t.waiting.PushBack(w)
	t.mu.Unlock()
	<-w.come
	return n
}

func (t *turns) give(n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.used -= n
	t.nextLocked()
}

// awaited says whether somebody waits.
func (t *turns) awaited() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.waiting.Len() > 0
}

func (t *turns) resize(size int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.size = size
	t.nextLocked()
}

// nextLocked lets in who waits, in order. One that asked for more than there is now, before a resize, comes alone.
func (t *turns) nextLocked() {
	for first := t.waiting.Front(); first != nil; first = t.waiting.Front() {
		w := first.Value.(*turn)
		if t.used > 0 && t.used+w.n > t.size {
			return
		}
		t.waiting.Remove(first)
		t.used += w.n
		close(w.come)
	}
}
