package agent

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/sebbroker/seb/bench/load"
	"github.com/sebbroker/seb/bench/machine"
	"github.com/sebbroker/seb/bench/result"
	"github.com/sebbroker/seb/bench/sut"
	"github.com/sebbroker/seb/bench/workload"
)

// Run is a run of a team.
type Run struct {
	Workload workload.Workload
	Target   workload.Target // as the agents reach it; PID and Data are of this machine
	Spin     time.Duration
	Floor    time.Duration
	// Progress is called once a second, by one goroutine; nil: not called.
	Progress func(load.Progress)
}

// Largest times of the steps of a run, in addition to the workload.
const (
	readyMax   = 3 * time.Minute // agents connect
	outcomeMax = 2 * time.Minute // agents exchange arrivals and encode their results
	stopMax    = 10 * time.Second
)

// startLead is the delay of the first message, which must exceed the time until all agents know the
// start.
const startLead = 300 * time.Millisecond

// Do performs a run. The error names the responsible agent, if any. The other agents have then
// stopped, or were left after some seconds, and the setup is removed.
func (t *Team) Do(ctx context.Context, r Run) (*result.Run, error) {
	if err := r.validate(len(t.o.Agents)); err != nil {
		return nil, err
	}
	if err := t.connect(ctx); err != nil {
		return nil, err
	}
	d := newDuty(t, &r)
	res, err := d.do(ctx)
	if err != nil {
		// Nothing uses the system any more, so it can be removed.
		t.stop()
		t.Close()
	}
	if d.host != nil {
		if e := d.host.Close(ctx); e != nil && res != nil {
			res.Errors = append(res.Errors, result.Problem{Text: "close: " + e.Error(), Count: 1})
		}
	}
	return res, err
}

func (r *Run) validate(agents int) error {
	if err := r.Workload.Validate(); err != nil {
		return fmt.Errorf("workload: %w", err)
	}
	if _, err := load.Assign(&r.Workload, agents); err != nil {
		return fmt.Errorf("agents: %w", err)
	}
	return nil
}

// stop stops all agents and waits a while for them.
func (t *Team) stop() {
	for _, c := range t.agents {
		if c.running && c.w.send(&frame{Kind: kindStop}) != nil {
			c.running = false
		}
	}
	patience := time.After(stopMax)
	for t.running() {
		select {
		case e := <-t.events:
			e.settle()
		case <-patience:
			return
		}
	}
}

// running reports whether an agent has a run in progress.
func (t *Team) running() bool {
	return slices.ContainsFunc(t.agents, func(c *colleague) bool { return c.running })
}

// settle records the end of an agent's run, if the frame reports it.
func (e *event) settle() {
	if e.err != nil || e.frame.Kind == kindFailed || e.frame.Kind == kindResult {
		e.from.running = false
	}
}

// duty is a run on the coordinator's side, in one goroutine.
type duty struct {
	t      *Team
	r      *Run
	id     uint64
	inside bool
	host   *load.Host // nil: the system is inside the agents

	start  time.Time // when the first message is due
	sent   []time.Time
	apart  time.Duration // largest difference between the agents' starts
	totals []load.Totals // by part
	fresh  map[int]bool  // parts with totals since the last progress
	last   load.Totals   // sum at the last progress
	told   time.Time
	over   bool // the agents know that everything has arrived
	seen   [][]load.Receipts
	res    []result.Run
	broker *usage
}

func newDuty(t *Team, r *Run) *duty {
	n := len(t.agents)
	d := &duty{
		t: t, r: r, inside: sut.Inside(r.Target.Driver), sent: make([]time.Time, n), totals: make([]load.Totals, n), fresh: map[int]bool{},
		seen: make([][]load.Receipts, n), res: make([]result.Run, n),
	}
	for d.id == 0 {
		d.id = rand.Uint64()
	}
	return d
}

func (d *duty) do(ctx context.Context) (*result.Run, error) {
	if !d.inside {
		host, err := load.OpenHost(ctx, load.Options{Workload: d.r.Workload, Target: d.r.Target, Run: d.id})
		if err != nil {
			return nil, err
		}
		d.host = host
	}
	for _, step := range []func(context.Context) error{d.order, d.ready, d.begin, d.watch, d.exchange, d.collect} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return d.merge()
}

// each sends a frame to every agent.
func (d *duty) each(make func(c *colleague) *frame) error {
	for _, c := range d.t.agents {
		if err := c.w.send(make(c)); err != nil {
			return &AgentError{c.address, err}
		}
	}
	return nil
}

// wait passes agents' frames to take until it returns enough.
func (d *duty) wait(ctx context.Context, most time.Duration, what string, take func(e event) (enough bool, err error)) error {
	patience := time.NewTimer(most)
	defer patience.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-patience.C:
			return fmt.Errorf("agents: not all of them %s within %v", what, most)
		case e := <-d.t.events:
			e.settle()
			if e.err != nil {
				return &AgentError{e.from.address, e.err}
			}
			if e.frame.Kind == kindFailed {
				return &AgentError{e.from.address, errors.New(e.frame.Error)}
			}
			enough, err := take(e)
			if err != nil {
				return &AgentError{e.from.address, err}
			}
			if enough {
				return nil
			}
		}
	}
}

