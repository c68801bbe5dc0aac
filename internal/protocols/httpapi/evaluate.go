package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/driplang/monitor"
	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/base/machine"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/protocols/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/protocols/problem"
	"github.com/sebbroker/seb/internal/triggers/rules"
	"github.com/sebbroker/seb/internal/triggers/rules/explain"
)

const (
	// evaluationTime bounds one evaluation, including the wait for the semaphore. Most expressions
	// take milliseconds for ten thousand events.
	evaluationTime = 10 * time.Second
	// decodedShare bounds the memory of a question, as a multiple of its text.
	decodedShare = 8
	// stepsMax bounds the steps of an answer, stepBytes the memory of one.
	stepsMax  = 10_000
	stepBytes = 768
)

// Evaluator answers POST /evaluate. All methods may be called concurrently.
type Evaluator struct {
	pace  httpconn.ProgressTimeout
	stops *httpconn.DrainGroup
	sem   chan struct{} // a token for each running evaluation
	limit time.Duration // of one evaluation
}

// NewEvaluator returns an evaluator that reads bodies with a timeout and is stopped by drain. It
// leaves half of the cores to other work.
func NewEvaluator(timeout httpconn.ProgressTimeout, drain *httpconn.DrainGroup) *Evaluator {
	return &Evaluator{pace: timeout, stops: drain, sem: make(chan struct{}, max(1, machine.Cores()/2)), limit: evaluationTime}
}

// Evaluate evaluates the expression for the events of the body. m, which it releases, bounds the
// memory. Errors: *api.Problem, and those of reading a body, of memory and of the context.
func (e *Evaluator) Evaluate(w http.ResponseWriter, r *http.Request, m budget.Arena) (*api.Evaluation, error) {
	in := httpconn.Body{W: w, R: r, Timeout: e.pace, Max: explain.BodyMax, Memory: m}
	defer in.Memory.Release()
	if err := in.Open(); err != nil {
		return nil, err
	}
	body, err := in.ReadAll()
	if err != nil {
		return nil, err
	}
	if err := in.Memory.Hold(decodedShare * int64(len(body))); err != nil {
		return nil, err
	}
	q, err := explain.Parse(body)
	if err != nil {
		return nil, questionFault(err)
	}
	var steps []api.EvaluationStep
	var trace func(explain.Moment)
	truncated := false
	if q.Trace {
		most := min(stepsMax, 1000+2*len(q.Events))
		if err := in.Memory.Hold(int64(most) * stepBytes); err != nil {
			return nil, err
		}
		trace = func(m explain.Moment) {
			if truncated = truncated || len(steps) == most; !truncated {
				steps = append(steps, stepOf(&m))
			}
		}
	}
	answer, err := e.answer(r.Context(), q, trace)
	if err != nil {
		return nil, questionFault(err)
	}
	out := EvaluationOf(answer)
	out.Steps, out.Truncated = steps, truncated
	return &out, nil
}

// answer acquires the semaphore and answers q.
func (e *Evaluator) answer(ctx context.Context, q *explain.Question, trace func(explain.Moment)) (a *explain.Answer, err error) {
	err = e.use(ctx, "give fewer events or a simpler expression", func(ctx context.Context) error {
		a, err = q.Answer(ctx, trace)
		return err
	})
	return a, err
}

// use calls f with a token of the semaphore and a context that bounds the time. hint says what makes f
// faster.
func (e *Evaluator) use(outer context.Context, hint string, f func(context.Context) error) error {
	ctx, done := e.stops.Until(outer)
	defer done()
	ctx, cancel := context.WithTimeout(ctx, e.limit)
	defer cancel()
	select {
	case e.sem <- struct{}{}:
		defer func() { <-e.sem }()
	case <-ctx.Done():
		if outer.Err() == nil && !e.stops.Stopped() {
			return problem.New(api.OverBudget, "no evaluation finished within %s", e.limit)
		}
		return context.Cause(ctx)
	}
	err := f(ctx)
	if errors.Is(err, context.DeadlineExceeded) && outer.Err() == nil {
		return problem.New(api.TooLarge, "evaluation takes more than %s; %s", e.limit, hint)
	}
	return err
}

// questionFault returns the problem of an invalid question.
func questionFault(err error) error {
	var own *explain.Fault
	if errors.As(err, &own) {
		p := problem.New(api.BadRequest, "%s", own.Error())
		if p.Field = own.Field; own.Event >= 0 {
			p.Record = new(int64(own.Event))
		}
		return p
	}
	return expressionFault("expr", err)
}

