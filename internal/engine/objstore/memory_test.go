package objstore_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// TestMemoryReportsItsSize checks that Watch's function is called for changes of 16 MiB only.
func TestMemoryReportsItsSize(t *testing.T) {
	m := objstore.NewMemory()
	var reported []int64
	m.Watch(func(bytes int64) { reported = append(reported, bytes) })
	const size = 1 << 15
	keys := func(mib int, name string) (all []string) {
		for i := range mib << 20 / size {
			all = append(all, fmt.Sprintf("%s/%d", name, i))
		}
		return all
	}
	put := func(size int, keys ...string) {
		for _, key := range keys {
			must.NoError(t, m.Put(t.Context(), key, objstore.NewBody(make([]byte, size))))
		}
	}
	put(size, keys(10, "a")...)
	put(size, keys(5, "b")...)
	check.Equalf(t, len(reported), 0, "reported %d for a small change", reported)
	put(size, keys(1, "c")...)
	must.NoError(t, m.Delete(t.Context(), append(keys(10, "a"), "none")...))
	must.NoError(t, m.Delete(t.Context(), slices.Concat(keys(10, "a"), keys(5, "b"), keys(1, "c"))...))
	put(20<<20, "large")
	must.NoError(t, m.Delete(t.Context(), "large"))
	check.EqualSlicesf(t, reported, []int64{16 << 20, 0, 20 << 20, 0}, "reported")
}