// once returns a take that needs one frame of a kind from every agent. It passes each to f, if not
// nil.
func (d *duty) once(want kind, f func(e event) error) func(e event) (bool, error) {
	had := make([]bool, len(d.t.agents))
	n := 0
	return func(e event) (bool, error) {
		switch {
		case e.frame.Kind == kindTotals && e.frame.Totals != nil: // it was sent before
			d.totals[e.from.part] = *e.frame.Totals
			return false, nil
		case e.frame.Kind != want || had[e.from.part]:
			return false, fmt.Errorf("%w: got %q, want %q", ErrFrame, e.frame.Kind, want)
		}
		had[e.from.part] = true
		n++
		return n == len(had), f(e)
	}
}

// order sends the run to the agents.
func (d *duty) order(context.Context) error {
	target := d.r.Target
	target.PID, target.Data, target.Start = 0, "", "" // of this machine
	return d.each(func(c *colleague) *frame {
		c.running = true
		return &frame{Kind: kindRun, Run: &order{
			Run: d.id, Part: c.part, Parts: len(d.t.agents), Workload: d.r.Workload, Target: target, Spin: d.r.Spin, Floor: d.r.Floor,
		}}
	})
}

// ready waits until all agents have connected.
func (d *duty) ready(ctx context.Context) error {
	most := readyMax
	if d.r.Floor > 0 {
		most += d.r.Floor + time.Duration(d.r.Workload.Timeout)
	}
	n := 0
	return d.wait(ctx, most, "were ready", d.once(kindReady, func(e event) error {
		n++
		d.t.o.Say(fmt.Sprintf("agent %s ready, %d of %d", e.from.address, n, len(d.t.agents)))
		return nil
	}))
}

// begin starts the agents after a delay that each measures with its own clock. Each confirms
// immediately, so each begins between the agreed time and that time plus its round trip.
func (d *duty) begin(ctx context.Context) error {
	d.start = time.Now().Add(startLead)
	if err := d.each(func(c *colleague) *frame {
		d.sent[c.part] = time.Now()
		return &frame{Kind: kindStart, After: d.start.Sub(d.sent[c.part])}
	}); err != nil {
		return err
	}
	err := d.wait(ctx, Silence, "began", d.once(kindBegan, func(e event) error {
		d.apart = max(d.apart, e.at.Sub(d.sent[e.from.part]))
		return nil
	}))
	if err == nil && d.host != nil {
		d.broker = watchUsage(d.host.Info().PID, d.start)
	}
	return err
}

// watch follows the run until everything has arrived, or its time is over.
func (d *duty) watch(ctx context.Context) error {
	defer func() {
		if d.broker != nil {
			d.broker.stop()
		}
	}()
	gave := 0 // agents that have stopped waiting
	most := time.Until(d.start) + d.r.Workload.Length() + time.Duration(d.r.Workload.Timeout) + outcomeMax
	return d.wait(ctx, most, "were done", func(e event) (bool, error) {
		switch {
		case e.frame.Kind == kindTotals && e.frame.Totals != nil:
			d.totals[e.from.part], d.fresh[e.from.part] = *e.frame.Totals, true
		case e.frame.Kind == kindSeen:
			gave++
			return gave == len(d.t.agents), d.route(e)
		default:
			return false, fmt.Errorf("%w: %q in a run", ErrFrame, e.frame.Kind)
		}
		d.progress()
		if d.over || !load.Complete(&d.r.Workload, d.totals, d.inside) {
			return false, nil
		}
		d.over = true
		return false, d.each(func(*colleague) *frame { return &frame{Kind: kindOver} })
	})
}

// route assigns an agent's receipts to the agents that sent the messages.
func (d *duty) route(e event) error {
	assignments, err := load.Assign(&d.r.Workload, len(d.t.agents))
	if err != nil {
		return err
	}
	for _, s := range e.frame.Seen {
		i := 0
		for i < len(assignments) && s.Publisher >= assignments[i].PublisherFirst+assignments[i].Publishers {
			i++
		}
		if i == len(assignments) || s.Publisher < 0 {
			return fmt.Errorf("receipts of publisher %d, which does not exist", s.Publisher)
		}
		d.seen[i] = append(d.seen[i], s)
	}
	return nil
}

// exchange tells each agent which of its messages have arrived at other agents.
func (d *duty) exchange(context.Context) error {
	return d.each(func(c *colleague) *frame { return &frame{Kind: kindSeen, Seen: d.seen[c.part]} })
}

// collect waits for the results.
func (d *duty) collect(ctx context.Context) error {
	return d.wait(ctx, outcomeMax, "sent their results", d.once(kindResult, func(e event) error {
		if e.frame.Result == nil {
			return ErrFrame
		}
		d.res[e.from.part] = *e.frame.Result
		return nil
	}))
}

