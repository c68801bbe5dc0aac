package codec

import (
	"sync"
	"weak"
)

// spareMax bounds the values of a Spare.
const spareMax = 2 * InflatersMax

// Spare holds unused values until the next garbage collection. A sync.Pool keeps them for two, and
// one for each processor that no other processor takes: with windows of 8 MiB, memory that nothing
// has reserved. For values that are made quickly, a sync.Pool is faster. The zero value is empty. All
// methods may be called concurrently.
type Spare[T any] struct {
	mu     sync.Mutex
	values []weak.Pointer[T] // the newest last; guarded by mu
}

// Put adds a value, which the caller no longer uses. It drops the value if there are many.
func (s *Spare[T]) Put(v *T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.values) == spareMax { // most are collected
		s.values = append(s.values[:0], s.values[spareMax/2:]...)
	}
	s.values = append(s.values, weak.Make(v))
}

// Get takes the newest value; nil if there is none.
func (s *Spare[T]) Get() *T {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.values) > 0 {
		last := len(s.values) - 1
		v := s.values[last].Value()
		if s.values = s.values[:last]; v != nil {
			return v
		}
	}
	return nil
}
