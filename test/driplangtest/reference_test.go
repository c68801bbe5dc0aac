package driplangtest_test

import (
	"testing"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/driplangtest"
	"github.com/sebbroker/seb/test/must"
)

// TestFirings tests how often expressions fire. The tests of driplang/monitor compare values on
// random histories.
func TestFirings(t *testing.T) {
	for _, c := range []struct {
		expr    string
		mode    driplangtest.Mode
		history []driplangtest.Event
		want    []driplangtest.Firing
	}{
		{"a", driplangtest.Once, []driplangtest.Event{{"a", 1, ""}, {"a", 2, ""}}, []driplangtest.Firing{{At: 1}}},
		{"a", driplangtest.Reset, []driplangtest.Event{{"a", 1, ""}, {"a", 1, ""}, {"b", 2, ""}}, []driplangtest.Firing{{At: 1}, {At: 1}}},
		{`a[n >= 5 AND s = "x"]`, driplangtest.Reset, []driplangtest.Event{{"a", 1, `{"n":5,"s":"x"}`}, {"a", 2, `{"n":4,"s":"x"}`}, {"a", 3, `{"n":9}`}}, []driplangtest.Firing{{At: 1}}},
		{"a THEN (NOT b)", driplangtest.Edge, []driplangtest.Event{{"a", 1, ""}, {"b", 2, ""}, {"a", 3, ""}}, []driplangtest.Firing{{At: 1, Gone: 2, IsGone: true}, {At: 3}}},
		{"a THEN (NOT b WITHIN 1 day)", driplangtest.Once, []driplangtest.Event{{"a", 1, ""}, {"b", 86_400_002, ""}}, []driplangtest.Firing{{At: 86_400_001}}},
		{"a THEN (NOT b WITHIN 1 day)", driplangtest.Once, []driplangtest.Event{{"a", 1, ""}, {"b", 86_400_001, ""}}, nil},
		{
			"a THEN (NOT a WITHIN 5ms) THEN (NOT a WITHIN 3ms)", driplangtest.Reset,
			[]driplangtest.Event{{"a", 1, ""}, {"a", 4, ""}, {"a", 30, ""}, {"a", 38, ""}, {"a", 45, ""}},
			[]driplangtest.Firing{{At: 12}, {At: 53}},
		},
		{"count(a) >= 2 WITHIN 5ms", driplangtest.Reset, []driplangtest.Event{{"a", 1, ""}, {"a", 7, ""}, {"a", 12, ""}, {"a", 13, ""}}, []driplangtest.Firing{{At: 12}}},
	} {
		e := must.Get(driplang.Parse(c.expr))(t)
		check.EqualSlicesf(t, driplangtest.Of(e).Firings(c.history, c.mode), c.want, "%s", c.expr)
	}
}
