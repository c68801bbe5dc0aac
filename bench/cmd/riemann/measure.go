package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sebbroker/seb/bench/machine"
	"github.com/sebbroker/seb/bench/report"
	histograms "github.com/sebbroker/seb/bench/result"
	host "github.com/sebbroker/seb/internal/engine/base/machine"
	"github.com/sebbroker/seb/internal/operate/progress"
	"github.com/sebbroker/seb/test/riemanntest"
)

// slice is the time between two points of the chart.
const slice = 500 * time.Millisecond

// place has the programs and the folder of a run.
type place struct {
	*options
	dir  string
	seb  string // the built program
	self string // this program, which is also the bare server
}

// turn is a load of a server.
type turn struct {
	events int64 // acknowledged
	took   time.Duration
	server time.Duration // CPU time
	client time.Duration // CPU time of this process
	slices []int64       // events of each slice
}

// delay is the distribution of the latencies of single events.
type delay struct {
	name    string
	clients int
	args    []string // of seb serve
	hist    *histograms.Histogram
}

// result is everything that was measured.
type result struct {
	*options
	started       time.Time
	before, after machine.Detail
	filesystem    string
	seb, bare     *target
	stored        int64 // events in the broker's topic, at the end
	delays        []*delay
}

func (p *place) measure(ctx context.Context) (r *result, err error) {
	r = &result{options: p.options, started: time.Now(), before: machine.HereInDetail()}
	if r.filesystem, err = machine.Filesystem(p.dir); err != nil {
		return nil, err
	}
	r.delays = []*delay{
		{name: "stored (the default)", clients: 1},
		{name: "stored (the default)", clients: 8},
		{name: "`--riemann-ack received`", clients: 1, args: []string{"--riemann-ack", "received"}},
	}
	bar := progress.New(os.Stderr, "riemann", int64(2*p.rounds+len(r.delays)), nil)
	done := func() { bar.Add(1) }
	if err := p.turns(ctx, r, done); err != nil {
		return nil, err
	}
	for _, d := range r.delays {
		if err := p.delay(ctx, d); err != nil {
			return nil, fmt.Errorf("latency, %s: %w", d.name, err)
		}
		done()
	}
	bar.Clear()
	r.after = machine.HereInDetail()
	return r, nil
}

// turns measures both servers in turns. It compares the events that they have acknowledged with
// those that they have received. It calls done after each turn.
func (p *place) turns(ctx context.Context, r *result, done func()) (err error) {
	if r.bare, err = p.startBare(); err != nil {
		return err
	}
	defer r.bare.Kill()
	if r.seb, err = p.startSeb("load"); err != nil {
		return err
	}
	defer r.seb.Kill()
	servers := []*target{r.bare, r.seb}
	for _, t := range servers { // to warm up
		if _, err := t.load(ctx, p.options, p.time/8); err != nil {
			return err
		}
	}
	for range p.rounds {
		for _, t := range servers {
			one, err := t.load(ctx, p.options, p.time)
			if err != nil {
				return err
			}
			t.turns = append(t.turns, one)
			done()
		}
	}
	for _, t := range servers {
		t.peak = t.Status("VmHWM")
	}
	if r.stored, err = r.seb.stored(ctx); err != nil {
		return err
	}
	if r.stored < r.seb.all {
		return fmt.Errorf("%d events are stored, but %d were acknowledged", r.stored, r.seb.all)
	}
	if err := r.seb.stop(); err != nil {
		return err
	}
	return r.bare.counted()
}

// load sends messages on several connections for a time.
func (t *target) load(ctx context.Context, o *options, d time.Duration) (turn, error) {
	before, err := machine.Process(t.Pid())
	if err != nil {
		return turn{}, err
	}
	own, begin := host.CPUTime(), time.Now()
	slices := make([]atomic.Int64, d/slice+1) // the last one has the answers after the end
	p := riemanntest.Pipeline{
		Message: riemanntest.WithLength(riemanntest.Message(riemanntest.PerMessage)), Window: o.window,
		More: func() bool { return time.Since(begin) < d && ctx.Err() == nil },
		Answered: func() {
			slices[min(int(time.Since(begin)/slice), len(slices)-1)].Add(riemanntest.PerMessage)
		},
	}
	errs := make(chan error, o.connections)
	for range o.connections {
		go func() { errs <- p.Run(t.addr) }()
	}
	for range o.connections {
		if e := <-errs; e != nil {
			err = e
		}
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return turn{}, fmt.Errorf("load of %s: %w\n%s", t.addr, err, t.Log())
	}
	one := turn{took: time.Since(begin), client: host.CPUTime() - own}
	after, err := machine.Process(t.Pid())
	if err != nil {
		return turn{}, err
	}
	one.server = after.CPU - before.CPU
	for i := range slices {
		one.events += slices[i].Load()
		one.slices = append(one.slices, slices[i].Load())
	}
	one.slices = one.slices[:len(one.slices)-1]
	t.all += one.events
	return one, nil
}

