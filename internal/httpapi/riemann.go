package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/access"
	"github.com/sebbroker/seb/internal/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/problem"
	"github.com/sebbroker/seb/internal/riemann/index"
	"github.com/sebbroker/seb/internal/riemann/query"
)

// answerCopies is the memory of an answer of the index in its limits: the events, their JSON, and the
// whole answer.
const answerCopies = 4

// getRiemannIndex answers with the events of the index of Riemann events for which a query is true.
// They include all that were committed before the request.
func (a *API) getRiemannIndex(w http.ResponseWriter, r *http.Request, by *caller) error {
	x := a.o.Riemann
	if x == nil {
		return problem.New(api.RiemannIndexOff, "start the broker with --riemann-listen or --riemann-web-listen")
	}
	if err := by.require(access.Read, access.Topic, x.Topic()); err != nil {
		return err
	}
	q := httpconn.ParseParams(r.URL.RawQuery)
	timeout := q.Duration(httpconn.ParamTimeout, timeoutDefault, timeoutMax)
	text, given := q.Text(httpconn.ParamQuery)
	if !given {
		q.Fail(httpconn.ParamQuery, "required; true matches all events")
	}
	if q.Fault != nil {
		return q.Fault
	}
	matching, err := query.Parse(text)
	if err != nil {
		return problem.BadField(httpconn.ParamQuery, "%v", err)
	}
	memory, err := a.fetch.Reserve(answerCopies * x.AnswerBytes())
	if err != nil {
		return err
	}
	defer memory.Release()
	ctx, done := a.stops.Until(r.Context())
	defer done()
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	switch err := x.CatchUp(waiting); {
	case err != nil && errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return problem.New(api.RiemannIndexUnavailable, "waited %s for the events that were committed before the request", timeout)
	case err != nil:
		return riemannFault(err)
	}
	out := api.RiemannIndex{Topic: x.Topic(), Events: []json.RawMessage{}}
	err = x.Query(ctx, matching, x.AnswerBytes(), func(e *index.Event) error {
		out.Events = append(out.Events, e.AppendJSON(nil))
		return nil
	})
	if err != nil {
		return riemannFault(err)
	}
	return a.writeState(w, http.StatusOK, &out)
}

// riemannFault returns the problem of an error of the index.
func riemannFault(err error) error {
	var many *index.TooManyError
	switch {
	case errors.As(err, &many):
		p := problem.New(api.TooLarge, "%v", err)
		p.Field, p.Limit, p.Given = httpconn.ParamQuery, &many.Limit, &many.Bytes
		return p
	case errors.Is(err, index.ErrUnavailable):
		return problem.New(api.RiemannIndexUnavailable, "retry later")
	case errors.Is(err, index.ErrClosed):
		return problem.New(api.ShuttingDown, "")
	}
	return err
}
