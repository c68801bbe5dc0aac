// Command perf compares Seb with a bare HTTP server, alternating between them, and prints the
// tables of docs/reports/performance.md. It builds Seb first. All rows take half an hour; -picture
// adds sweeps over workers and record sizes.
//
//	go run -C bench ./cmd/perf -run read -repeat 3
package main

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/sebbroker/seb/bench/report"
	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/engine/base/machine"
	"github.com/sebbroker/seb/internal/operate/progress"
	"github.com/sebbroker/seb/test/campaign"
	"github.com/sebbroker/seb/test/testenv"
)

//go:embed main.go
var source string

type options struct {
	run     *regexp.Regexp
	repeat  int
	scale   float64
	place   place
	picture string
	json    string
	version string
	broker  string
}

func main() {
	var o options
	run := flag.String("run", ".", "run only rows whose name matches")
	flag.IntVar(&o.repeat, "repeat", 5, "samples of each row")
	flag.Float64Var(&o.scale, "scale", 1, "factor of the loads' size")
	flag.StringVar(&o.place.tmpfs, "tmpfs", "/dev/shm", "folder in memory")
	flag.StringVar(&o.place.disk, "disk", "bin", "folder on a disk")
	flag.StringVar(&o.picture, "picture", "", "file for a picture of throughput over workers and record sizes")
	flag.StringVar(&o.json, "json", "bin/perf.json", "file for all samples")
	flag.StringVar(&o.version, "version", "", "version in the report (empty: from git describe)")
	flag.StringVar(&o.place.program, "program", "", "a built seb (empty: build it)")
	flag.StringVar(&o.broker, "broker", "--batch-wait-time 0", "arguments of the broker in the comparison of single requests")
	if os.Getenv(bareVariable) != "" {
		if err := serveBare(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	campaign.Do(source, func(ctx context.Context) (err error) {
		o.version = cmp.Or(o.version, campaign.Version(ctx))
		if o.run, err = regexp.Compile(*run); err != nil {
			return err
		}
		return o.measure(ctx)
	})
}

func (o *options) measure(ctx context.Context) (err error) {
	if err := os.MkdirAll("bin", 0o755); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "seb-perf-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if o.place.program == "" {
		if o.place.program, err = testenv.Build(dir); err != nil {
			return err
		}
	}
	r := Report{Started: time.Now(), Version: o.version, Machine: machine.Here()}
	if err := o.pairs(ctx, &r); err != nil {
		return err
	}
	if err := o.checks(ctx, &r); err != nil {
		return err
	}
	if err := r.Write(os.Stdout); err != nil {
		return err
	}
	if o.picture != "" {
		if err := o.draw(ctx, &r); err != nil {
			return err
		}
	}
	if o.json == "" {
		return nil
	}
	text, err := json.MarshalIndent(&r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(o.json, append(text, '\n'), 0o644)
}

func (o *options) pairs(ctx context.Context, r *Report) error {
	for _, p := range pairs(o.scale) {
		if !o.run.MatchString(p.Name) {
			continue
		}
		bar := progress.New(os.Stderr, p.Name, int64(2*o.repeat), nil)
		result, err := p.Run(ctx, &o.place, o.repeat, func() { bar.Add(1) })
		bar.Clear()
		if err != nil {
			return err
		}
		r.Results = append(r.Results, result)
	}
	return nil
}

// checks are the measurements of the second table: run chooses among size, start, follow, catch-up,
// history, single and forward.
func (o *options) checks(ctx context.Context, r *Report) error {
	one := func(c Check, err error) ([]Check, error) { return []Check{c}, err }
	type check struct {
		name string
		n    int
		do   func(done func()) ([]Check, error)
	}
	list := []check{
		{"size", 1, func(func()) ([]Check, error) { return one(o.place.size(o.place.program)) }},
		{"start", 1, func(func()) ([]Check, error) { return one(o.place.start(max(3, int(30*o.scale)))) }},
		{"follow", 1, func(func()) ([]Check, error) {
			return o.place.follow(ctx, time.Duration(o.scale*float64(30*time.Second)))
		}},
		{"catch-up", len(catchUpRows) * o.repeat, func(done func()) ([]Check, error) { return o.place.catchUp(ctx, o.scale, o.repeat, done) }},
		{"history", historyObjects(o.scale) + 4*o.repeat, func(done func()) ([]Check, error) { return o.place.history(ctx, o.scale, o.repeat, done) }},
	}
	for _, s := range singleConnections {
		list = append(list, check{fmt.Sprintf("single, %d connections", s.connections), 2 * o.repeat, func(done func()) ([]Check, error) {
			return one(o.place.single(ctx, o.broker, s.connections, int(float64(s.requests)*o.scale), o.repeat, done))
		}})
	}
	for _, s := range forwardConnections {
		list = append(list, check{fmt.Sprintf("forward, %d connections", s.connections), 3 * o.repeat, func(done func()) ([]Check, error) {
			return o.place.forward(ctx, s.connections, int(float64(s.requests)*o.scale), o.repeat, done)
		}})
	}
	for _, c := range list {
		if !o.run.MatchString(c.name) {
			continue
		}
		bar := progress.New(os.Stderr, c.name, int64(c.n), nil)
		list, err := c.do(func() { bar.Add(1) })
		bar.Clear()
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		r.Checks = append(r.Checks, list...)
	}
	return nil
}

func (o *options) draw(ctx context.Context, r *Report) error {
	repeat := min(3, o.repeat)
	sheet := report.Sheet{Columns: 2, Width: 420, Height: 290}
	for _, s := range sweeps(o.scale) {
		var results []*Result
		bar := progress.New(os.Stderr, s.Title, int64(2*repeat*len(s.Pairs)), nil)
		for _, p := range s.Pairs {
			result, err := p.Run(ctx, &o.place, repeat, func() { bar.Add(1) })
			if err != nil {
				return err
			}
			results = append(results, result)
		}
		bar.Clear()
		r.Swept = append(r.Swept, results...)
		c, err := s.chart(results)
		if err != nil {
			return err
		}
		sheet.Charts = append(sheet.Charts, c)
	}
	sheet.Caption = fmt.Sprintf("records/s on tmpfs, middle and range of %d runs in turns; %s, %d cores, %s", repeat, r.Machine.CPU, r.Machine.Cores, r.Version)
	if err := os.MkdirAll(filepath.Dir(o.picture), 0o755); err != nil {
		return err
	}
	var b strings.Builder
	if err := sheet.SVG(&b); err != nil {
		return err
	}
	return os.WriteFile(o.picture, []byte(b.String()), 0o644)
}

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

// place contains the program and the folders of the measurements.
type place struct {
	program string // the built seb
	tmpfs   string // a folder in memory
	disk    string // a folder on a disk
}

// within calls f with temporary folders and removes them after f returns.
func (p *place) within(f func(tmpfs, disk string) error) (err error) {
	var dirs [2]string
	for i, parent := range []string{p.tmpfs, p.disk} {
		if dirs[i], err = os.MkdirTemp(parent, "seb-perf-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dirs[i])) }()
	}
	return f(dirs[0], dirs[1])
}

// measure runs the program once. It replaces {tmpfs} and {disk} in args by temporary folders.
func (p *place) measure(ctx context.Context, args ...string) (s Sample, err error) {
	err = p.within(func(tmpfs, disk string) error {
		in := strings.NewReplacer("{tmpfs}", tmpfs, "{disk}", disk)
		full := []string{}
		for _, a := range args {
			full = append(full, in.Replace(a))
		}
		cmd := exec.CommandContext(ctx, p.program, append(full, "--json")...)
		cmd.Env = append(os.Environ(), "TMPDIR="+disk)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("%s %s: %w\n%.2000s", filepath.Base(p.program), strings.Join(full, " "), err, errs.String())
		}
		s, err = parse(out)
		return err
	})
	return s, err
}

// broker is a broker in a separate process.
type broker struct {
	*testenv.Broker
	url, key string
	client   *client.Client
	started  time.Duration // from start until it accepts requests
}

// serve starts a broker with a bucket and a data folder.
func (p *place) serve(bucket, data string, args ...string) (*broker, error) {
	began := time.Now()
	run, err := testenv.Serve(p.program, nil, append([]string{"--bucket", bucket, "--data-dir", data, "--http-port", "0"}, args...)...)
	if err != nil {
		return nil, err
	}
	b := &broker{Broker: run}
	if b.url, err = run.Address(data); err == nil {
		b.started = time.Since(began)
		var key []byte
		key, err = os.ReadFile(filepath.Join(data, "api-key"))
		b.key = strings.TrimSpace(string(key))
	}
	if err == nil {
		b.client, err = client.New(b.url, client.Options{APIKey: b.key})
	}
	if err != nil {
		run.Kill()
		return nil, err
	}
	return b, nil
}

// get sends a request that the Go client does not support. The caller closes the body.
func (b *broker) get(ctx context.Context, path, accept string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.url+path, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", accept)
	req.Header.Set("Authorization", "Bearer "+b.key)
	resp, err := http.DefaultClient.Do(req)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.Join(fmt.Errorf("GET %s: %s", path, resp.Status), resp.Body.Close())
	}
	return resp, err
}

// stop stops the broker gracefully. It returns an error if the exit code is not 0.
func (b *broker) stop() error {
	b.client.Close()
	if code := b.Stop(); code != 0 {
		return fmt.Errorf("exit code %d\n%s", code, b.Log())
	}
	return nil
}
