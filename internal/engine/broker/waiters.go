package broker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sebbroker/seb/internal/engine/base/wake"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// partKey identifies a partition permanently: topic ids are never reused.
type partKey struct {
	topic     record.ID
	partition uint32
}

// waiter is one fetch that waits for data. It is on the lists of all its partitions.
type waiter struct {
	wake  wake.Signal
	need  int64 // bytes still missing
	parts []partKey
	at    []int // its index in the list of each of parts
}

// listEntry is one entry in a partition's list.
type listEntry struct {
	w *waiter
	i int // index in w.parts
}

// waiters are all fetches that wait. A waiter is added under the state's read lock and woken under
// its write lock, so no commit falls between a look at the state and the wait.
//
// Locks are taken in the order state, then mu.
type waiters struct {
	met *meters

	mu       sync.Mutex // guards the fields below
	lists    map[partKey][]listEntry
	count    int
	report   func(bool) // called when waiting changes between none and some
	linger   *time.Timer
	reported bool
	stopped  bool
}

func newWaiters(met *meters) *waiters { return &waiters{met: met, lists: map[partKey][]listEntry{}} }

// start sets the function that is called when waiting starts or ends.
func (s *waiters) start(report func(bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.report = report
}

// add adds a waiter for need more bytes of its partitions. It returns false once stopped.
func (s *waiters) add(w *waiter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return false
	}
	w.at = make([]int, len(w.parts))
	for i, p := range w.parts {
		list := s.lists[p]
		w.at[i] = len(list)
		s.lists[p] = append(list, listEntry{w, i})
	}
	s.count++
	s.met.waiting.Store(int64(s.count))
	s.reportLocked()
	return true
}

// remove removes a waiter from all lists. The last entry of a list moves to the freed index.
func (s *waiters) remove(w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, p := range w.parts {
		list := s.lists[p]
		last := len(list) - 1
		moved := list[last]
		list[w.at[i]] = moved
		moved.w.at[moved.i] = w.at[i]
		list[last] = listEntry{}
		if last == 0 {
			delete(s.lists, p)
		} else {
			s.lists[p] = list[:last]
		}
	}
	s.count--
	s.met.waiting.Store(int64(s.count))
	s.reportLocked()
}

func (s *waiters) reportLocked() {
	if waiting := s.count > 0 || s.linger != nil; waiting != s.reported && s.report != nil {
		s.reported = waiting
		s.report(waiting)
	}
}

// touch counts as a waiting reader for d: at a follower, readers that do not wait also need new
// data.
func (s *waiters) touch(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return
	}
	if s.linger != nil {
		s.linger.Reset(d)
		return
	}
	s.linger = time.AfterFunc(d, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.linger = nil
		s.reportLocked()
	})
	s.reportLocked()
}

// wake subtracts a committed object's bytes from the waiters of its partitions, and wakes the
// waiters with enough. A marker makes earlier bytes visible, so it wakes all waiters of its partition.
func (s *waiters) wake(index []record.IndexEntry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count == 0 {
		return
	}
	for i := range index {
		e := &index[i]
		marked := e.Records < e.Span // clients' batches have as many records as offsets
		for _, p := range s.lists[partKey{e.Topic, e.Partition}] {
			if p.w.need -= int64(e.Len); p.w.need <= 0 || marked {
				p.w.wake.Send()
			}
		}
	}
}

// wakeAll wakes all waiters: the state has changed in a way that no index describes.
func (s *waiters) wakeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wakeAllLocked()
}

func (s *waiters) wakeAllLocked() {
	for _, list := range s.lists {
		for _, p := range list {
			p.w.wake.Send()
		}
	}
}

// stop wakes all waiters; add then refuses further ones.
func (s *waiters) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	if s.linger != nil {
		s.linger.Stop()
		s.linger = nil
	}
	s.wakeAllLocked()
}

// progress wakes callers that wait for a position. The zero value is ready.
type progress struct {
	waiting atomic.Int64 // callers in WaitApplied

	mu      sync.Mutex    // guards changed
	changed chan struct{} // closed at the next change; nil: no caller waits for it
}

// next returns a channel that is closed at the next change of the state.
func (p *progress) next() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	return p.changed
}

// wake is called when the state has changed, or changes as soon as its lock is released.
func (p *progress) wake() {
	if p.waiting.Load() == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// WaitApplied returns when the state of this broker includes all commits before pos. It makes no
// request. Error: ctx's cause.
func (b *Broker) WaitApplied(ctx context.Context, pos state.Position) error {
	if b.Applied(pos) {
		return nil
	}
	b.progress.waiting.Add(1)
	defer b.progress.waiting.Add(-1)
	for {
		// In this order: a change after the look closes the channel.
		changed := b.progress.next()
		if b.Applied(pos) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Applied reports whether the state of this broker includes all commits before pos.
func (b *Broker) Applied(pos state.Position) bool {
	now, _, known := b.LogPosition()
	return known && !now.Less(pos)
}
