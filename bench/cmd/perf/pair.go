package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
)

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