// delay measures single events on a new broker: each client sends one after the answer to its last.
func (p *place) delay(ctx context.Context, d *delay) error {
	t, err := p.startSeb(fmt.Sprintf("delay-%d-%d", d.clients, len(d.args)), d.args...)
	if err != nil {
		return err
	}
	defer t.Kill()
	if err := t.ask(ctx, time.Now().Add(p.latency/8), func(time.Duration) {}); err != nil { // to warm up
		return err
	}
	end := time.Now().Add(p.latency)
	errs := make(chan error, d.clients)
	var mu sync.Mutex // guards d.hist
	d.hist = histograms.NewHistogram()
	for range d.clients {
		go func() {
			errs <- t.ask(ctx, end, func(took time.Duration) {
				mu.Lock()
				defer mu.Unlock()
				d.hist.Record(int64(took))
			})
		}()
	}
	for range d.clients {
		if e := <-errs; e != nil {
			err = e
		}
	}
	if err != nil {
		return err
	}
	return t.stop()
}

// ask sends single events until a time, each after the answer to the last one.
func (t *target) ask(ctx context.Context, end time.Time, record func(time.Duration)) error {
	c, err := net.Dial("tcp", t.addr)
	if err != nil {
		return err
	}
	defer c.Close()
	msg := riemanntest.WithLength(riemanntest.Message(1))
	for ctx.Err() == nil {
		begin := time.Now()
		if begin.After(end) {
			return nil
		}
		if err := riemanntest.Ask(c, msg); err != nil {
			return fmt.Errorf("%w\n%s", err, t.Log())
		}
		record(time.Since(begin))
	}
	return ctx.Err()
}

// goal is the lowest rate of acknowledged events per second.
const goal = 210_000

// percentiles are the columns of the table of latencies.
var percentiles = []float64{50, 75, 90, 95, 99, 99.9}

func (t *target) spread(of func(turn) float64) report.Spread { return report.SpreadBy(t.turns, of) }

// The figures of a turn in the units of the table.
func thousands(t turn) float64 { return float64(t.events) / t.took.Seconds() / 1000 }
func serverCPU(t turn) float64 { return float64(t.server.Nanoseconds()) / float64(t.events) }
func clientCPU(t turn) float64 { return float64(t.client.Nanoseconds()) / float64(t.events) }

// ratio compares turns of the same round, because a temporary slowdown of the machine affects both.
func (r *result) ratio(of func(turn) float64) report.Spread {
	var list []float64
	for i := range r.seb.turns {
		list = append(list, of(r.seb.turns[i])/of(r.bare.turns[i]))
	}
	return report.SpreadOf(list)
}

