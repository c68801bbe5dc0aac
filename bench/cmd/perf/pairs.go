package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/sebbroker/seb/bench/report"
)

// scaled returns a number of batches or requests, multiplied by scale.
func scaled(n int, scale float64) string { return strconv.Itoa(max(32, int(float64(n)*scale))) }

// pairs returns the rows of the table: the loads of the original's commands, and single records.
// scale multiplies the number of batches and requests; the table uses 1.
func pairs(scale float64) []Pair {
	n := func(v int) string { return scaled(v, scale) }
	write := []string{"benchmark", "-w", "16", "--batches", n(4096)}
	read := []string{"benchmark-read", "-w", "16", "--batches", n(4096), "--requests", n(20000), "--records-per-request", "1024"}
	batches := func(load []string) []string { return slices.Concat(load, []string{"--format", "recordbatch"}) }
	tmpfs := []string{"--bucket", "file:{tmpfs}/bucket?fsync=false"}
	disk := []string{"--bucket", "file:{disk}/bucket"}
	bare := func(kind, dir string) []string { return []string{"--bare", kind, "--bare-dir", dir} }
	list := []Pair{
		{Name: "write, multipart, tmpfs, no fsync", Load: write, Seb: tmpfs, Bare: bare("file", "{tmpfs}"), Ratio: 1, CPU: 2.8, OwnMemory: true},
		{Name: "write, multipart, disk, fsync", Load: write, Seb: disk, Bare: bare("sync", "{disk}"), Ratio: 0.85, OwnMemory: true},
		{Name: "write, RecordBatch, tmpfs, no fsync", Load: batches(write), Seb: tmpfs, Bare: bare("file", "{tmpfs}"), Ratio: 1.3, CPU: 2, OwnMemory: true},
		{Name: "write, RecordBatch, disk, fsync", Load: batches(write), Seb: disk, Bare: bare("sync", "{disk}"), Ratio: 0.9, OwnMemory: true},
		{Name: "write, multipart, memory", Load: write, Seb: []string{"--bucket", "mem:"}, Bare: bare("none", "{tmpfs}"), Ratio: 0.6},
		{Name: "read, multipart", Load: read, Seb: tmpfs, Bare: bare("file", "{tmpfs}"), Ratio: 0.6, OwnMemory: true},
		{Name: "read, RecordBatch", Load: batches(read), Seb: tmpfs, Bare: bare("file", "{tmpfs}"), Ratio: 0.85, OwnMemory: true},
	}
	for _, workers := range []int{600, 2400, 4800} {
		list = append(list, Pair{
			Name: fmt.Sprintf("write, 1 record a request, %d workers", workers),
			Load: []string{"benchmark", "-b", "1", "-w", strconv.Itoa(workers), "--batches", n(200_000)},
			Seb:  tmpfs, Bare: bare("none", "{tmpfs}"), Ratio: 0.8,
		})
	}
	return list
}

// Sweep is a chart of one load over a range of one parameter.
type Sweep struct {
	Title  string
	Label  string // axis label of the points
	Points []string
	Pairs  []Pair
}

// sweeps returns writes and reads over the number of workers and over the record size, as in the
// original author's article.
func sweeps(scale float64) []Sweep {
	n := func(v int) string { return scaled(v, scale) }
	workers := []string{"1", "2", "4", "8", "16", "32", "64"}
	sizes := []string{"64", "256", "1024", "4096", "16384"}
	out := []Sweep{
		{Title: "writes, records of 1 KiB, 1,024 a request", Label: "workers", Points: workers},
		{Title: "reads, records of 1 KiB, 1,024 a request", Label: "workers", Points: workers},
		{Title: "writes, 1 MiB a request, 16 workers", Label: "bytes of a record", Points: sizes},
		{Title: "reads, 1 MiB a request, 16 workers", Label: "bytes of a record", Points: sizes},
	}
	for i := range out {
		reads := i%2 == 1
		for _, at := range out[i].Points {
			load := []string{"benchmark"}
			if reads {
				load = []string{"benchmark-read", "--requests", n(4096)}
			}
			load = append(load, "--batches", n(2048))
			if i < 2 {
				load = append(load, "-w", at)
			} else {
				size, _ := strconv.Atoi(at) // sizes contains only integers
				count := strconv.Itoa(1 << 20 / size)
				load = append(load, "-w", "16", "--record-size", at, "--records-per-batch", count)
				if reads {
					load = append(load, "--records-per-request", count)
				}
			}
			out[i].Pairs = append(out[i].Pairs, Pair{
				Name: out[i].Title + ", " + at, Load: load,
				Seb: []string{"--bucket", "file:{tmpfs}/bucket?fsync=false"}, Bare: []string{"--bare", "file", "--bare-dir", "{tmpfs}"},
			})
		}
	}
	return out
}

