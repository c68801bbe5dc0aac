package webhook

import "sync"

// slots counts what is under way, by trigger, and its bytes. When half of the places or of the bytes are taken a trigger
// gets one place at a time, so those whose receivers hang leave the other half to those that have nothing under way.
type slots struct {
	perTrigger, total, bytes int

	mu     sync.Mutex // guards what follows
	used   map[string]int
	sum    int
	filled int // bytes
	closed bool
	idle   chan struct{} // closed when closed is set and sum is 0
}

func newSlots(perTrigger, total, bytes int) *slots {
	return &slots{perTrigger: perTrigger, total: total, bytes: bytes, used: make(map[string]int), idle: make(chan struct{})}
}

// take takes a place with so many bytes.
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

// grow adds bytes to a place that was taken.
func (s *slots) grow(bytes int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sum > 1 && s.filled+bytes > s.bytes { // whatever it needs, one alone has room
		return false
	}
	s.filled += bytes
	return true
}

func (s *slots) give(trigger string, bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used[trigger]--; s.used[trigger] == 0 {
		delete(s.used, trigger)
	}
	s.sum--
	s.filled -= bytes
	s.signalLocked()
}

// close lets nothing in any more and waits until all are out.
func (s *slots) close() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		s.signalLocked()
	}
	s.mu.Unlock()
	<-s.idle
}

// signalLocked closes idle once nothing can be under way any more.
func (s *slots) signalLocked() {
	if s.closed && s.sum == 0 {
		close(s.idle)
	}
}