// write prints the report as Markdown, with a link to its picture unless that is "".
func (r *result) write(out io.Writer, picture string) error {
	loads := func(l [3]float64) string { return fmt.Sprintf("%.2f, %.2f, %.2f", l[0], l[1], l[2]) }
	fmt.Fprintf(out, `# Riemann: reference load

Commit %s, %s. %s.
Bucket on %s. Load average (1, 5 and 15 minutes) %s before the run,
%s after it.

%s

The broker is a process with a bucket on disk: an answer follows the fsync. The bare server is a
process that reads, counts and answers. Messages have %d events (%d bytes). They arrive on %d
connections, each with up to %d messages that wait for their answer. The servers take turns of %v
and share the machine with the client. Median and range of %d turns.

`, r.version, r.started.UTC().Format(time.DateOnly), r.before, r.filesystem, loads(r.before.Load), loads(r.after.Load),
		"```sh\ngo run -C bench ./cmd/riemann -report docs/reports/riemann.md    # two minutes\n```",
		riemanntest.PerMessage, len(riemanntest.Message(riemanntest.PerMessage)), r.connections, r.window, r.time, r.rounds)
	rows := [][]string{{"server", "events/s acknowledged", "server's CPU, ns/event", "client's CPU, ns/event", "peak MiB"}}
	for _, s := range []struct {
		name string
		*target
	}{{"Seb, bucket on disk, fsync", r.seb}, {"bare server", r.bare}} {
		rows = append(rows, []string{
			s.name, s.spread(thousands).Format("%.0f k"), s.spread(serverCPU).Format("%.0f"), s.spread(clientCPU).Format("%.0f"),
			fmt.Sprintf("%.0f", float64(s.peak)/(1<<20)),
		})
	}
	if err := report.AlignedTable(out, rows); err != nil {
		return err
	}
	fmt.Fprintln(out)
	rate := r.seb.spread(thousands)
	rows = [][]string{
		{"Seb", "measured", "target", ""},
		{"events/s acknowledged", rate.Format("%.0f k"), fmt.Sprintf("≥ %d k", goal/1000), report.Verdict(rate.Middle >= goal/1000)},
		{"events/s, of the bare server", r.ratio(thousands).Format("%.2f"), "", ""},
		{"CPU per event, of the bare server", r.ratio(serverCPU).Format("%.1f"), "", ""},
		{"events stored / acknowledged", fmt.Sprintf("%d / %d", r.stored, r.seb.all), "no loss", report.Verdict(r.stored >= r.seb.all)},
	}
	if err := report.AlignedTable(out, rows); err != nil {
		return err
	}
	if picture != "" {
		fmt.Fprintf(out, "\n![Events per second over time, and latencies](%s)\n", picture)
	}
	fmt.Fprintf(out, "\nLatency of single events. Each client sends the next event after the answer to the last one, for\n%v. The batch wait is the default.\n\n", r.latency)
	rows = [][]string{{"acknowledged when", "clients", "events"}}
	for _, p := range percentiles {
		rows[0] = append(rows[0], fmt.Sprintf("p%v", p))
	}
	rows[0] = append(rows[0], "maximum")
	for _, d := range r.delays {
		row := []string{d.name, fmt.Sprint(d.clients), fmt.Sprint(d.hist.Count())}
		for _, p := range percentiles {
			v, shown := d.hist.Percentile(p)
			row = append(row, report.SpreadOf([]float64{float64(v)}).Text(shown))
		}
		rows = append(rows, append(row, report.SpreadOf([]float64{float64(d.hist.Max())}).Text(true)))
	}
	return report.AlignedTable(out, rows)
}

// sheet draws the rates over time and the latencies.
func (r *result) sheet() *report.Sheet {
	over := func(title string, lines ...report.Trace) *report.Chart {
		return &report.Chart{
			Title: title, YLabel: "events/s acknowledged", XLabel: "seconds of load", X: report.Linear, Y: report.Linear, Lines: lines,
			Note: fmt.Sprintf("turns of %v, without those of the other server in between", r.time),
		}
	}
	seb, bare := r.seb.line("every half second", 0), r.bare.line("every half second", 1)
	end := seb.X[len(seb.X)-1]
	target := report.Trace{Name: "target", Colour: report.Colour(2), Dashed: true, X: []float64{0, end}, Y: []float64{goal, goal}}
	late := &report.Chart{
		Title: "Latency of single events", YLabel: "until acknowledged", XLabel: "percentile", X: report.Nines, Y: report.Log, YTime: true,
	}
	for i, d := range r.delays {
		t := report.Trace{Name: fmt.Sprintf("%s, clients: %d", strings.ReplaceAll(d.name, "`", ""), d.clients), Colour: report.Colour(i)}
		for x := 0.0; ; x += 0.02 { // in nines
			v, shown := d.hist.Percentile(100 * (1 - math.Pow(10, -x)))
			if !shown {
				break
			}
			t.X, t.Y = append(t.X, x), append(t.Y, float64(v))
		}
		late.Lines = append(late.Lines, t)
	}
	return &report.Sheet{
		Columns: 2, Width: 520, Height: 340,
		Charts:  []*report.Chart{over("Seb, bucket on disk, fsync", seb, target), over("Bare server", bare), late},
		Caption: fmt.Sprintf("%s, %d cores, %s", r.before.CPU, r.before.Cores, r.version),
	}
}

// line returns the rates of all turns, one after the other.
func (t *target) line(name string, colour int) report.Trace {
	l := report.Trace{Name: name, Colour: report.Colour(colour)}
	for _, one := range t.turns {
		for _, n := range one.slices {
			l.X = append(l.X, float64(len(l.X)+1)*slice.Seconds())
			l.Y = append(l.Y, float64(n)/slice.Seconds())
		}
	}
	return l
}
