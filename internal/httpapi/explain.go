package httpapi

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/budget"
	"github.com/sebbroker/seb/internal/problem"
	"github.com/sebbroker/seb/internal/trigger"
)

// explainFirings bounds the firings of an explanation.
const explainFirings = 100

// Explain answers GET /triggers/{id}/entities/{entity}.
func (t *Triggers) Explain(r *http.Request, m *budget.Arena) (*api.Explanation, error) {
	e, err := t.engine()
	if err != nil {
		return nil, err
	}
	name, err := entity(r, VariableEntity)
	if err != nil {
		return nil, err
	}
	if err := m.Hold(explainFirings*(firingBytes+trigger.OutcomeBytesMax) + heldBytes); err != nil {
		return nil, err
	}
	x, err := e.Explain(r.Context(), r.PathValue(VariableID), name)
	if err != nil {
		return nil, triggerFault(err)
	}
	out := &api.Explanation{
		Trigger: x.Trigger, Version: x.Version, Entity: x.Entity, Known: x.Known, Value: x.True, AsOf: instantOrZero(x.Complete),
		Next: instantIf(x.Next), Completed: x.Completed, Fired: x.Fired, WaitsFor: x.Waits,
		MustCome: append([]string{}, x.MustCome...), MustNotCome: append([]string{}, x.MustNotCome...), Names: append([]string{}, x.Names...),
		Instances: x.Instances, Degraded: x.Degraded, Offsets: append([]int64{}, x.Witness...), Firings: []api.Firing{},
	}
	held := t.holds(r.Context(), e)
	for i := range x.Firings {
		out.Firings = append(out.Firings, held.firing(&x.Firings[i]))
	}
	return out, nil
}

// dryRunTime bounds a dry run, including the wait for the previous one: one runs at a time.
const dryRunTime = 5 * time.Minute

// DryRun answers POST /triggers/dry-run.
func (t *Triggers) DryRun(w http.ResponseWriter, r *http.Request, m *budget.Arena) (*api.DryRun, error) {
	e, err := t.engine()
	if err != nil {
		return nil, err
	}
	d, _, err := t.readSpec(w, r, m)
	if err != nil {
		return nil, err
	}
	if err := m.Hold(matchedBytes); err != nil {
		return nil, err
	}
	outer := r.Context()
	ctx, done := t.o.Drain.Until(outer)
	defer done()
	ctx, cancel := context.WithTimeout(ctx, dryRunTime)
	defer cancel()
	select {
	case t.sem <- struct{}{}:
		defer func() { <-t.sem }()
	case <-ctx.Done():
		if outer.Err() == nil && !t.o.Drain.Stopped() {
			return nil, problem.New(api.OverBudget, "another dry run has been running for more than %s", dryRunTime)
		}
		return nil, context.Cause(ctx)
	}
	run, err := e.DryRun(ctx, d, t.o.DryRunBytes)
	if errors.Is(err, context.DeadlineExceeded) && outer.Err() == nil {
		return nil, problem.New(api.TooLarge, "the history cannot be read within %s", dryRunTime)
	}
	if err != nil {
		return nil, triggerFault(err)
	}
	expr, err := d.Expr.MarshalJSON()
	if err != nil {
		return nil, err
	}
	out := &api.DryRun{
		Events: run.Events, Matched: run.Matched, Entities: run.Entities, Firings: run.Firings, Days: run.Days, True: run.True,
		Waiting: run.Waiting, Next: instantIf(run.Next), Instances: run.Instances, AsOf: instant(run.Complete), Truncated: run.Truncated,
		History: history(run.History), Names: d.Expr.Names(), Class: class(expr), Warnings: append([]string{}, run.Warnings...),
	}
	slices.Sort(out.Names)
	out.Samples, err = samples(ctx, e, run.Samples)
	return out, err
}

// samples returns firings with their events, as far as their size is within the limit.
func samples(ctx context.Context, e *trigger.Engine, list []trigger.Firing) ([]api.Sample, error) {
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
