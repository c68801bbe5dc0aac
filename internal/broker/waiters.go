package broker

import (
	"sync"
	"time"

	"github.com/sebbroker/seb/record"
)

// partKey names a partition for good: topic ids are never used again.
type partKey struct {
	topic     record.ID
	partition uint32
}

// waiter is one fetch that waits for data: one object on the lists of all its partitions.
type waiter struct {
	wake  chan struct{} // capacity 1
	need  int64         // bytes still missing
	parts []partKey
	at    []int // where it stands in the list of each of parts; -1: not
}

// place is one entry in a partition's list.
type place struct {
	w *waiter
	i int // of w.parts
}

// waiters are all fetches that wait. A waiter is added while the state is read-locked and woken while it is locked, so
// that no commit comes between a look at the state and the wait.
type waiters struct {
	met *meters

	mu      sync.Mutex // guards the fields below
	lists   map[partKey][]place
	count   int
	tell    func(bool) // told when count turns from or to 0
	linger  *time.Timer
	told    bool
	stopped bool
}

func newWaiters(met *meters) *waiters { return &waiters{met: met, lists: map[partKey][]place{}} }

// start says whom to tell whether anybody waits.
func (s *waiters) start(tell func(bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tell = tell
}

// add lists a waiter for need more bytes of its partitions; false once stopped.
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
		s.lists[p] = append(list, place{w, i})
	}
	s.count++
	s.met.waiting.Store(int64(s.count))
	s.tellLocked()
	return true
}

// remove takes a waiter off all lists: the last of a list takes its place.
func (s *waiters) remove(w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, p := range w.parts {
		list := s.lists[p]
		last := len(list) - 1
		moved := list[last]
		list[w.at[i]] = moved
		moved.w.at[moved.i] = w.at[i]
		list[last] = place{}
		if last == 0 {
			delete(s.lists, p)
		} else {
			s.lists[p] = list[:last]
		}
	}
	s.count--
	s.met.waiting.Store(int64(s.count))
	s.tellLocked()
}

func (s *waiters) tellLocked() {
	if waiting := s.count > 0 || s.linger != nil; waiting != s.told && s.tell != nil {
		s.told = waiting
		s.tell(waiting)
	}
}

// touch counts as a reader for a while: at a broker that only follows, also those who do not wait want new data.
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
		s.tellLocked()
	})
	s.tellLocked()
}

// wake counts a committed object for whoever waits for its partitions, and wakes those that have enough.
func (s *waiters) wake(index []record.IndexEntry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count == 0 {
		return
	}
	for i := range index {
		e := &index[i]
		for _, p := range s.lists[partKey{e.Topic, e.Partition}] {
			if p.w.need -= int64(e.Len); p.w.need <= 0 {
				p.w.fire()
			}
		}
	}
}

// wakeAll wakes everybody: the state has changed in a way that no index describes.
func (s *waiters) wakeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wakeAllLocked()
}

func (s *waiters) wakeAllLocked() {
	for _, list := range s.lists {
		for _, p := range list {
			p.w.fire()
		}
	}
}

// stop wakes everybody and takes no more.
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

func (w *waiter) fire() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}
