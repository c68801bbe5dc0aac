package driplang_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

func TestParseAndPrint(t *testing.T) {
	for _, c := range [][2]string{ // text, canonical
		{"A", "A"},
		{"a then b", "a THEN b"},
		{"A and B or C then D", "((A AND B) OR C) THEN D"},
		{"A THEN B OR C THEN D", "A THEN (B OR C) THEN D"},
		{"A THEN (B THEN C)", "A THEN (B THEN C)"},
		{"(A AND B) AND C", "(A AND B) AND C"},
		{"A AND B AND C", "A AND B AND C"},
		{"((A))", "A"},
		{"NOT NOT A", "NOT (NOT A)"},
		{"NOT A AND B", "(NOT A) AND B"},
		{"A THEN NOT B WITHIN 7 days", "A THEN (NOT (B WITHIN 7d))"},
		{"A THEN (NOT B) WITHIN 7 days", "A THEN ((NOT B) WITHIN 7d)"},
		{"A THEN B AFTER 1h WITHIN 2h", "A THEN ((B AFTER 1h) WITHIN 2h)"},
		{"A\n\tTHEN\r\n B", "A THEN B"},
		{"order.placed THEN web/shop:visit-2", "order.placed THEN web/shop:visit-2"},
		{`"order placed" THEN "and" THEN "a"`, `"order placed" THEN "and" THEN a`},
		{`"a\nb\u00e9\"" THEN é`, `"a\nbé\"" THEN é`},
		{"A THEN B WITHIN 1.5h", "A THEN (B WITHIN 1h30m)"},
		{"A THEN B WITHIN 90 minutes", "A THEN (B WITHIN 1h30m)"},
		{"A THEN B WITHIN 2 w 1 DAY 3hrs 4 min 5sec 6ms", "A THEN (B WITHIN 15d3h4m5s6ms)"},
		{"A THEN B WITHIN 0.001s", "A THEN (B WITHIN 1ms)"},
		{"count", "count"},
		{"count THEN count (A) >= 3 WITHIN 7d", "count THEN ((count(A) >= 3) WITHIN 7d)"},
		{"count(A) >= 3 WITHIN 7 days", "(count(A) >= 3) WITHIN 7d"},
		{"COUNT(A[x=1]) != 0", "count(A[x = 1]) != 0"},
		{"not count(A) < 3", "NOT (count(A) < 3)"},
		{`purchase[amount > 100 AND currency = "EUR"]`, `purchase[amount > 100 AND currency = "EUR"]`},
		{`a[x=1 or y>=-1.50e1 and not (z!=null or w=true)]`, `a[x = 1 OR (y >= -15 AND (NOT (z != null OR w = true)))]`},
		{`a [ user."first name".x."".and = "q" ]`, `a[user."first name".x.""."and" = "q"]`},
		{`a["x.y" = 1e300]`, `a["x.y" = 1e+300]`},
		{`a[id = 9223372036854775807]`, `a[id = 9223372036854775807]`},
	} {
		e, err := driplang.Parse(c[0])
		if err != nil {
			t.Errorf("%q: %v", c[0], err)
			continue
		}
		if e.String() != c[1] {
			t.Errorf("%q: canonical form %q, want %q", c[0], e, c[1])
		}
		roundTrip(t, e)
	}
}

// roundTrip checks that both forms of e parse to e.
func roundTrip(t testing.TB, e driplang.Expr) {
	t.Helper()
	again, err := driplang.Parse(e.String())
	if err != nil || !again.Equal(e) {
		t.Fatalf("%q parses as %q, %v", e, again, err)
	}
	text := must.Get(e.MarshalJSON())(t)
	again, err = driplang.ParseJSON(text)
	if err != nil || !again.Equal(e) {
		t.Fatalf("%s, of %q, parses as %q, %v", text, e, again, err)
	}
	if twice, _ := again.MarshalJSON(); string(twice) != string(text) {
		t.Fatalf("%s is written as %s", text, twice)
	}
}

