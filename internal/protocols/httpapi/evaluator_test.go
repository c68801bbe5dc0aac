package httpapi

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/protocols/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/triggers/rules/explain"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// TestEvaluationsQueue checks that a queued evaluation ends with its request and with the server.
func TestEvaluationsQueue(t *testing.T) {
	stops := httpconn.NewDrainGroup()
	e := NewEvaluator(0, stops)
	q := must.Get(explain.Parse([]byte(`{"expr":"A","at":"2026-03-01T12:00:00Z"}`)))(t)
	for range cap(e.sem) {
		e.sem <- struct{}{}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	check.ErrorIs(t, check.Err(e.answer(ctx, q, nil)), context.DeadlineExceeded)
	done := make(chan error)
	go func() {
		_, err := e.answer(t.Context(), q, nil)
		done <- err
	}()
	<-e.sem
	check.NoError(t, <-done)
	e.sem <- struct{}{}
	go func() {
		_, err := e.answer(t.Context(), q, nil)
		done <- err
	}()
	stops.Stop()
	check.ErrorIs(t, <-done, context.Canceled)
	for range cap(e.sem) {
		<-e.sem
	}
}

// TestEvaluationTimeout checks that an evaluation that stays queued for ten seconds asks the client
// to retry.
func TestEvaluationTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := NewEvaluator(0, httpconn.NewDrainGroup())
		for range cap(e.sem) {
			e.sem <- struct{}{}
		}
		began := time.Now()
		_, err := e.answer(t.Context(), &explain.Question{}, nil)
		var p *api.Problem
		if !errors.As(err, &p) || p.Code != api.OverBudget || time.Since(began) != evaluationTime {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}
