package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sebbroker/seb/bench/machine"
	histograms "github.com/sebbroker/seb/bench/result"
	host "github.com/sebbroker/seb/internal/machine"
	"github.com/sebbroker/seb/internal/progress"
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