func TestParseErrors(t *testing.T) {
	for _, c := range [][2]string{ // text, error
		{"", "1:1: expected an event name, NOT or '(', found end of expression"},
		{"A THEN", "1:7: expected an event name, NOT or '(', found end of expression"},
		{"A\nAND\n  )", "3:3: expected an event name, NOT or '(', found ')'"},
		{"A B", "1:3: expected AND, OR, THEN, WITHIN, AFTER or the end, found 'B'"},
		{`A "B"`, `1:3: expected AND, OR, THEN, WITHIN, AFTER or the end, found "B"`},
		{"(A", "1:3: expected ')' or AND, OR, THEN, WITHIN, AFTER, found end of expression"},
		{"and", "1:1: expected an event name, NOT or '(', found 'and'"},
		{`""`, "1:1: an event name must not be empty"},
		{`"abc`, "1:1: the string is not closed"},
		{"\"a\nb\"", "1:1: the string is not closed on its line"},
		{`A AND "\q"`, "1:7: the string has an escape or character that JSON does not allow"},
		{"A ? B", "1:3: unexpected character '?'"},
		{"é \x01", "1:3: unexpected character U+0001"},
		{"A \xff", "1:3: the text is not valid UTF-8"},
		{"A \"\xff\"", "1:3: the text is not valid UTF-8"},
		{"A THEN (B WITHIN 2 parsecs)", "1:18: unknown unit 'parsecs': use ms, s, m, h, d or w"},
		{"A THEN (B WITHIN 2)", "1:18: expected a unit after 2: ms, s, m, h, d or w"},
		{"A THEN (B WITHIN 2d3)", "1:20: expected a unit after 3: ms, s, m, h, d or w"},
		{"A THEN (B WITHIN 2.d)", "1:18: expected digits after the point of '2.'"},
		{"A THEN (B WITHIN -2d)", "1:18: expected a duration such as 7 days or 1h30m after WITHIN, found '-2'"},
		{"A THEN (B AFTER)", "1:16: expected a duration such as 7 days or 1h30m after AFTER, found ')'"},
		{"A THEN (B WITHIN 0s)", "1:18: a duration must be longer than zero"},
		{"A THEN (B WITHIN  0s 0ms) AND C", "1:19: a duration must be longer than zero"},
		{"A THEN (B WITHIN 0.5ms)", "1:18: 0.5ms is not a whole number of milliseconds"},
		{"A THEN (B WITHIN 11 w 3600 d)", "1:23: the duration is longer than 10 years"},
		{"A THEN (B WITHIN 99999999999999999999 d)", "1:18: the duration is longer than 10 years"},
		{"A THEN (B WITHIN 2d_)", "1:18: unknown unit 'd_'"},
		{"A WITHIN 2 days", `1:3: WITHIN has no starting point: it measures from the left side of a THEN, e.g. "A THEN (B WITHIN 2 days)"`},
		{"(NOT A) THEN (B WITHIN 2d)", "1:17: WITHIN has no starting point"},
		{"(A OR NOT B) THEN (C AFTER 2d)", "1:22: AFTER has no starting point"},
		{"count(A) < 3 WITHIN 2d", "1:14: WITHIN has no starting point"},
		{"NOT A THEN NOT B THEN C AFTER 1s", "1:25: AFTER has no starting point"},
		{"A THEN (B AFTER 5s WITHIN 3s)", "1:11: the window is empty: AFTER is longer than WITHIN"},
		{"A THEN ((B THEN C AFTER 5s) WITHIN 3s)", "1:19: the window is empty"},
		{"A THEN ((B WITHIN 3s) AFTER 5s)", "1:23: the window is empty"},
		{"count(", "1:7: expected the name of the event to count, found end of expression"},
		{"count(A", "1:8: expected ')', found end of expression"},
		{"count(A)", "1:9: expected =, !=, <, <=, > or >=, found end of expression"},
		{"count(A) == 3", "1:10: expected =, !=, <, <=, > or >=, found '=='"},
		{"count(A) >= 1001", "1:13: expected a whole number from 0 to 1000, found '1001'"},
		{"count(A) >= 1.5", "1:13: expected a whole number from 0 to 1000, found '1.5'"},
		{"count(A) >= 0", "1:13: the comparison is always true: a count is >= 0"},
		{"count(A) < 0", "1:12: the comparison is always false: a count is not < 0"},
		{"A[]", "1:3: expected a property of the event's data, found ']'"},
		{"A[x]", "1:4: expected =, !=, <, <=, > or >=, found ']'"},
		{"A[x = y]", `1:7: expected a number, "string", true, false or null, found 'y'`},
		{"A[x = 01]", "1:7: '01' is not a valid JSON number, or its exponent has more than 18 digits"},
		{"A[x = 1e1000000000000000000]", "1:7: '1e1000000000000000000' is not a valid JSON number, or its exponent has more than 18 digits"},
		{"A[x < true]", "1:7: only numbers and strings have an order: use = or !="},
		{"A[x = 1", "1:8: expected ']' or AND, OR, found end of expression"},
		{"A[x..y = 1]", "1:3: two dots in a row in the path 'x..y'"},
		{"A[x. = 1]", "1:6: expected a property of the event's data, found '='"},
	} {
		e, err := driplang.Parse(c[0])
		var fault *driplang.Error
		if !errors.As(err, &fault) || !strings.HasPrefix(err.Error(), c[1]) {
			t.Errorf("%q: got %q, %v, want %s", c[0], e, err, c[1])
		}
	}
}

