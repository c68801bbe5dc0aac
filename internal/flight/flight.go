// Package flight lets callers that want the same at the same time wait for one result.
package flight

import (
	"context"
	"sync"
)

// Group is the flights under way, at most one for each key. Its fields but the first are set before the first use. A result
// counts its uses, since it may be memory or an open file: each caller that waited has one. An error is not kept: the next
// caller begins another flight.
type Group[K comparable, V any] struct {
	of map[K]*Flight[K, V]

	// Lock is the owner's: it is held for the calls that end in Locked, and Group holds it for Retain and Release.
	Lock sync.Locker
	// Retain adds uses to a result. Release ends one.
	Retain  func(v V, uses int)
	Release func(v V)
}

// Flight is one result on its way.
type Flight[K comparable, V any] struct {
	Key K

	done    chan struct{} // closed once value and err are set
	value   V
	err     error
	waiting int    // callers; guarded by the group's lock until done
	cancel  func() // nil: it goes on when all callers have left
}

// BeginLocked begins a flight that is not under way, without callers. cancel, if not nil, is called when all of them have
// left, and by CancelLocked.
func (g *Group[K, V]) BeginLocked(key K, cancel func()) *Flight[K, V] {
	if g.of == nil {
		g.of = map[K]*Flight[K, V]{}
	}
	f := &Flight[K, V]{Key: key, done: make(chan struct{}), cancel: cancel}
	g.of[key] = f
	return f
}

// FindLocked returns the flight of a key that is under way, or nil.
func (g *Group[K, V]) FindLocked(key K) *Flight[K, V] { return g.of[key] }

// JoinLocked adds a caller to a flight that is under way, who must call Wait.
func (f *Flight[K, V]) JoinLocked() { f.waiting++ }

// Wait returns a flight's result, of which the caller has a use, or its error. If the context ends first, landed is false
// and the error its cause.
func (g *Group[K, V]) Wait(ctx context.Context, f *Flight[K, V]) (v V, landed bool, err error) {
	select {
	case <-f.done:
		return f.value, true, f.err
	case <-ctx.Done():
	}
	g.Lock.Lock()
	defer g.Lock.Unlock()
	select {
	case <-f.done:
		if f.err == nil {
			g.Release(f.value)
		}
	default:
		if f.waiting--; f.waiting == 0 && f.cancel != nil {
			f.cancel()
			delete(g.of, f.Key)
		}
	}
	return v, false, context.Cause(ctx)
}

// LandLocked ends a flight. Of v, unless there is an error, each caller gets a use, and the use of the one that lands it ends.
func (g *Group[K, V]) LandLocked(f *Flight[K, V], v V, err error) {
	if g.of[f.Key] == f {
		delete(g.of, f.Key)
	}
	f.value, f.err = v, err
	if err == nil {
		g.Retain(v, f.waiting)
		g.Release(v)
	}
	close(f.done)
}

// CancelLocked cancels all flights that can be.
func (g *Group[K, V]) CancelLocked() {
	for _, f := range g.of {
		if f.cancel != nil {
			f.cancel()
		}
	}
}
