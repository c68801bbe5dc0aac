package journal

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// TestIndex compares an index with a sorted slice, over names that come and go in any order.
func TestIndex(t *testing.T) {
	for seed := range uint64(4) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		var o index
		var want []string
		for n := range 6 * chunkNames {
			name := fmt.Sprintf("%c/%05d", 'a'+rnd.IntN(3), rnd.IntN(4*chunkNames))
			if seed%2 == 0 {
				name = fmt.Sprintf("a/%05d", n)
			}
			i, there := slices.BinarySearch(want, name)
			if !there {
				o.add(name, object{offset: int64(len(want))})
				want = slices.Insert(want, i, name)
			}
			if removing := n > 3*chunkNames; removing || n%4 == 0 { // the order shrinks at last
				for range min(len(want), 1+n/(4*chunkNames)) {
					gone := want[rnd.IntN(len(want))]
					o.remove(gone)
					want = slices.DeleteFunc(want, func(s string) bool { return s == gone })
				}
				o.remove("b") // is not there
			}
			if n%97 == 0 {
				checkPage(t, &o, want, rnd)
			}
		}
		for len(want) > 0 {
			o.remove(want[0])
			want = want[1:]
		}
		check.Equalf(t, len(o.chunks), 0, "seed %d: chunks after all names were removed", seed)
	}
}

func checkPage(t *testing.T, o *index, want []string, rnd *rand.Rand) {
	t.Helper()
	prefix := []string{"", "a", "b/0", "c/", "d"}[rnd.IntN(5)]
	after := ""
	if len(want) > 0 && rnd.IntN(2) == 0 {
		after = want[rnd.IntN(len(want))] + []string{"", "x"}[rnd.IntN(2)]
	}
	limit := 1 + rnd.IntN(2*chunkNames)
	var got, page []string
	o.page(prefix, after, func(name string, _ object) bool {
		got = append(got, name)
		return len(got) < limit
	})
	for _, name := range want {
		if strings.HasPrefix(name, prefix) && name > after && len(page) < limit {
			page = append(page, name)
		}
	}
	must.EqualSlicesf(t, got, page, "page(%q, %q) of %d names, at most %d:\ngot", prefix, after, len(want), limit)
}

// BenchmarkIndexRemove removes the older half of many names, 1,000 at a time as collection does.
// worst-ms is the longest such step, which delays a flush.
func BenchmarkIndexRemove(b *testing.B) {
	for _, n := range []int{100_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var worst time.Duration
			for b.Loop() {
				b.StopTimer()
				var o index
				names := make([]string, n)
				for i := range names {
					names[i] = fmt.Sprintf("s0000/wal/0000000001-%032x/%020d", 7, i)
					o.add(names[i], object{})
				}
				b.StartTimer()
				for i := 0; i < n/2; i += 1000 {
					began := time.Now()
					for _, name := range names[i : i+1000] {
						o.remove(name)
					}
					worst = max(worst, time.Since(began))
				}
			}
			b.ReportMetric(worst.Seconds()*1e3, "worst-ms")
		})
	}
}

// TestIndexMemory bounds the heap that the index takes for each object of a log. A broker has the index
// of all objects that are not merged.
func TestIndexMemory(t *testing.T) {
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	const n, most = 50_000, 88
	before, x := heap(), &index{}
	for i := range n {
		key := fmt.Sprintf("s0000/wal/0000000001-%032x/%020d", 7, i)
		x.add(key[len(key)-20:], object{})
	}
	if each := (heap() - before) / n; each > most {
		t.Errorf("%d bytes for each object, want at most %d", each, most)
	}
	for i := range n - 1 {
		x.remove(fmt.Sprintf("%020d", i))
	}
	if left := heap() - before; left > 2*chunkNames*most {
		t.Errorf("%d bytes after all objects but one were removed", left)
	}
	runtime.KeepAlive(x)
}