func TestLimits(t *testing.T) {
	names := func(n int) string {
		var b strings.Builder
		for i := range n {
			if i > 0 {
				b.WriteString(" OR ")
			}
			b.WriteString("e" + strconv.Itoa(i))
		}
		return b.String()
	}
	guards := strings.Repeat("(A OR NOT B) THEN ", 200) + "C"
	for _, c := range []struct{ text, want string }{
		{strings.Repeat(" ", driplang.MaxText) + "A", "the expression has 16385 bytes, the limit is 16384"},
		{strings.Repeat("(", 5000) + "A", "nested more than 192 deep"},
		{strings.Repeat("NOT ", 3000) + "A", "nested more than"},
		{strings.Repeat("NOT ", driplang.MaxDepth) + "A", "operators are nested more than 64 deep"},
		{strings.Repeat("(A AND ", 64) + "A" + strings.Repeat(")", 64), "operators are nested more than 64 deep"},
		{"A[" + strings.Repeat("NOT ", 16) + "x = 1]", "the filter is nested more than 16 deep"},
		{"A[" + strings.Repeat("(x = 1 AND ", 16) + "x = 1" + strings.Repeat(")", 16) + "]", "the filter is nested more than 16 deep"},
		{"A[" + strings.Repeat("x.", 16) + "x = 1]", "the path has more than 16 members"},
		{names(driplang.MaxNames + 1), "more than 64 event names"},
		{strings.Repeat("x", driplang.MaxName+1), "the event name has 257 bytes, the limit is 256"},
		{guards, "too large"},
		{"(" + guards + ") THEN D", "too large"},
		{"NOT (" + guards + ")", "too large"},
	} {
		if e, err := driplang.Parse(c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.30s...: got %.30q, %v, want %s", c.text, e, err, c.want)
		}
	}
	for _, text := range []string{
		strings.Repeat("NOT ", driplang.MaxDepth-1) + "A",
		strings.Repeat("(A AND ", 63) + "A" + strings.Repeat(")", 63),
		names(driplang.MaxNames),
		strings.Repeat("x", driplang.MaxName),
	} {
		e, err := driplang.Parse(text)
		if err != nil {
			t.Errorf("%.30s...: %v", text, err)
			continue
		}
		roundTrip(t, e)
	}
}

func TestNames(t *testing.T) {
	e := must.Get(driplang.Parse(`b THEN a[x = 1] THEN (NOT count(c) < 3) THEN a`))(t)
	check.EqualSlicesf(t, e.Names(), []string{"a", "b", "c"}, "names")
	if none := (driplang.Expr{}); none.Names() != nil || none.String() != "" || none.Equal(e) {
		t.Errorf("the zero value: %q, %q", none, none.Names())
	}
}

func TestCaret(t *testing.T) {
	for _, c := range [][2]string{ // text, caret
		{"A THEN\r\n\tB\x02 WITHIN\r\nC", "\tB. WITHIN\n  ^"},
		{"A THEN (B WITHIN 2 parsecs)", "A THEN (B WITHIN 2 parsecs)\n                 ^"},
		{"é AND", "é AND\n     ^"},
	} {
		_, err := driplang.Parse(c[0])
		var fault *driplang.Error
		if !errors.As(err, &fault) {
			t.Fatalf("%q: %v", c[0], err)
		}
		if got := fault.Caret(c[0]); got != strings.ReplaceAll(c[1], "\t", " ") {
			t.Errorf("%v\n%s\nwant\n%s", err, got, c[1])
		}
	}
	long := strings.Repeat("A AND ", 500) + ")"
	_, err := driplang.Parse(long)
	var fault *driplang.Error
	if !errors.As(err, &fault) || len(fault.Caret(long)) > 200 || !strings.Contains(fault.Caret(long), ")") {
		t.Errorf("%v: %q", err, fault.Caret(long))
	}
	for _, fault := range []driplang.Error{{Pointer: "/a"}, {Line: 3, Col: 1}, {Line: 1, Col: 9}} {
		check.Equalf(t, fault.Caret("A\nB"), "", "%v", fault)
	}
}
