package codec

import (
	"sync"
	"weak"
)

// spareMax bounds the values of a Spare.
const spareMax = 2 * InflatersMax

// Spare holds unused values until the next garbage collection. A sync.Pool keeps them for two, and
// one for each processor that no other processor takes: with windows of 8 MiB, memory that nothing
// has reserved. For values that are made quickly, a sync.Pool is faster. The zero value is empty. All methods may be called concurrently.
type Spare[T any] struct {
	mu     sync.Mutex
	values []weak.Pointer[T] // the newest last; guarded by mu
}

// Put adds a value, which the caller no longer uses. It drops the value if there are many.
func (i *Spare[T]) Put(v *T) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.values) == spareMax { // most are collected
		i.values = append(i.values[:0], i.values[spareMax/2:]...)
	}
	i.values = append(i.values, weak.Make(v))
}

// Get takes the newest value; nil if there is none.
func (i *Spare[T]) Get() *T {
	i.mu.Lock()
	defer i.mu.Unlock()
	for len(i.values) > 0 {
		last := len(i.values) - 1
		v := i.values[last].Value()
		if i.values = i.values[:last]; v != nil {
			return v
		}
	}
	return nil
}