// expressionFault returns the problem of an invalid expression in a field, with its position.
func expressionFault(field string, err error) error {
	var expr *driplang.Error
	if !errors.As(err, &expr) {
		return err
	}
	p := problem.BadField(field, "%s", expr.Error())
	p.Line, p.Column, p.Pointer = expr.Line, expr.Col, expr.Pointer
	return p
}

// explainFirings bounds the firings of an explanation.
const explainFirings = 100

// Explain answers GET /triggers/{id}/entities/{entity}.
func (t *Triggers) Explain(c *triggerCall) (*api.Explanation, error) {
	name, err := entity(c.r)
	if err != nil {
		return nil, err
	}
	if err := c.m.Hold(explainFirings*(firingBytes+rules.OutcomeBytesMax) + heldBytes + rules.HistoryMemory); err != nil {
		return nil, err
	}
	x, err := c.Engine.Explain(c.r.Context(), c.r.PathValue(VariableID), name)
	if err != nil {
		return nil, triggerFault(err)
	}
	h, err := t.history(c, name)
	if err != nil {
		return nil, triggerFault(err)
	}
	out := &api.Explanation{
		Trigger: x.Trigger, Version: x.Version, Entity: x.Entity, Known: x.Known, Value: x.True, AsOf: instantOrZero(x.Complete),
		Next: instantIf(x.Next), Completed: x.Completed, Fired: x.Fired, WaitsFor: x.Waits,
		MustCome: append([]string{}, x.MustCome...), MustNotCome: append([]string{}, x.MustNotCome...), Names: append([]string{}, x.Names...),
		Awaited: awaited(x.Awaited), Instances: x.Instances, Degraded: x.Degraded, Offsets: append([]int64{}, x.Witness...),
		Firings: []api.Firing{}, Why: x.Why(h), History: entityHistory(h),
	}
	if !c.by.Allow(access.Read, access.Topic, h.Topic) {
		out.History.Others = []api.EventCount{}
	} else if err := c.by.require(access.Read, access.Topic, h.Topic); err != nil {
		return nil, err // the right is checked again when the answer is written
	}
	held := t.holds(c)
	for i := range x.Firings {
		out.Firings = append(out.Firings, held.firing(&x.Firings[i]))
	}
	return out, nil
}

// history reads and evaluates the events of an entity, as one of the evaluations that run at once. If
// no other one ends in time, or this one takes too long, the answer is the state alone.
func (t *Triggers) history(c *triggerCall, entity string) (h *rules.History, err error) {
	err = t.o.Evaluator.use(c.r.Context(), "use a simpler expression", func(ctx context.Context) error {
		h, err = c.Engine.History(ctx, c.r.PathValue(VariableID), entity)
		return err
	})
	var p *api.Problem
	if errors.As(err, &p) && (p.Code == api.TooLarge || p.Code == api.OverBudget) {
		return &rules.History{Unread: rules.TooSlow}, nil
	}
	return h, err
}

func entityHistory(h *rules.History) api.EntityHistory {
	out := api.EntityHistory{
		Unread: string(h.Unread), Events: h.Events, AsOf: instantOrZero(h.Complete), Value: h.Value.String(), Partition: int32(h.Partition), Elsewhere: h.Elsewhere,
		Others: []api.EventCount{}, Steps: []api.HistoryStep{}, More: h.More,
	}
	if h.Events > 0 {
		out.Since = new(time.UnixMilli(h.Since).UTC())
	}
	for _, o := range h.Others {
		out.Others = append(out.Others, api.EventCount{Event: o.Name, Count: o.Count})
	}
	for i := range h.Steps {
		s := &h.Steps[i]
		one := stepOf(&s.Moment)
		x := api.HistoryStep{At: one.At, Event: s.Name, Skipped: one.Skipped, Effect: one.Effect, Expr: one.Expr, Value: one.Value, Text: one.Text}
		if s.Offset >= 0 {
			x.Offset = &s.Offset
		}
		out.Steps = append(out.Steps, x)
	}
	return out
}

// awaitedBytes bounds the expressions of the awaited events in an explanation.
const awaitedBytes = 64 << 10

// awaited converts the awaited events to their form in answers, sorted by the end of their time.
func awaited(list []monitor.AwaitedEvent) []api.AwaitedEvent {
	out, size := []api.AwaitedEvent{}, 0
	for _, w := range explain.SortAwaited(list) {
		if size += len(w.Expr) + len(w.Name); size > awaitedBytes {
			break
		}
		x := api.AwaitedEvent{Event: w.Name, Expr: w.Expr, Role: api.MustCome, Have: w.Have, Need: w.Need}
		switch {
		case w.Begins:
			x.Role = api.Starts
		case w.Absent:
			x.Role = api.MustNotCome
		}
		if w.From != math.MinInt64 {
			x.From = new(instant(w.From))
		}
		if w.Until != math.MaxInt64 {
			x.Until = new(instant(w.Until))
		}
		out = append(out, x)
	}
	return out
}

