package objstore

import (
	"context"
	"maps"
	"sync"
)

// Flights is a single-flight: concurrent callers that want the same data of a store share one read.
// It holds the flights in progress, at most one for each key. Lock, Retain and Release are set
// before the first use.
//
// Unlike golang.org/x/sync/singleflight it counts the uses of a result, which may be memory or an
// open file. Each caller that waited for a result owns one use of it. An error is not kept: the
// next caller starts another flight.
type Flights[K comparable, V any] struct {
	of map[K]*Flight[K, V]

	// Lock belongs to the owner, which holds it while it calls a method that ends in Locked. Wait
	// takes it where it calls Release.
	Lock sync.Locker
	// Retain adds uses to a result. Release ends one use.
	Retain  func(v V, uses int)
	Release func(v V)
}

// Flight is one read in progress and then its result.
type Flight[K comparable, V any] struct {
	Key K

	done    chan struct{} // closed once value and err are set
	value   V
	err     error
	waiting int    // callers of Wait; guarded by Flights.Lock until done is closed
	cancel  func() // nil: the flight continues when all callers have left
}

// BeginLocked starts a flight for a key that has none, without callers. cancel, if not nil, is
// called when all callers have left, and by CancelLocked.
func (g *Flights[K, V]) BeginLocked(key K, cancel func()) *Flight[K, V] {
	if g.of == nil {
		g.of = map[K]*Flight[K, V]{}
	}
	f := &Flight[K, V]{Key: key, done: make(chan struct{}), cancel: cancel}
	g.of[key] = f
	return f
}

// FindLocked returns the flight in progress for a key, or nil.
func (g *Flights[K, V]) FindLocked(key K) *Flight[K, V] { return g.of[key] }

// ForgetLocked lets no further caller join the flights whose keys match. They go on for those that have
// joined, and CancelLocked does not cancel them.
func (g *Flights[K, V]) ForgetLocked(match func(K) bool) {
	maps.DeleteFunc(g.of, func(key K, _ *Flight[K, V]) bool { return match(key) })
}

// JoinLocked adds a caller to a flight in progress. The caller must call Wait.
func (f *Flight[K, V]) JoinLocked() { f.waiting++ }

// Wait returns the flight's result, of which the caller owns a use, or its error. If the context
// ends first, finished is false and the error is the context's cause.
//
// Where both happen, Wait checks done again under the lock. FinishLocked has counted this caller
// then, so Wait ends that use itself.
func (g *Flights[K, V]) Wait(ctx context.Context, f *Flight[K, V]) (v V, finished bool, err error) {
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
			if g.of[f.Key] == f {
				delete(g.of, f.Key)
			}
		}
	}
	return v, false, context.Cause(ctx)
}

// FinishLocked ends a flight. Without an error each caller gets a use of v, and the use of
// FinishLocked's caller ends.
func (g *Flights[K, V]) FinishLocked(f *Flight[K, V], v V, err error) {
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

// CancelLocked cancels all flights that have a cancel function.
func (g *Flights[K, V]) CancelLocked() {
	for _, f := range g.of {
		if f.cancel != nil {
			f.cancel()
		}
	}
}
