// Command kafkaperf compares Kafka and Seb with Kafka's own perf tools and prints a Markdown table:
// records per second, the broker's CPU time per record, and its memory. The brokers alternate; each
// turn uses a new broker with empty folders. The command builds bin/seb and bin/seb-bench, which
// starts Kafka, and downloads Kafka and the tools into .cache on first use. It needs java 17 and
// mvn. Three rounds take five minutes on an idle machine.
//
//	go run -C bench ./cmd/kafkaperf -systems kafka,seb       # two of the four
//	go run -C bench ./cmd/kafkaperf -producer acks=all       # batches of 16 KiB, the default of producers
package main

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	stats "github.com/sebbroker/seb/bench/report"
	"github.com/sebbroker/seb/internal/engine/base/machine"
	"github.com/sebbroker/seb/test/campaign"
	"github.com/sebbroker/seb/test/interop"
)

//go:embed main.go
var source string

// options are the flags.
type options struct {
	Seb        string        `json:"-"`
	Bench      string        `json:"-"`
	Dir        string        `json:"-"`
	JSON       string        `json:"-"`
	Version    string        `json:"version"`
	Systems    []string      `json:"systems"`
	Rounds     int           `json:"rounds"`
	Records    int           `json:"records"`
	Warmup     int           `json:"warm_up_records"`
	Size       int           `json:"record_bytes"`
	Partitions int           `json:"partitions"`
	Properties string        `json:"producer_properties"`
	Consumer   string        `json:"consumer_properties"`
	SebFlags   string        `json:"seb_flags"`
	Settle     time.Duration `json:"settle_ns"`
}

func main() {
	var o options
	flag.StringVar(&o.Seb, "seb", "", "path of seb (empty: build bin/seb)")
	flag.StringVar(&o.Bench, "bench", "", "path of seb-bench, which starts Kafka (empty: build bin/seb-bench)")
	flag.StringVar(&o.Dir, "dir", ".cache/interop/speed", "folder on the measured disk; each turn uses a subfolder")
	flag.StringVar(&o.JSON, "json", "bin/kafkaperf.json", "file for all samples")
	flag.StringVar(&o.Version, "version", "", "version in the report (empty: from git describe)")
	systems := flag.String("systems", strings.Join(names(), ","), "brokers, in the order of each round")
	flag.IntVar(&o.Rounds, "rounds", 3, "turns of each broker")
	flag.IntVar(&o.Records, "records", 1_000_000, "records per turn, written and read")
	flag.IntVar(&o.Warmup, "warmup", 300_000, "records of the warm-up, written and read")
	flag.IntVar(&o.Size, "size", 1024, "bytes of a record's value")
	flag.IntVar(&o.Partitions, "partitions", 6, "partitions of the topic")
	flag.StringVar(&o.Properties, "producer", "acks=all batch.size=131072 linger.ms=10 buffer.memory=67108864", "settings of the producer")
	flag.StringVar(&o.Consumer, "consumer", "fetch.min.bytes=1", "settings of the consumer")
	flag.StringVar(&o.SebFlags, "seb-flags", "", "further flags of seb serve")
	flag.DurationVar(&o.Settle, "settle", 0, "time to observe a broker after each turn; 70s includes a merge of objects by Seb")
	campaign.Do(source, func(ctx context.Context) error {
		o.Systems = strings.Split(*systems, ",")
		if o.Rounds < 1 || o.Records < 1 || o.Warmup < 1 {
			return errors.New("-rounds, -records and -warmup: want at least 1")
		}
		if err := o.prepare(ctx); err != nil {
			return err
		}
		return run(ctx, &o)
	})
}

// prepare builds the programs that no flag names, and makes paths absolute.
func (o *options) prepare(ctx context.Context) (err error) {
	o.Version = cmp.Or(o.Version, campaign.Version(ctx))
	if o.Seb == "" {
		o.Seb = "bin/seb"
		if err := campaign.BuildSeb(ctx); err != nil {
			return err
		}
	}
	if o.Bench == "" {
		o.Bench = "bin/seb-bench"
		if err := campaign.BuildSebBench(ctx); err != nil {
			return err
		}
	}
	for _, path := range []*string{&o.Seb, &o.Bench, &o.Dir} {
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	return nil
}

func run(ctx context.Context, o *options) error {
	tools, err := interop.JavaTools(ctx)
	if err != nil {
		return err
	}
	r := report{Started: time.Now(), Machine: machine.Here(), Options: o, Load: load()}
	if err := r.turns(ctx, tools); err != nil {
		return err
	}
	text, err := json.MarshalIndent(&r, "", "  ")
	if err != nil {
		return err
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(o.JSON), 0o750), os.WriteFile(o.JSON, append(text, '\n'), 0o600)); err != nil {
		return err
	}
	return r.write(os.Stdout)
}

// turns measures each broker in each round. It keeps all stored data until the end, because ext4
// checks recently deleted files before it creates others, which would slow the next turn.
func (r *report) turns(ctx context.Context, tools string) (err error) {
	o := r.Options
	if err := os.MkdirAll(o.Dir, 0o750); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(o.Dir, "turns-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	for round := range o.Rounds {
		for _, name := range o.Systems {
			s, err := find(name)
			if err != nil {
				return err
			}
			began := time.Now()
			sample, err := turn(ctx, o, tools, dir, s)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			r.add(name, sample)
			fmt.Fprintf(os.Stderr, "round %d, %s: %.0f s; wrote %.0f/s at %.2f µs (tool %.2f), read %.0f/s at %.2f µs, %d MiB\n", round+1, name,
				time.Since(began).Seconds(), sample.Produce.Rate, sample.Produce.CPU, sample.Produce.Tool, sample.Consume.Rate, sample.Consume.CPU, sample.RSS>>20)
		}
	}
	return nil
}

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
	toolCPU   = func(s *sample) float64 { return s.Produce.Tool }
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
		"broker", "written, records/s", "broker's CPU, µs/record", "tool's CPU, µs/record", "batch, KiB", "answered after, ms",
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
			s.title, one.spread(writeRate).Format("%.0f k"), one.spread(writeCPU).Format("%.2f"), one.spread(toolCPU).Format("%.2f"),
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
