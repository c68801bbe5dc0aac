package codec

import (
	"runtime"
	"testing"

	"github.com/sebbroker/seb/test/check"
)

// TestSpareHoldsNoMemory: what is unused is gone after one garbage collection, whatever the number of
// processors that have put values there; until then it is used again.
func TestSpareHoldsNoMemory(t *testing.T) {
	const window = 1 << 20
	var s Spare[[]byte]
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range 3 * spareMax {
		buf := make([]byte, window)
		s.Put(&buf)
		check.Equalf(t, s.Get(), &buf, "the value that is used again")
		s.Put(&buf)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	check.Equalf(t, s.Get(), nil, "what a collection leaves")
	if held := int64(after.HeapAlloc) - int64(before.HeapAlloc); held > spareMax*window/2 {
		t.Errorf("unused values hold %d bytes", held)
	}
	if len(s.values) > spareMax {
		t.Errorf("%d values", len(s.values))
	}
}
