package httpconn

import (
	"container/list"
	"context"
	"sync"
)

// Gate lets answers of so many bytes together be collected at once; others wait, first come, first served. It guesses
// before what the budget counts when it happens: whoever is let in finds memory, and need not stop half way. All methods
// may be called concurrently.
type Gate struct {
	Size int64 // bytes; set before the first use

	mu      sync.Mutex // guards what follows
	used    int64
	waiting list.List // of *entry, in order of arrival
}

type entry struct {
	n    int64
	open chan struct{} // closed once its bytes are counted
}

// Enter waits until n bytes, at most the gate's size, are free and takes them. The error is the context's.
func (g *Gate) Enter(ctx context.Context, n int64) error {
	g.mu.Lock()
	if g.waiting.Len() == 0 && n <= g.Size-g.used {
		g.used += n
		g.mu.Unlock()
		return nil
	}
	e := &entry{n: n, open: make(chan struct{})}
	place := g.waiting.PushBack(e)
	g.mu.Unlock()
	select {
	case <-e.open:
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-e.open:
		g.used -= n
	default:
		g.waiting.Remove(place)
	}
	g.admitLocked()
	return context.Cause(ctx)
}

// Leave gives n bytes back.
func (g *Gate) Leave(n int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.used -= n
	g.admitLocked()
}

// Used returns the bytes that are taken.
func (g *Gate) Used() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.used
}

func (g *Gate) admitLocked() {
	for first := g.waiting.Front(); first != nil; first = g.waiting.Front() {
		e := first.Value.(*entry)
		if e.n > g.Size-g.used {
			return
		}
		g.waiting.Remove(first)
		g.used += e.n
		close(e.open)
	}
}
