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
	// evaluationTime is how long one may take, with the wait for its turn. Ten thousand events take
	// milliseconds with nearly all expressions.
	evaluationTime = 10 * time.Second
	// decodedShare is above what a question takes in memory, as a multiple of its text.
	decodedShare = 8
)

// Evaluator answers POST /evaluate. All methods may be called concurrently.
type Evaluator struct {
	pace  httpconn.ProgressTimeout
	stops *httpconn.DrainGroup
	turns chan struct{} // holds a token for each evaluation under way
}

// NewEvaluator returns one that reads bodies at a pace and ends when stops says so. As many
// evaluations run at once as leave half of the processors for everything else, whatever they cost.
func NewEvaluator(pace httpconn.ProgressTimeout, stops *httpconn.DrainGroup) *Evaluator {
	return &Evaluator{pace: pace, stops: stops, turns: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))}
}

// Evaluate answers what an expression is worth for the events of the body. m, which it releases,
// bounds the memory that this takes. Errors: *api.Problem, those of reading a body and of memory,
// the context's.
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

// answer waits for its turn and answers q.
func (e *Evaluator) answer(ctx context.Context, q *explain.Question) (*explain.Answer, error) {
	outer := ctx
	ctx, done := e.stops.Until(ctx)
	defer done()
	ctx, cancel := context.WithTimeout(ctx, evaluationTime)
	defer cancel()
	select {
	case e.turns <- struct{}{}:
		defer func() { <-e.turns }()
	case <-ctx.Done():
		if outer.Err() == nil && !e.stops.Stopped() {
			return nil, problem.New(api.OverBudget, "others are being evaluated, for more than %s", evaluationTime)
		}
		return nil, context.Cause(ctx)
	}
	answer, err := q.Answer(ctx, nil)
	if errors.Is(err, context.DeadlineExceeded) && outer.Err() == nil {
		return nil, problem.New(api.TooLarge, "not answered within %s; give fewer events or a simpler expression", evaluationTime)
	}
	return answer, err
}

// questionFault is the problem of a question that has no answer.
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
