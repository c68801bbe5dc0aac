package httpapi

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/internal/budget"
	"github.com/sebbroker/seb/internal/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/problem"
	"github.com/sebbroker/seb/internal/trigger/explain"
)

const (
	// evaluationTime bounds one evaluation, including the wait for the semaphore. Most expressions
	// take milliseconds for ten thousand events.
	evaluationTime = 10 * time.Second
	// decodedShare bounds the memory of a question, as a multiple of its text.
	decodedShare = 8
)

// Evaluator answers POST /evaluate. All methods may be called concurrently.
type Evaluator struct {
	pace  httpconn.ProgressTimeout
	stops *httpconn.DrainGroup
	sem   chan struct{} // a token for each running evaluation
}

// NewEvaluator returns an evaluator that reads bodies with a timeout and is stopped by drain. It
// leaves half of the processors to other work.
func NewEvaluator(timeout httpconn.ProgressTimeout, drain *httpconn.DrainGroup) *Evaluator {
	return &Evaluator{pace: timeout, stops: drain, sem: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))}
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
	answer, err := e.answer(r.Context(), q)
	if err != nil {
		return nil, questionFault(err)
	}
	out := answer.Evaluation()
	return &out, nil
}

// answer acquires the semaphore and answers q.
func (e *Evaluator) answer(ctx context.Context, q *explain.Question) (*explain.Answer, error) {
	outer := ctx
	ctx, done := e.stops.Until(ctx)
	defer done()
	ctx, cancel := context.WithTimeout(ctx, evaluationTime)
	defer cancel()
	select {
	case e.sem <- struct{}{}:
		defer func() { <-e.sem }()
	case <-ctx.Done():
		if outer.Err() == nil && !e.stops.Stopped() {
			return nil, problem.New(api.OverBudget, "no evaluation finished within %s", evaluationTime)
		}
		return nil, context.Cause(ctx)
	}
	answer, err := q.Answer(ctx, nil)
	if errors.Is(err, context.DeadlineExceeded) && outer.Err() == nil {
		return nil, problem.New(api.TooLarge, "evaluation takes more than %s; give fewer events or a simpler expression", evaluationTime)
	}
	return answer, err
}

// questionFault returns the problem of an invalid question.
func questionFault(err error) error {
	var expr *driplang.Error
	var own *explain.Fault
	switch {
	case errors.As(err, &expr):
		p := problem.BadField("expr", "%s", expr.Error())
		p.Line, p.Column, p.Pointer = expr.Line, expr.Col, expr.Pointer
		return p
	case errors.As(err, &own):
		p := problem.New(api.BadRequest, "%s", own.Error())
		if p.Field = own.Field; own.Event >= 0 {
			p.Record = new(int64(own.Event))
		}
		return p
	}
	return err
}
