package story

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/driplang/monitor"
	"github.com/sebbroker/seb/test/must"
)

// large returns expressions near the limits of the language, by name.
func large(t testing.TB) map[string]driplang.Expr {
	t.Helper()
	each := func(n int, part, sep string) string { // # is the number of the part
		list := make([]string, n)
		for i := range list {
			list[i] = strings.ReplaceAll(part, "#", fmt.Sprint(i))
		}
		return strings.Join(list, sep)
	}
	nest := func(n int, left, inner, right string) string {
		return strings.Repeat(left, n) + inner + strings.Repeat(right, n)
	}
	all := map[string]driplang.Expr{}
	for name, text := range map[string]string{
		"AND":              each(64, "a#", " AND "),
		"OR":               each(64, "a#", " OR "),
		"THEN":             each(64, "a#", " THEN "),
		"THEN of one name": each(1000, "A", " THEN "),
		"windows":          "A THEN " + each(63, "(a# WITHIN 5d#h1m)", " THEN "),
		"absences":         "A AND " + each(63, "NOT a#", " AND "),
		"guards":           "A THEN " + each(60, "(NOT a#)", " THEN ") + " THEN B",
		"copied guards":    each(40, "(NOT a#)", " THEN ") + " THEN (" + each(40, "(C AND D)", " OR ") + ")",
		"contradictions":   each(60, "a# AND NOT a#", " AND "),
		"impossible":       "A AND NOT A AND (" + each(400, "A THEN B THEN (C WITHIN 1h)", ") AND (") + ")",
		"impossible NOT":   "A AND NOT A AND (" + each(200, "NOT (A THEN (NOT B WITHIN 1h) THEN C THEN (NOT A WITHIN 3h))", ") AND (") + ")",
		"wide OR":          "A THEN (" + each(270, "(NOT B WITHIN 1h) THEN (NOT C WITHIN 2h)", ") OR (") + ")",
		"wide AND":         "A THEN (" + each(200, "A THEN (NOT B WITHIN 1h) THEN (NOT C WITHIN 2h)", ") AND (") + ")",
		"wide NOT":         "x AND (" + each(180, "NOT (A THEN (NOT B WITHIN 1h) THEN (NOT C WITHIN 2h))", ") AND (") + ")",
		"long NOT":         "x AND NOT (A THEN " + each(150, "(NOT B WITHIN 1h) THEN (C OR D)", " THEN ") + ")",
		"deep NOT":         "x AND " + nest(30, "NOT (A THEN ", "(NOT B WITHIN 1d)", " THEN C)"),
		"deep AND":         nest(20, "A THEN (B AND NOT C AND (", "D", ") OR E)"),
		"deep windows":     "A THEN " + nest(30, "((B THEN ", "C", ") WITHIN 1d)"),
		"counts":           each(60, "count(a#) >= 1000", " AND "),
		"long count":       "A THEN (count(a) < 60 WITHIN 7d)",
		"long filter":      "a[" + each(1000, `x = "aaa"`, " OR ") + "]",
		"wide filter":      "a[" + each(900, `x# = "a"`, " AND ") + "]",
		"filters":          each(60, `a[x > # AND y != "#" AND z < 7 AND NOT (u.v = null)]`, " THEN "),
		"large data":       each(3, "a[x# = \""+strings.Repeat("x", 5000)+"\"]", " THEN "),
	} {
		e, err := driplang.Parse(text)
		must.NoErrorf(t, err, "%s", name)
		all[name] = e
	}
	return all
}

// TestWorkIsBounded: the stories of large expressions take not much more than maxWork.
func TestWorkIsBounded(t *testing.T) {
	for name, e := range large(t) {
		p, err := monitor.Compile(e, monitor.Options{Pending: true})
		must.NoErrorf(t, err, "%s", name)
		w := newTeller(e, p)
		list := w.stories()
		if w.work < -maxWork/10 || w.work < 0 && !w.truncated {
			t.Errorf("%s: %d left of %d, truncated %v", name, w.work, maxWork, w.truncated)
		}
		size := 0
		for _, s := range list {
			size += len(s.Text) + len(s.Difference)
			for _, x := range s.Events {
				size += len(x.Data) + len(x.Name)
			}
		}
		if size > MaxStories*(maxData+32<<10) {
			t.Errorf("%s: %d bytes", name, size)
		}
	}
}
