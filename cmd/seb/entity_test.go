package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

func TestErase(t *testing.T) {
	c := newTestBroker(t)
	apply(t, c, "{id: ab, expr: a THEN b}")
	happen(t, c, "a u1", "b u1", "a u2", "b u2")
	explained := func(entity string) client.Explanation {
		x := must.Get(c.Explain(t.Context(), "ab", entity))(t)
		return x
	}
	sebtest.Eventually(t, "the trigger has fired", func() bool { return explained("u1").Fired && explained("u2").Fired })
	if r := c.execute(t, newEntity(), "", "show", "u1"); r.fault != nil || !strings.HasPrefix(r.out, "TRIGGER  VALUE  FIRINGS  LAST") ||
		!strings.Contains(r.out, "\nab       true   1        20") || !strings.HasSuffix(r.out, "  -     nothing: it has fired, and fires once\n") {
		t.Errorf("%+v", r)
	}
	if r := c.execute(t, newEntity(), "", "show", "u9", "--json"); r.fault != nil || r.out != "" {
		t.Errorf("%+v", r)
	}
	erase := func(args ...string) ran {
		return c.execute(t, newEntity(), "", append([]string{"erase"}, args...)...)
	}
	if r := erase("u1"); r.fault != nil || r.out != "" || !strings.HasPrefix(r.err, "u1 is erased from all triggers;") {
		t.Errorf("%+v", r)
	}
	if x := explained("u1"); x.Known || x.Fired || len(x.Firings) != 0 {
		t.Errorf("still known: %+v", x)
	}
	if x := explained("u2"); !x.Fired || len(x.Firings) != 1 {
		t.Errorf("also erased: %+v", x)
	}
	if r := erase("u1", "--topic-name", "nothing"); r.fault == nil || !strings.Contains(r.fault.Error(), "topic \"nothing\" does not hold events") {
		t.Errorf("%+v", r)
	}
	if r := erase("u2", "--topic-name", "events"); r.fault != nil || explained("u2").Known {
		t.Errorf("%+v", r)
	}
	for _, args := range [][]string{nil, {"u1", "u2"}} {
		if r := erase(args...); r.fault == nil || !strings.Contains(r.fault.Error(), "accepts 1 arg") {
			t.Errorf("%q: %+v", args, r)
		}
	}
	for _, entity := range []string{"", ".", ".."} {
		if _, ok := errors.AsType[usageError](erase(entity).fault); !ok {
			t.Errorf("%q: not a usage error", entity)
		}
	}
	var bad *client.Error
	if r := erase(strings.Repeat("x", 1025)); !errors.As(r.fault, &bad) {
		t.Errorf("%+v", r)
	}
}