// merge merges the results.
func (d *duty) merge() (*result.Run, error) {
	res, err := result.Merge(d.res)
	if err != nil {
		return nil, err
	}
	res.Target = d.r.Target.Public()
	if d.host != nil {
		res.System = d.host.Info()
	}
	res.Colocated = res.Colocated || d.r.Target.PID > 0
	if data := d.r.Target.Data; data != "" {
		if res.Filesystem, err = machine.Filesystem(data); err != nil {
			res.Errors = append(res.Errors, result.Problem{Text: err.Error(), Count: 1})
		}
	}
	if d.broker != nil {
		d.broker.fill(res.Seconds)
	}
	res.Validity.Reasons = nil
	for i, c := range d.t.agents {
		p := &d.res[i]
		for _, reason := range p.Validity.Reasons {
			res.Validity.Reasons = append(res.Validity.Reasons, "agent "+c.address+": "+reason)
		}
		one := result.Agent{Address: c.address, Machine: p.Machine, Commit: c.tool.Commit, Counts: p.Counts}
		_, headline := p.Curves.Headline()
		one.Measured = headline.Count
		res.Agents = append(res.Agents, one)
	}
	res.StartApart = workload.Duration(d.apart)
	d.notes(&res)
	return &res, nil
}

// notes adds the notes of a run with several clocks.
func (d *duty) notes(res *result.Run) {
	add := func(format string, args ...any) {
		res.Validity.Notes = append(res.Validity.Notes, fmt.Sprintf(format, args...))
	}
	add("%d agents, which began within %v of each other", len(d.t.agents), d.apart)
	if c := res.Counts; c.Others > 0 {
		add("%d of %d deliveries were to another agent than the sender: they are counted but not measured, because clocks differ", c.Others, c.Received)
	}
	for _, c := range d.t.agents {
		if c.tool.Commit != d.t.o.Tool.Commit || c.tool.Dirty != d.t.o.Tool.Dirty {
			add("agent %s is another build: commit %s, this one %s", c.address, c.tool.Commit, d.t.o.Tool.Commit)
		}
	}
}

// progress reports the progress once a second.
func (d *duty) progress() {
	now := time.Now()
	took := now.Sub(d.told)
	if d.r.Progress == nil || took < progressEvery || len(d.fresh) < len(d.totals) {
		return
	}
	clear(d.fresh)
	sum := load.Totals{Phase: result.Drain}
	for i := range d.totals {
		t := &d.totals[i]
		sum.Sent += t.Sent
		sum.Acked += t.Acked
		sum.Failed += t.Failed
		sum.LagMax = max(sum.LagMax, t.LagMax)
		if t.Left > sum.Left || i == 0 {
			sum.Left = t.Left
			sum.Phase = t.Phase
		}
	}
	p := load.Progress{
		Label: d.r.Target.Name(), Phase: sum.Phase, At: max(0, now.Sub(d.start)), Left: sum.Left, Wanted: d.r.Workload.Rate.Float(),
		InFlight: sum.Sent - sum.Acked - sum.Failed, Failed: sum.Failed, Lag: sum.LagMax,
	}
	if !d.told.IsZero() {
		p.Rate = float64(sum.Sent-d.last.Sent) / took.Seconds()
	} else if since := now.Sub(d.start).Seconds(); since > 0 {
		p.Rate = float64(sum.Sent) / since
	}
	d.last, d.told = sum, now
	d.r.Progress(p)
}

// progressEvery is slightly less than the second between two reports of an agent.
const progressEvery = 900 * time.Millisecond

// usage measures the broker's process in each second of a run, if it is on the coordinator's
// machine.
type usage struct {
	cores  []float64
	bytes  []int64
	ending chan struct{}
	done   sync.WaitGroup
	once   sync.Once
}

// watchUsage measures a process from a time on; nil if pid is unknown.
func watchUsage(pid int, from time.Time) *usage {
	if pid <= 0 {
		return nil
	}
	u := &usage{ending: make(chan struct{})}
	u.done.Go(func() {
		last, _ := machine.Process(pid) // a process that has ended uses nothing
		for n := 1; ; n++ {
			select {
			case <-time.After(time.Until(from.Add(time.Duration(n) * time.Second))):
			case <-u.ending:
				return
			}
			now, err := machine.Process(pid)
			if err != nil {
				return
			}
			u.cores = append(u.cores, (now.CPU - last.CPU).Seconds())
			u.bytes = append(u.bytes, now.RSSBytes)
			last = now
		}
	})
	return u
}

// stop ends the measurement. It may be called again.
func (u *usage) stop() {
	u.once.Do(func() { close(u.ending) })
	u.done.Wait()
}

// fill writes the measurement into the seconds of a result.
func (u *usage) fill(seconds []result.Second) {
	for i := range seconds {
		if i < len(u.cores) {
			seconds[i].BrokerCPU, seconds[i].BrokerRSS = u.cores[i], u.bytes[i]
		}
	}
}
