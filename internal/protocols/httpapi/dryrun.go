package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/protocols/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/protocols/problem"
	"github.com/sebbroker/seb/internal/triggers/rules"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
)

const (
	// dryRunTime bounds a dry run.
	dryRunTime = 5 * time.Minute
	// dryRunSampleMax bounds the factor of a sample.
	dryRunSampleMax = 65_536
	// progressEvery is the shortest time between two progress events.
	progressEvery = 500 * time.Millisecond
)

// dryRunTypes are the media types of an answer.
var dryRunTypes = []string{api.JSON, api.EventStream}

// postDryRun answers with a dry run, or with a stream of its progress that ends with an event result
// or error. An error before the dry run has begun has the status of an ordinary answer.
func (a *API) postDryRun(w http.ResponseWriter, r *http.Request, by *caller) error {
	e, err := a.triggers.engine(r.Context())
	if err != nil {
		return err
	}
	w.Header().Add("Vary", "Accept")
	c := a.triggerCall(e, w, r, by, budget.Produce)
	defer c.m.Release()
	if httpconn.Negotiate(r.Header.Values("Accept"), dryRunTypes) != api.EventStream {
		out, err := a.triggers.DryRun(c, nil)
		if err != nil {
			return err
		}
		return a.writeState(w, http.StatusOK, out)
	}
	s := &dryRunStream{a: a, w: w}
	out, err := a.triggers.DryRun(c, s.progress)
	switch {
	case err == nil:
		return Sent(s.send("result", out))
	case !s.began:
		return err
	case s.err != nil:
		return Sent(s.err)
	}
	p := describe(err)
	if brokersFault(&p) && !a.gone(r, err) {
		a.logSampled(slog.LevelError, "dry run failed", r, err)
	}
	return Sent(s.send("error", &p))
}

// dryRunStream is the event stream of a dry run.
type dryRunStream struct {
	a     *API
	w     http.ResponseWriter
	next  time.Time // of a progress event
	began bool
	err   error // of writing
}

// progress sends a progress event, unless the last one was a moment ago.
func (s *dryRunStream) progress(p api.DryRunProgress) error {
	now := time.Now()
	if now.Before(s.next) {
		return nil
	}
	s.next = now.Add(progressEvery)
	return s.send("progress", &p)
}

func (s *dryRunStream) send(event string, data any) error {
	body, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("encode event: %w", err)
	}
	if !s.began {
		s.began = true
		s.a.readHeaders(s.w)
		h := s.w.Header()
		h.Set("Content-Type", api.EventStream)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Accel-Buffering", "no") // reverse proxies must not buffer events
		s.w.WriteHeader(http.StatusOK)
	}
	s.err = s.a.pace.Send(s.w, slices.Concat([]byte("event: "+event+"\ndata: "), body, []byte("\n\n")))
	if s.err == nil {
		s.err = http.NewResponseController(s.w).Flush()
	}
	return s.err
}

// dryRunOptions reads the parameters of a dry run.
func dryRunOptions(r *http.Request) (o rules.DryRunOptions, err error) {
	q := httpconn.ParseParams(r.URL.RawQuery)
	o.Since, _ = q.TimeIf(httpconn.ParamSince)
	until, bounded := q.TimeIf(httpconn.ParamUntil)
	if o.Until = until; bounded && until <= o.Since {
		q.Fail(httpconn.ParamUntil, "want a time after since, %s, given %s", instant(o.Since).Format(time.RFC3339Nano), instant(until).Format(time.RFC3339Nano))
	}
	o.Sample = int(q.Number(httpconn.ParamSample, 1, dryRunSampleMax))
	if o.Sample == 0 {
		q.Fail(httpconn.ParamSample, "want a number from 1 to %d, given 0", dryRunSampleMax)
	}
	if q.Fault != nil {
		return o, q.Fault
	}
	return o, nil
}

