package main

import (
	"fmt"
	"io"
	"time"

	"github.com/sebbroker/seb/bench/report"
	"github.com/sebbroker/seb/internal/machine"
)

// Report contains all measurements. It is the JSON document that accompanies the table.
type Report struct {
	Started time.Time    `json:"started"`
	Version string       `json:"version"`
	Machine machine.Info `json:"machine"`
	Results []*Result    `json:"results"`
	Checks  []Check      `json:"checks"`
	Swept   []*Result    `json:"swept,omitempty"` // results of the charts
}

// Check is a row of the second table.
type Check struct {
	Name   string `json:"name"`
	Target string `json:"target"`
	Value  string `json:"value"`
	Met    bool   `json:"met"`
}

// memoryBeyond is the allowed excess of peak memory over the memory limit, in bytes.
const memoryBeyond = 32 << 20

// met reports whether a pair meets all targets. Rate and CPU use the median of the samples, memory
// the maximum.
func (r *Result) met() bool {
	cpu := report.SpreadBy(r.SebSamples, func(s Sample) float64 { return s.CPU })
	return report.SpreadOf(r.ratios()).Middle >= r.Ratio &&
		(r.CPU == 0 || cpu.Middle <= r.CPU) && (!r.OwnMemory || r.overMemory() <= memoryBeyond)
}

// overMemory returns the maximum excess of the samples' peak memory over the memory limit, in
// bytes.
func (r *Result) overMemory() int64 {
	over := int64(0)
	for _, s := range r.SebSamples {
		over = max(over, s.RSS-s.MemoryLimit)
	}
	return over
}

// Write prints the tables as Markdown, with aligned columns.
func (r *Report) Write(out io.Writer) error {
	fmt.Fprintf(out, "%s, %s, %s\n\n", r.Version, r.Started.UTC().Format(time.DateOnly), r.Machine)
	rows := [][]string{{
		"path", "Seb, records/s", "bare server", "ratio", "target", "CPU µs/record", "of the bare server", "peak MiB", "objects a request", "",
	}}
	for _, p := range r.Results {
		target := fmt.Sprintf("≥ %.2f", p.Ratio)
		if p.CPU > 0 {
			target += fmt.Sprintf(", ≤ %.1f µs", p.CPU)
		}
		rate := func(s Sample) float64 { return s.RecordsPerSecond }
		cpu := func(s Sample) float64 { return s.CPU }
		rows = append(rows, []string{
			p.Name, rates(report.SpreadBy(p.SebSamples, rate)), rates(report.SpreadBy(p.BareSamples, rate)), report.SpreadOf(p.ratios()).Format("%.2f"), target,
			report.SpreadBy(p.SebSamples, cpu).Format("%.2f"), report.SpreadBy(p.BareSamples, cpu).Format("%.2f"),
			fmt.Sprintf("%.0f", report.SpreadBy(p.SebSamples, func(s Sample) float64 { return float64(s.RSS) }).Most/(1<<20)),
			fmt.Sprintf("%.0f", report.SpreadBy(p.SebSamples, func(s Sample) float64 { return s.Objects }).Middle), report.Verdict(p.met()),
		})
	}
	if err := report.AlignedTable(out, rows); err != nil || len(r.Checks) == 0 {
		return err
	}
	fmt.Fprintln(out)
	rows = [][]string{{"", "measured", "target", ""}}
	for _, c := range r.Checks {
		rows = append(rows, []string{c.Name, c.Value, c.Target, report.Verdict(c.Met)})
	}
	return report.AlignedTable(out, rows)
}

// rates formats a spread in thousands.
func rates(s report.Spread) string {
	return report.Spread{Least: s.Least / 1000, Middle: s.Middle / 1000, Most: s.Most / 1000}.Format("%.0f k")
}
