package httpapi

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"time"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/internal/api"
	"github.com/sebbroker/seb/internal/drip"
	"github.com/sebbroker/seb/internal/forms"
	"github.com/sebbroker/seb/internal/httpin"
)

const (
	// evaluationTime is how long one may take, with the wait for its turn. Ten thousand events take milliseconds with nearly
	// all expressions.
	evaluationTime = 10 * time.Second
	// decodedShare is above what a question takes in memory, as a multiple of its text.
	decodedShare = 8
)

// evaluationsMax is how many evaluations run at once: whatever they cost, half of the machine is left for everything else.
func evaluationsMax() int { return max(1, runtime.GOMAXPROCS(0)/2) }

// postEvaluate answers what an expression is worth for the events of the body. It knows and changes nothing of the broker.
func (a *API) postEvaluate(w http.ResponseWriter, r *http.Request) error {
	in := httpin.Body{W: w, R: r, Pace: a.pace, Max: drip.BodyMax, Memory: forms.Memory{Class: a.produce, Buffers: a.buffers}}
	defer in.Memory.Release()
	if err := in.Open(); err != nil {
		return err
	}
	body, err := in.Whole()
	if err != nil {
		return err
	}
	if err := in.Memory.Hold(decodedShare * int64(len(body))); err != nil {
		return err
	}
	q, err := drip.Parse(body)
	if err != nil {
		return questionFault(err)
	}
	answer, err := a.evaluate(r.Context(), q)
	if err != nil {
		return questionFault(err)
	}
	out := answer.Evaluation()
	a.readHeaders(w)
	return a.writeJSON(w, http.StatusOK, &out)
}

// evaluate waits for its turn and answers q.
func (a *API) evaluate(ctx context.Context, q *drip.Question) (*drip.Answer, error) {
	outer := ctx
	ctx, done := a.stops.Until(ctx)
	defer done()
	ctx, cancel := context.WithTimeout(ctx, evaluationTime)
	defer cancel()
	select {
	case a.evaluating <- struct{}{}:
		defer func() { <-a.evaluating }()
	case <-ctx.Done():
		if outer.Err() == nil && !a.stops.Stopped() {
			return nil, api.NewProblem(api.OverBudget, "others are being evaluated, for more than %s", evaluationTime)
		}
		return nil, context.Cause(ctx)
	}
	answer, err := q.Answer(ctx, nil)
	if errors.Is(err, context.DeadlineExceeded) && outer.Err() == nil {
		return nil, api.NewProblem(api.TooLarge, "not answered within %s; give fewer events or a simpler expression", evaluationTime)
	}
	return answer, err
}

// questionFault is the problem of a question that has no answer.
func questionFault(err error) error {
	var expr *driplang.Error
	var own *drip.Fault
	switch {
	case errors.As(err, &expr):
		p := api.BadField("expr", "%s", expr.Error())
		p.Line, p.Column, p.Pointer = expr.Line, expr.Col, expr.Pointer
		return p
	case errors.As(err, &own):
		p := api.NewProblem(api.BadRequest, "%s", own.Error())
		if p.Field = own.Field; own.Event >= 0 {
			p.Record = new(int64(own.Event))
		}
		return p
	}
	return err
}