// DryRun answers POST /triggers/dry-run. It calls progress with growing numbers, unless it is nil.
func (t *Triggers) DryRun(c *triggerCall, progress func(api.DryRunProgress) error) (out *api.DryRun, err error) {
	o, err := dryRunOptions(c.r)
	if err != nil {
		return nil, err
	}
	d, _, err := t.readSpec(c)
	if err != nil {
		return nil, err
	}
	if !c.by.AllowSome(access.Write, access.Trigger) {
		return nil, forbidden(access.Write, access.Trigger, access.Any)
	}
	if err := c.by.require(access.Read, access.Topic, d.Topic); err != nil {
		return nil, err
	}
	if err := c.m.Hold(matchedBytes); err != nil {
		return nil, err
	}
	outer, stop := c.by.until(c.r.Context())
	defer stop()
	ctx, done := t.o.Drain.Until(outer)
	defer done()
	ctx, cancel := context.WithTimeout(ctx, dryRunTime)
	defer cancel()
	s, err := t.dry.begin(ctx, c.by.Name())
	if err != nil {
		return nil, err
	}
	defer s.end()
	o.Limit, o.More = t.dry.share(), func() (int64, error) { return s.extend(ctx) }
	o.Progress = func(p rules.DryRunProgress) error {
		now := api.DryRunProgress{Read: p.Read, Total: p.Total, Percent: 100}
		if p.Total > 0 {
			now.Percent = int(100 * p.Read / p.Total)
		}
		s.percent.Store(int32(now.Percent))
		if progress == nil {
			return nil
		}
		return progress(now)
	}
	out, err = evaluated(ctx, c.Engine, &d, o)
	if errors.Is(err, context.DeadlineExceeded) && outer.Err() == nil {
		err = problem.New(api.TooLarge, "the history cannot be read within %s; give sample or until", dryRunTime)
	}
	if lost := c.by.check(); lost != nil { // an answer to a POST is not checked when it is written
		return nil, lost
	}
	return out, err
}

// evaluated makes a dry run.
func evaluated(ctx context.Context, e *rules.Engine, d *rule.Definition, o rules.DryRunOptions) (*api.DryRun, error) {
	run, err := e.DryRun(ctx, *d, o)
	if err != nil {
		return nil, triggerFault(err)
	}
	out, err := dryRun(d, run, &o)
	if err == nil {
		out.Samples, err = samples(ctx, e, run.Samples)
	}
	return out, err
}

func dryRun(d *rule.Definition, run *rules.DryRun, o *rules.DryRunOptions) (*api.DryRun, error) {
	expr, err := d.Expr.MarshalJSON()
	if err != nil {
		return nil, err
	}
	out := &api.DryRun{
		Events: run.Events, Matched: run.Matched, Entities: run.Entities, EntitiesSeen: run.Seen(),
		Since: instantIf(o.Since), Until: instantIf(o.Until), Firings: run.Firings, Fired: run.Fired, Days: run.Days,
		True: run.True, Sample: o.Sample, Waiting: run.Waiting, Next: instantIf(run.Next), Instances: run.Instances, Degraded: run.Degraded,
		AsOf: instant(run.Complete), Truncated: run.Truncated, Skipped: run.Skipped, History: history(run.History), CompleteFrom: instantIf(run.Known),
		Names: d.Expr.Names(), Class: class(expr), Warnings: append([]string{}, run.Warnings...), NotFired: []api.NotFired{},
	}
	slices.Sort(out.Names)
	if o.Sample > 1 && !run.Truncated {
		e := run.Estimate()
		out.Estimate = &api.DryRunEstimate{Firings: api.Estimate(e.Firings), Fired: api.Estimate(e.Fired), Entities: api.Estimate(e.Entities)}
	}
	for _, x := range run.Silent {
		out.NotFired = append(out.NotFired, api.NotFired{Entity: x.Entity, True: x.True, Next: instantIf(x.Next), Last: instantIf(x.Last)})
	}
	return out, nil
}

