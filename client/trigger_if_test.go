package client_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/test/must"
)

// TestPutTriggerIf: a change does not undo that of another client.
func TestPutTriggerIf(t *testing.T) {
	c, ctx := triggerBroker(t), t.Context()
	refused := func(s client.TriggerSpec, stored string) {
		t.Helper()
		_, err := c.PutTrigger(ctx, "t", s)
		if !errors.Is(err, client.ErrPreconditionFailed) || !errors.Is(err, client.ErrRejected) || !strings.Contains(err.Error(), stored) {
			t.Errorf("%+v: %v", s, err)
		}
	}
	refused(client.TriggerSpec{Expr: "a", IfTag: "1.0"}, "no trigger")
	first := must.Get(c.PutTrigger(ctx, "t", client.TriggerSpec{Expr: "a", IfNew: true}))(t)
	refused(client.TriggerSpec{Expr: "b", IfNew: true}, first.Tag)
	second, err := c.PutTrigger(ctx, "t", client.TriggerSpec{Expr: "b", IfTag: first.Tag})
	if err != nil || second.Version != 2 || second.Tag == first.Tag {
		t.Fatalf("%+v, %v", second, err)
	}
	refused(client.TriggerSpec{Expr: "c", IfTag: first.Tag}, second.Tag)
	if got, err := c.Trigger(ctx, "t"); err != nil || got.Tag != second.Tag || got.Text != "b" {
		t.Errorf("%+v, %v", got, err)
	}
}

// losing loses the first answer to a PUT.
type losing struct{ puts atomic.Int32 }

func (l *losing) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && r.Method == http.MethodPut && l.puts.Add(1) == 1 {
		_ = resp.Body.Close()
		return nil, io.ErrUnexpectedEOF
	}
	return resp, err
}

// TestPutTriggerIfRepeated: a change whose answer was lost succeeds when the client repeats it.
func TestPutTriggerIfRepeated(t *testing.T) {
	for _, s := range []client.TriggerSpec{{Expr: "a then b", IfNew: true}, {Expr: "a then b", IfTag: "1.0"}} {
		lost := &losing{}
		c := triggerBroker(t, client.Options{HTTPClient: &http.Client{Transport: lost}})
		if s.IfTag != "" {
			lost.puts.Store(1)
			must.Get(c.PutTrigger(t.Context(), "t", client.TriggerSpec{Expr: "a"}))(t)
			lost.puts.Store(0)
		}
		got, err := c.PutTrigger(t.Context(), "t", s)
		if err != nil || got.Text != s.Expr || lost.puts.Load() != 2 || got.Tag == s.IfTag {
			t.Errorf("%+v: %+v, %v after %d requests", s, got, err, lost.puts.Load())
		}
	}
}