const (
	// expressionBodyMax bounds the body of POST /drip/parse: the longest expression in JSON form, and a
	// text whose bytes are all escaped.
	expressionBodyMax = driplang.MaxJSON + 6*driplang.MaxText + 1<<10
	// parsedShare bounds the memory of an expression with its sentence and spans, as a multiple of
	// its text, and that of a source. Deep expressions have long numbers and pointers.
	parsedShare = 512
	// storiesBytes bounds the memory of stories beside their expression.
	storiesBytes = 2 << 20
)

// postParse answers POST /drip/parse. It parses an expression that the client is editing.
func (a *API) postParse(w http.ResponseWriter, r *http.Request, _ *caller) error {
	return a.answerExpression(w, r, 0, func(body []byte) (any, error) { return parsed(body) })
}

// postStories answers POST /drip/stories. It shows what an expression means by short histories.
func (a *API) postStories(w http.ResponseWriter, r *http.Request, _ *caller) error {
	return a.answerExpression(w, r, storiesBytes, func(body []byte) (any, error) {
		var given struct {
			Expr json.RawMessage `json:"expr"`
		}
		e, err := decodeExpression(body, &given, &given.Expr)
		if err != nil {
			return nil, err
		}
		out, err := StoriesOf(e)
		if err != nil {
			return nil, problem.BadField("expr", "%s", err)
		}
		return out, nil
	})
}

// answerExpression answers a request whose body has an expression. more is the memory that the
// answer takes beside the expression.
func (a *API) answerExpression(w http.ResponseWriter, r *http.Request, more int64, answer func(body []byte) (any, error)) error {
	in := httpconn.Body{W: w, R: r, Timeout: a.pace, Max: expressionBodyMax, Memory: budget.Arena{Class: a.produce, Buffers: a.buffers}}
	defer in.Memory.Release()
	if err := in.Open(); err != nil {
		return err
	}
	body, err := in.ReadAll()
	if err != nil {
		return err
	}
	if err := in.Memory.Hold(parsedShare*min(int64(len(body)), 2*driplang.MaxText) + more); err != nil {
		return err
	}
	out, err := answer(body)
	if err != nil {
		return err
	}
	return a.writeState(w, http.StatusOK, out)
}

// decodeExpression decodes a body into given, and parses its member expr.
func decodeExpression(body []byte, given any, expr *json.RawMessage) (e driplang.Expr, err error) {
	if !utf8.Valid(body) {
		return e, problem.BadField("body", "not valid UTF-8")
	}
	if err := httpconn.Decode(body, given); err != nil {
		return e, err
	}
	if *expr == nil {
		return e, problem.BadField("expr", "missing")
	}
	if e, err = explain.ParseExpr(*expr); err != nil {
		return e, questionFault(err)
	}
	return e, nil
}

func parsed(body []byte) (*api.Expression, error) {
	var given struct {
		Expr   json.RawMessage `json:"expr"`
		Source *string         `json:"source"` // text of an expression in JSON form before an edit
	}
	e, err := decodeExpression(body, &given, &given.Expr)
	if err != nil {
		return nil, err
	}
	out := &api.Expression{Text: e.String(), Names: e.Names(), Warnings: []api.ExpressionWarning{}, Spans: []api.ExpressionSpan{}}
	switch {
	case given.Expr[0] == '"':
		if err := json.Unmarshal(given.Expr, &out.Text); err != nil {
			return nil, err
		}
	case given.Source != nil:
		if out.Text, err = e.TextLike(*given.Source); err != nil {
			return nil, expressionFault("source", err)
		}
	}
	if e, err = driplang.Parse(out.Text); err != nil { // for its spans
		return nil, err
	}
	if out.Expr, err = e.MarshalJSON(); err != nil {
		return nil, err
	}
	out.Sentence = e.Sentence()
	for _, w := range e.Warnings() {
		out.Warnings = append(out.Warnings, api.ExpressionWarning{Kind: string(w.Kind), Message: w.Message, Pointer: w.Pointer})
	}
	for _, s := range e.Spans() {
		out.Spans = append(out.Spans, api.ExpressionSpan{Pointer: s.Pointer, From: s.From, To: s.To})
	}
	return out, nil
}
