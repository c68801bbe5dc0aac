package benchmark

import (
	"runtime"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// latencyInfo is the response time of requests in milliseconds. Workers send the next request when the last is answered,
// so a stall delays what should have been measured during it: good for comparing runs, not for service levels.
type latencyInfo struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// latencies counts response times. Workers share a few of them: one has 150 KiB, which for each of thousands of workers
// would be more than the broker has, and would be taken from it in this process.
type latencies struct {
	mu   sync.Mutex // guards hist
	hist *hdrhistogram.Histogram
}

// latencyCounts is as many latencies as can be added to at once.
type latencyCounts []*latencies

func newLatencies() latencyCounts {
	all := make(latencyCounts, runtime.GOMAXPROCS(0))
	for i := range all {
		all[i] = &latencies{hist: hdrhistogram.New(1, int64(10*time.Minute/time.Microsecond), 3)}
	}
	return all
}

// of is where a worker counts.
func (c latencyCounts) of(worker int) *latencies { return c[worker%len(c)] }

func (l *latencies) add(took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.hist.RecordValue(took.Microseconds()) // what is over ten minutes has no place
}

// info sums up what was counted; nobody counts any more.
func (c latencyCounts) info() latencyInfo {
	h := c[0].hist
	for _, other := range c[1:] {
		h.Merge(other.hist)
	}
	ms := func(us int64) float64 { return round(float64(us) / 1000) }
	return latencyInfo{P50: ms(h.ValueAtQuantile(50)), P99: ms(h.ValueAtQuantile(99)), Max: ms(h.Max())}
}
