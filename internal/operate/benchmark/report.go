package benchmark

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"runtime"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/sebbroker/seb/internal/engine/base/machine"
)

// report is the result as a JSON document.
type report struct {
	Benchmark  string       `json:"benchmark"` // "write" or "read"
	Started    time.Time    `json:"started"`
	Version    fmt.Stringer `json:"version"`
	Machine    machine.Info `json:"machine"`
	Parameters Params       `json:"parameters"`
	Runs       []run        `json:"runs"`
	// Sums over all runs. CPU time and memory are those of this process: broker and load generator
	// with a local broker, only the load generator with a remote one.
	RecordsPerSecond  float64 `json:"records_per_second"`
	CPUMicrosecRecord float64 `json:"cpu_us_per_record"`
	RSSMaxBytes       int64   `json:"rss_max_bytes"`
	Includes          string  `json:"cpu_and_rss_of"` // the processes in the sums
}

// run is the result of one run.
type run struct {
	Seconds           float64     `json:"seconds"`
	Requests          int64       `json:"requests"`
	Records           int64       `json:"records"`
	Bytes             int64       `json:"bytes"` // of record values
	RecordsPerSecond  float64     `json:"records_per_second"`
	RequestsPerSecond float64     `json:"requests_per_second"`
	MiBPerSecond      float64     `json:"mib_per_second"`
	CPUMicrosecRecord float64     `json:"cpu_us_per_record"`
	Allocated         allocInfo   `json:"allocated_per_request"`
	Latency           latencyInfo `json:"latency_ms"`

	cpu time.Duration
}

// allocInfo is the heap allocation of this process per request.
type allocInfo struct {
	Objects float64 `json:"objects"`
	Bytes   float64 `json:"bytes"`
}

// allocated returns the allocation of the process so far.
func allocated() allocInfo {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return allocInfo{Objects: float64(m.Mallocs), Bytes: float64(m.TotalAlloc)}
}

// since returns the allocation per request after before.
func (a allocInfo) since(before allocInfo, requests int64) allocInfo {
	n := float64(max(requests, 1))
	return allocInfo{Objects: round((a.Objects - before.Objects) / n), Bytes: round((a.Bytes - before.Bytes) / n)}
}

// finish computes the rates from the counts.
func (r *run) finish(elapsed, cpu time.Duration) {
	s := elapsed.Seconds()
	r.cpu = cpu
	r.Seconds = round(s)
	r.RecordsPerSecond = round(float64(r.Records) / s)
	r.RequestsPerSecond = round(float64(r.Requests) / s)
	r.MiBPerSecond = round(float64(r.Bytes) / s / (1 << 20))
	r.CPUMicrosecRecord = round(float64(cpu.Microseconds()) / float64(max(r.Records, 1)))
}

// finish computes the sums over all runs.
func (b *report) finish() {
	var records int64
	var seconds float64
	var cpu time.Duration
	for _, r := range b.Runs {
		records += r.Records
		seconds += r.Seconds
		cpu += r.cpu
	}
	b.RecordsPerSecond = round(float64(records) / seconds)
	b.CPUMicrosecRecord = round(float64(cpu.Microseconds()) / float64(max(records, 1)))
	b.RSSMaxBytes = machine.RSSMax()
	b.Includes = "broker and load generator"
	switch {
	case b.Parameters.Bare != "":
		b.Includes = "bare server and load generator"
	case !b.Parameters.LocalBroker:
		b.Includes = "load generator"
	}
}

// round rounds to three decimal places, which is the precision of the measurement.
func round(v float64) float64 { return math.Round(v*1000) / 1000 }

func (b *report) writeJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(b)
}

// writeHead prints the parameters and the machine, before the first run.
func (b *report) writeHead(w io.Writer) {
	p := &b.Parameters
	fmt.Fprintf(w, "benchmark   %s, %s\n", b.Benchmark, b.Started.Format(time.RFC3339))
	fmt.Fprintf(w, "version     %s\n", b.Version)
	fmt.Fprintf(w, "machine     %s\n", b.Machine)
	where := "local broker, bucket " + p.Bucket
	switch {
	case p.Bare != "":
		where = "a bare server, " + p.Bare
	case !p.LocalBroker:
		where = "broker " + p.RemoteAddress
	}
	fmt.Fprintf(w, "against     %s, %s\n", where, p.Format)
	fmt.Fprintf(w, "parameters  runs %d, workers %d, batches %d x %d records x %d bytes, batcher %v / %v, memory limit %v\n",
		p.Runs, p.Workers, p.Batches, p.RecordsPerBatch, p.RecordSize, p.BatcherBlockTime, p.BatcherMaxBytes, p.MemoryLimit)
	if r := p.Read; r != nil {
		fmt.Fprintf(w, "            requests %d x %d records, skew %s\n", r.Requests, r.RecordsPerRequest, r.Skew)
	}
}

func (r *run) writeLine(w io.Writer, n int) {
	fmt.Fprintf(w, "run %-3d     %.2f s, %.0f records/s, %.1f MiB/s, %.1f requests/s, %.2f us CPU/record, %.0f objects and %.1f KiB allocated per request, latency ms p50 %.2f p99 %.2f max %.2f\n",
		n, r.Seconds, r.RecordsPerSecond, r.MiBPerSecond, r.RequestsPerSecond, r.CPUMicrosecRecord,
		r.Allocated.Objects, r.Allocated.Bytes/(1<<10), r.Latency.P50, r.Latency.P99, r.Latency.Max)
}

func (b *report) writeTotal(w io.Writer) {
	fmt.Fprintf(w, "total       %.0f records/s, %.2f us CPU/record, %.1f MiB peak memory (%s)\n",
		b.RecordsPerSecond, b.CPUMicrosecRecord, float64(b.RSSMaxBytes)/(1<<20), b.Includes)
}

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