// samples returns firings with their events, as far as their size is within the limit.
func samples(ctx context.Context, e *rules.Engine, list []rules.Firing) ([]api.Sample, error) {
	out := []api.Sample{}
	left := eventBytes
	for i := range list {
		x := &list[i]
		events, err := matchedEvents(ctx, e, x, &left)
		if err != nil {
			return nil, err
		}
		out = append(out, api.Sample{
			Entity: x.Entity, At: instant(x.At), Cause: x.Cause, Offsets: append([]int64{}, x.Witness...), Witness: events,
		})
	}
	return out, nil
}

const (
	// dryRunsMax bounds the dry runs that run at once, each with its share of the memory.
	dryRunsMax = 2
	// dryRunGrace is how long a dry run waits for the end of another one before it is refused: a
	// canceled one ends earlier, so that a client may replace its own at once.
	dryRunGrace = 2 * time.Second
)

// dryRuns shares memory among dry runs: one for each client, and two together. Each begins with half
// of the memory. One that needs more gets the other half while it runs alone. All methods may be
// called concurrently.
type dryRuns struct {
	bytes int64 // of all

	mu      sync.Mutex // guards the fields below
	list    []*dryRunSlot
	changed chan struct{} // closed and replaced when a slot becomes free
}

// dryRunSlot is a running dry run.
type dryRunSlot struct {
	of      *dryRuns
	client  string
	began   time.Time
	percent atomic.Int32
	all     bool // it has, or waits for, the memory of all; guarded by of.mu
}

func newDryRuns(bytes int64) *dryRuns { return &dryRuns{bytes: bytes, changed: make(chan struct{})} }

// begin starts a dry run of a client, which must call end. Errors: ctx's, and a problem that names
// the dry runs that run meanwhile.
func (g *dryRuns) begin(ctx context.Context, client string) (*dryRunSlot, error) {
	grace := time.NewTimer(dryRunGrace)
	defer grace.Stop()
	for {
		s, changed, busy := g.try(client)
		if busy == nil {
			return s, nil
		}
		select {
		case <-changed:
		case <-grace.C:
			return nil, busy
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// try returns a slot, or why there is none and a channel that is closed when that may have changed.
func (g *dryRuns) try(client string) (s *dryRunSlot, changed <-chan struct{}, busy error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := false
	for _, s := range g.list {
		if s.client == client {
			return nil, g.changed, problem.New(api.OverBudget, "a dry run with the same key is %s: wait for it or cancel it", s)
		}
		all = all || s.all
	}
	if all || len(g.list) == dryRunsMax {
		return nil, g.changed, problem.New(api.OverBudget, "%d of at most %d dry runs are running, and have all the memory; the first is %s: retry later",
			len(g.list), dryRunsMax, g.list[0])
	}
	s = &dryRunSlot{of: g, client: client, began: time.Now()}
	g.list = append(g.list, s)
	return s, nil, nil
}

// String says how far the dry run is.
func (s *dryRunSlot) String() string {
	return fmt.Sprintf("running for %s (%d %% read)", time.Since(s.began).Round(time.Second/10), s.percent.Load())
}

// share is the memory with which a dry run begins.
func (g *dryRuns) share() int64 { return g.bytes / dryRunsMax }

// extend waits until the dry run is the only one, and gives it the memory of all. It fails if the
// other one waits for the same.
func (s *dryRunSlot) extend(ctx context.Context) (int64, error) {
	g := s.of
	for {
		g.mu.Lock()
		changed, alone := g.changed, len(g.list) == 1
		for _, other := range g.list {
			if other != s && other.all {
				g.mu.Unlock()
				return 0, problem.New(api.OverBudget,
					"both running dry runs need more than %d bytes, half of their memory: retry later, or evaluate a sample", g.share())
			}
		}
		s.all = true
		g.mu.Unlock()
		if alone {
			return g.bytes, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// end frees the slot.
func (s *dryRunSlot) end() {
	g := s.of
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, x := range g.list {
		if x == s {
			g.list = append(g.list[:i:i], g.list[i+1:]...)
			break
		}
	}
	close(g.changed)
	g.changed = make(chan struct{})
}