// chart returns a chart of the rates. results contains one result per point of the sweep.
func (s *Sweep) chart(results []*Result) (*report.Chart, error) {
	seb := report.Trace{Name: "Seb", Colour: report.Colour(0)}
	bare := report.Trace{Name: "bare server", Colour: report.Colour(1)}
	for i, r := range results {
		x, err := strconv.ParseFloat(s.Points[i], 64)
		if err != nil {
			return nil, err
		}
		add(&seb, x, r.SebSamples)
		add(&bare, x, r.BareSamples)
	}
	return &report.Chart{
		Title: s.Title, XLabel: s.Label, YLabel: "records/s", X: report.Log, Y: report.Linear, Lines: []report.Trace{seb, bare},
	}, nil
}

// add adds a point with the median of the samples and their range.
func add(t *report.Trace, x float64, samples []Sample) {
	s := report.SpreadBy(samples, func(s Sample) float64 { return s.RecordsPerSecond })
	t.X, t.Y, t.Low, t.High = append(t.X, x), append(t.Y, s.Middle), append(t.Low, s.Least), append(t.High, s.Most)
}

// Pair is a load that Seb and the bare server process in alternating runs.
type Pair struct {
	Name string `json:"name"`
	// Load is the command with the arguments of both. Seb and Bare are the additional arguments of
	// one. {tmpfs} and {disk} are replaced by folders of the run.
	Load []string `json:"load"`
	Seb  []string `json:"seb"`
	Bare []string `json:"bare"`
	// Ratio is the minimum rate of Seb relative to the bare server. CPU is the maximum CPU time per
	// record in microseconds; 0 means no limit.
	Ratio float64 `json:"target_ratio"`
	CPU   float64 `json:"target_cpu_us_per_record,omitempty"`
	// OwnMemory means that Seb uses its default memory limit. The peak must not exceed that limit
	// by more than memoryBeyond.
	OwnMemory bool `json:"default_memory_limit"`
	// Bound is the resource that limits the rate.
	Bound string `json:"bound"`
}

// Sample is the report of one run of `seb benchmark`, including the load generator.
type Sample struct {
	RecordsPerSecond float64 `json:"records_per_second"`
	CPU              float64 `json:"cpu_us_per_record"`
	RSS              int64   `json:"rss_max_bytes"`
	MemoryLimit      int64   `json:"memory_limit"`
	Objects          float64 `json:"objects_per_request"` // allocated
	Bytes            float64 `json:"bytes_per_request"`
	P50              float64 `json:"latency_p50_ms"`
	P99              float64 `json:"latency_p99_ms"`
}

// parse reads the report of one run.
func parse(out []byte) (Sample, error) {
	var r struct {
		RecordsPerSecond float64 `json:"records_per_second"`
		CPU              float64 `json:"cpu_us_per_record"`
		RSS              int64   `json:"rss_max_bytes"`
		Parameters       struct {
			MemoryLimit int64 `json:"memory_limit"`
		} `json:"parameters"`
		Runs []struct {
			Allocated struct{ Objects, Bytes float64 } `json:"allocated_per_request"`
			Latency   struct{ P50, P99 float64 }       `json:"latency_ms"`
		} `json:"runs"`
	}
	if err := json.Unmarshal(out, &r); err != nil || len(r.Runs) != 1 {
		return Sample{}, fmt.Errorf("not a report of one run: %.200q, %w", out, err)
	}
	one := &r.Runs[0]
	return Sample{
		RecordsPerSecond: r.RecordsPerSecond, CPU: r.CPU, RSS: r.RSS, MemoryLimit: r.Parameters.MemoryLimit,
		Objects: one.Allocated.Objects, Bytes: one.Allocated.Bytes, P50: one.Latency.P50, P99: one.Latency.P99,
	}, nil
}

// Result is a pair with its samples. Samples with the same index come from consecutive runs.
type Result struct {
	Pair
	SebSamples  []Sample `json:"seb_samples"`
	BareSamples []Sample `json:"bare_samples"`
}

// Run takes n samples of each server in alternating runs. It calls done after each sample.
func (p *Pair) Run(ctx context.Context, at *place, n int, done func()) (*Result, error) {
	r := &Result{Pair: *p}
	for range n {
		bare, err := at.measure(ctx, slices.Concat(p.Load, p.Bare)...)
		if err != nil {
			return nil, err
		}
		done()
		seb, err := at.measure(ctx, slices.Concat(p.Load, p.Seb)...)
		if err != nil {
			return nil, err
		}
		done()
		r.BareSamples, r.SebSamples = append(r.BareSamples, bare), append(r.SebSamples, seb)
	}
	return r, nil
}

// ratios returns the ratio of rates for each pair of consecutive samples, because a temporary
// slowdown of the machine affects both.
func (r *Result) ratios() []float64 {
	var out []float64
	for i := range r.SebSamples {
		out = append(out, r.SebSamples[i].RecordsPerSecond/r.BareSamples[i].RecordsPerSecond)
	}
	return out
}
