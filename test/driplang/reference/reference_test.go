package reference_test

import (
	"slices"
	"testing"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/test/driplang/reference"
)

// TestFirings tests how often expressions fire. The tests of driplang/monitor compare values on
// random histories.
func TestFirings(t *testing.T) {
	for _, c := range []struct {
		expr    string
		mode    reference.Mode
		history []reference.Event
		want    []reference.Firing
	}{
		{"a", reference.Once, []reference.Event{{"a", 1, ""}, {"a", 2, ""}}, []reference.Firing{{At: 1}}},
		{"a", reference.Reset, []reference.Event{{"a", 1, ""}, {"a", 1, ""}, {"b", 2, ""}}, []reference.Firing{{At: 1}, {At: 1}}},
		{`a[n >= 5 AND s = "x"]`, reference.Reset, []reference.Event{{"a", 1, `{"n":5,"s":"x"}`}, {"a", 2, `{"n":4,"s":"x"}`}, {"a", 3, `{"n":9}`}}, []reference.Firing{{At: 1}}},
		{"a THEN (NOT b)", reference.Edge, []reference.Event{{"a", 1, ""}, {"b", 2, ""}, {"a", 3, ""}}, []reference.Firing{{At: 1, Gone: 2, IsGone: true}, {At: 3}}},
		{"a THEN (NOT b WITHIN 1 day)", reference.Once, []reference.Event{{"a", 1, ""}, {"b", 86_400_002, ""}}, []reference.Firing{{At: 86_400_001}}},
		{"a THEN (NOT b WITHIN 1 day)", reference.Once, []reference.Event{{"a", 1, ""}, {"b", 86_400_001, ""}}, nil},
		{
			"a THEN (NOT a WITHIN 5ms) THEN (NOT a WITHIN 3ms)", reference.Reset,
			[]reference.Event{{"a", 1, ""}, {"a", 4, ""}, {"a", 30, ""}, {"a", 38, ""}, {"a", 45, ""}},
			[]reference.Firing{{At: 12}, {At: 53}},
		},
		{"count(a) >= 2 WITHIN 5ms", reference.Reset, []reference.Event{{"a", 1, ""}, {"a", 7, ""}, {"a", 12, ""}, {"a", 13, ""}}, []reference.Firing{{At: 12}}},
	} {
		e, err := driplang.Parse(c.expr)
		if err != nil {
			t.Fatal(err)
		}
		if got := reference.Of(e).Firings(c.history, c.mode); !slices.Equal(got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.expr, got, c.want)
		}
	}
}
