package log

import (
	"sync/atomic"
	"testing"
)

// TestPool: every function runs once, never more than max at a time, and wait returns after all.
func TestPool(t *testing.T) {
	const most, functions = 6, 500
	p := newPool(most)
	var running, highest, ran atomic.Int64
	done := make(chan struct{}, functions)
	for i := range functions {
		p.run(func() {
			n := running.Add(1)
			for old := highest.Load(); n > old && !highest.CompareAndSwap(old, n); old = highest.Load() {
			}
			running.Add(-1)
			ran.Add(1)
			done <- struct{}{}
		})
		if i%7 == 0 { // now and then all goroutines become spare
			for ran.Load() < int64(i)+1 {
				<-done
			}
		}
	}
	p.wait()
	if ran.Load() != functions || highest.Load() > most {
		t.Errorf("%d functions ran, at most %d at a time; want %d and %d", ran.Load(), highest.Load(), functions, most)
	}
}
