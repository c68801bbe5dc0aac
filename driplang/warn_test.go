package driplang_test

import (
	"slices"
	"testing"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

func TestWarnings(t *testing.T) {
	const atOnce = "NOT without WITHIN: true at once when "
	for _, c := range []struct {
		text string
		want []driplang.Warning
	}{
		{"A THEN (NOT B WITHIN 7d)", nil},
		{"A THEN (B WITHIN 7d)", nil},
		{"A AND NOT B", nil},
		{"A THEN B AND NOT C", nil},
		{"A THEN (NOT B) THEN C", nil},
		{"A THEN ((B THEN C) WITHIN 2d)", nil},
		{"A THEN ((B WITHIN 2d) AND (C WITHIN 3d))", nil},
		{"count(A) >= 5 WITHIN 7d", nil},
		{"A THEN (NOT B AFTER 7d)", nil},
		{"NOT (A THEN NOT B)", nil},
		{"visit THEN (NOT visit WITHIN 30d) THEN (visit WITHIN 60d)", nil},
		{"A THEN ((B AND NOT A) WITHIN 2d)", nil},
		{"A THEN NOT B", []driplang.Warning{{driplang.FiresImmediately, atOnce + "A is complete; did you mean A THEN ((NOT B) WITHIN ...)?", "/then/1"}}},
		{
			"A THEN (count(B) < 3)",
			[]driplang.Warning{{driplang.FiresImmediately, atOnce + "A is complete; did you mean A THEN ((NOT (count(B) >= 3)) WITHIN ...)?", "/then/1"}},
		},
		{
			"A OR B THEN (NOT (C THEN D))",
			[]driplang.Warning{{driplang.FiresImmediately, atOnce + "A OR B is complete; did you mean (A OR B) THEN ((NOT (C THEN D)) WITHIN ...)?", "/then/1"}},
		},
		{"A THEN B THEN (C OR NOT D)", []driplang.Warning{{driplang.FiresImmediately, atOnce + "B is complete; did you mean B THEN ((C OR (NOT D)) WITHIN ...)?", "/then/2"}}},
		{"A THEN (B AFTER 1d WITHIN 2d)", []driplang.Warning{{driplang.KeepsManyInstances, "keeps one instance for each completion of A in the last 2d", "/then/0"}}},
		{"A THEN ((B AND NOT C) WITHIN 9s)", []driplang.Warning{{driplang.KeepsManyInstances, "keeps one instance for each completion of A in the last 9s", "/then/0"}}},
		{
			"A THEN (NOT B WITHIN 2s) THEN (C WITHIN 3s)",
			[]driplang.Warning{{driplang.KeepsManyInstances, "keeps one instance for each completion of A in the last 5s", "/then/0"}},
		},
		{
			"login THEN (NOT login WITHIN 3d) AND subscribed",
			[]driplang.Warning{{driplang.UnexpectedPrecedence, "AND binds more strongly than THEN: this is read as login THEN ((NOT (login WITHIN 3d)) AND subscribed); " +
				"if that is not meant, write (login THEN (NOT (login WITHIN 3d))) AND subscribed", "/then/1"}},
		},
		{
			"X AND (A THEN (B OR C) WITHIN 3d OR D THEN E)",
			[]driplang.Warning{{driplang.UnexpectedPrecedence, "OR binds more strongly than THEN: this is read as A THEN (((B OR C) WITHIN 3d) OR D) THEN E; " +
				"if that is not meant, write ((A THEN ((B OR C) WITHIN 3d)) OR D) THEN E", "/and/1/then/1"}},
		},
		{
			"(X OR (A THEN NOT NOT NOT B)) AND (A THEN NOT B)",
			[]driplang.Warning{{driplang.FiresImmediately, atOnce + "A is complete; did you mean A THEN ((NOT B) WITHIN ...)?", "/and/0/or/1/then/1"}},
		},
		{"login THEN ((NOT login WITHIN 3d) AND subscribed)", nil},
		{"(login THEN (NOT login WITHIN 3d)) AND subscribed", nil},
		{"A THEN (B WITHIN 3d)", nil},
		{"(A OR B) AND C THEN D", nil},
	} {
		e := must.Get(driplang.Parse(c.text))(t)
		got := e.Warnings()
		check.EqualSlicesf(t, got, c.want, "%s", c.text)
		if of := asBuilt(t, e).Warnings(); len(got) > 0 && got[0].Kind != driplang.UnexpectedPrecedence && !slices.Equal(of, got) {
			t.Errorf("%s as JSON: %q, want %q", c.text, of, got)
		}
	}
	if got := (driplang.Expr{}).Warnings(); got != nil {
		t.Errorf("the zero value: %q", got)
	}
}
