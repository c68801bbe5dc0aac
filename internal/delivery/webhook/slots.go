package webhook

import "sync"

// slots counts the messages in flight by trigger, and their bytes. When half of the slots or bytes
// are taken, a trigger may take one slot at a time. Triggers with hanging receivers thus leave the
// other half to triggers with nothing in flight.
type slots struct {
	perTrigger, total, bytes int

	mu     sync.Mutex // guards the fields below
	used   map[string]int
	sum    int
	filled int // bytes
	closed bool
	idle   chan struct{} // closed when closed is set and sum is 0
}

func newSlots(perTrigger, total, bytes int) *slots {
	return &slots{perTrigger: perTrigger, total: total, bytes: bytes, used: make(map[string]int), idle: make(chan struct{})}
}

// take takes a slot with bytes.
func (s *slots) take(trigger string, bytes int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	limit := s.perTrigger
	if s.sum >= s.total/2 || s.filled >= s.bytes/2 {
		limit = 1
	}
	if s.closed || s.sum >= s.total || s.used[trigger] >= limit || s.filled+bytes > s.bytes {
		return false
	}
	s.used[trigger]++
	s.sum++
	s.filled += bytes
	return true
}

// grow adds bytes to a slot.
func (s *slots) grow(bytes int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sum > 1 && s.filled+bytes > s.bytes { // a single message always fits
		return false
	}
	s.filled += bytes
	return true
}

func (s *slots) release(trigger string, bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used[trigger]--; s.used[trigger] == 0 {
		delete(s.used, trigger)
	}
	s.sum--
	s.filled -= bytes
	s.signalLocked()
}

// close refuses new slots and waits until all are released.
func (s *slots) close() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		s.signalLocked()
	}
	s.mu.Unlock()
	<-s.idle
}

// signalLocked closes idle when closed is set and no slot is taken.
func (s *slots) signalLocked() {
	if s.closed && s.sum == 0 {
		close(s.idle)
	}
}
