package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	stats "github.com/sebbroker/seb/bench/report"
	"github.com/sebbroker/seb/internal/machine"
)

// report is all measurements.
type report struct {
	Started time.Time    `json:"started"`
	Machine machine.Info `json:"machine"`
	Load    string       `json:"load_average_at_start"`
	Options *options     `json:"parameters"`
	Results []*result    `json:"results"`
}

// result is the turns of one broker, in order.
type result struct {
	System  string    `json:"system"`
	Samples []*sample `json:"samples"`
}

func (r *report) add(name string, s *sample) {
	for _, one := range r.Results {
		if one.System == name {
			one.Samples = append(one.Samples, s)
			return
		}
	}
	r.Results = append(r.Results, &result{name, []*sample{s}})
}

func (r *report) of(name string) *result {
	for _, one := range r.Results {
		if one.System == name {
			return one
		}
	}
	return nil
}

// spread returns the spread of a figure over the turns.
func (r *result) spread(of func(*sample) float64) stats.Spread { return stats.SpreadBy(r.Samples, of) }

// ratios compares turns of the same round, because a temporary slowdown of the machine affects
// both.
func ratios(a, b *result, of func(*sample) float64) stats.Spread {
	var list []float64
	for i := range min(len(a.Samples), len(b.Samples)) {
		list = append(list, of(a.Samples[i])/of(b.Samples[i]))
	}
	return stats.SpreadOf(list)
}

// The figures in the units of the table.
var (
	writeRate = func(s *sample) float64 { return s.Produce.Rate / 1000 }
	writeCPU  = func(s *sample) float64 { return s.Produce.CPU }
	readRate  = func(s *sample) float64 { return s.Consume.Rate / 1000 }
	readCPU   = func(s *sample) float64 { return s.Consume.CPU }
	rss       = func(s *sample) float64 { return float64(s.RSS) / (1 << 20) }
	later     = func(s *sample) float64 { return s.Later }
	batch     = func(s *sample) float64 { return s.Produce.Batch / 1024 }
	request   = func(s *sample) float64 { return s.Produce.Request }
	peak      = func(s *sample) float64 { return float64(s.Peak) / (1 << 20) }
)

// write prints the tables.
func (r *report) write(out io.Writer) error {
	o := r.Options
	fmt.Fprintf(out, "%s, %s; %s; load average %s at the start.\n", o.Version, r.Started.UTC().Format(time.DateOnly), r.Machine, r.Load)
	fmt.Fprintf(out, "%d turns of each, in turns, each on a new broker after %d records: kafka-producer-perf-test with %d records of %d bytes, %d partitions, %s;\n",
		o.Rounds, o.Warmup, o.Records, o.Size, o.Partitions, strings.Join(strings.Fields(o.Properties), ", "))
	fmt.Fprintf(out, "kafka-consumer-perf-test, %s, without the time to join its group. Seb with %q. Median, and range.\n\n", o.Consumer, o.SebFlags)
	cells := []string{
		"broker", "written, records/s", "broker's CPU, µs/record", "batch, KiB", "answered after, ms",
		"read, records/s", "broker's CPU, µs/record", "resident MiB", "peak MiB",
	}
	if o.Settle > 0 {
		cells = append(cells, fmt.Sprintf("CPU in %v afterwards, µs/record", o.Settle))
	}
	rows := [][]string{cells}
	for _, one := range r.Results {
		s, err := find(one.System)
		if err != nil {
			return err
		}
		rows = append(rows, []string{
			s.title, one.spread(writeRate).Format("%.0f k"), one.spread(writeCPU).Format("%.2f"),
			one.spread(batch).Format("%.0f"), one.spread(request).Format("%.1f"),
			one.spread(readRate).Format("%.0f k"), one.spread(readCPU).Format("%.2f"),
			one.spread(rss).Format("%.0f"), one.spread(peak).Format("%.0f"), one.spread(later).Format("%.2f"),
		}[:len(cells)])
	}
	if err := stats.AlignedTable(out, rows); err != nil {
		return err
	}
	return r.verdicts(out)
}

// verdicts compares Seb with fsync with Kafka without.
func (r *report) verdicts(out io.Writer) error {
	ours, theirs := r.of(sebName), r.of(kafkaName)
	if ours == nil || theirs == nil {
		return nil
	}
	fmt.Fprintln(out)
	rows := [][]string{{"Seb with fsync, of Kafka without", "measured", "target", ""}}
	row := func(what, measured, target string, met bool) {
		rows = append(rows, []string{what, measured, target, stats.Verdict(met)})
	}
	rate := ratios(ours, theirs, writeRate)
	row("records/s written", rate.Format("%.2f"), "≥ 1.00", rate.Middle >= 1)
	for _, c := range []struct {
		what string
		of   func(*sample) float64
	}{{"broker's CPU for a record written", writeCPU}, {"broker's CPU for a record read", readCPU}} {
		v := ratios(ours, theirs, c.of)
		row(c.what, v.Format("%.2f"), "≤ 0.50", v.Middle <= 0.5)
	}
	resident := ours.spread(func(s *sample) float64 { return float64(s.RSS) / 1e6 })
	row("resident memory of Seb, MB", resident.Format("%.0f"), "≤ 128", resident.Middle <= 128)
	return stats.AlignedTable(out, rows)
}
