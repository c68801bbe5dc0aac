package benchmark

import (
	"runtime"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// latencyInfo has the response times of requests in milliseconds. Workers send the next request
// after the answer, so a stall delays requests that should have been measured during it. The values
// are for comparing runs, not for service levels.
type latencyInfo struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// latencies counts response times. Workers share a few of them, because one takes 150 KiB of the
// memory in this process.
type latencies struct {
	mu   sync.Mutex // guards hist
	hist *hdrhistogram.Histogram
}

// latencyCounts are the latencies that workers share.
type latencyCounts []*latencies

func newLatencies() latencyCounts {
	all := make(latencyCounts, runtime.GOMAXPROCS(0))
	for i := range all {
		all[i] = &latencies{hist: hdrhistogram.New(1, int64(10*time.Minute/time.Microsecond), 3)}
	}
	return all
}

// of returns the latencies of a worker.
func (c latencyCounts) of(worker int) *latencies { return c[worker%len(c)] }

func (l *latencies) add(took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.hist.RecordValue(took.Microseconds()) // values above ten minutes are dropped
}

// info returns the percentiles. All workers must have finished.
func (c latencyCounts) info() latencyInfo {
	h := c[0].hist
	for _, other := range c[1:] {
		h.Merge(other.hist)
	}
	ms := func(us int64) float64 { return round(float64(us) / 1000) }
	return latencyInfo{P50: ms(h.ValueAtQuantile(50)), P99: ms(h.ValueAtQuantile(99)), Max: ms(h.Max())}
}
