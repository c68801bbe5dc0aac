package objstore_test

import (
	"testing"

	"github.com/sebbroker/seb/internal/objstore"
)

// TestMemorySaysWhatItHolds: whoever watches hears of growth and shrinking, in steps, and of nothing else.
func TestMemorySaysWhatItHolds(t *testing.T) {
	m := objstore.NewMemory()
	var heard []int64
	m.Watch(func(bytes int64) { heard = append(heard, bytes) })
	put := func(key string, size int) {
		if err := m.Put(t.Context(), key, objstore.NewBody(make([]byte, size))); err != nil {
			t.Fatal(err)
		}
	}
	put("a", 10<<20)
	put("b", 5<<20)
	if len(heard) != 0 {
		t.Errorf("heard %d of little", heard)
	}
	put("c", 1<<20)
	if err := m.Delete(t.Context(), "a", "none"); err != nil {
		t.Fatal(err)
	}
	if err := m.Delete(t.Context(), "a", "b", "c"); err != nil {
		t.Fatal(err)
	}
	if len(heard) != 2 || heard[0] != 16<<20 || heard[1] != 0 {
		t.Errorf("heard %d", heard)
	}
}
