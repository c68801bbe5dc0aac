package main

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/driplangtest"
	"github.com/sebbroker/seb/test/must"
)

func dripped(t *testing.T, in string, args ...string) ran {
	t.Helper()
	return execute(t, newDrip(), in, args...)
}

// TestEvalCases runs all rows of the table, with the expression as an argument, from a file and in
// JSON, and the events from a file and from stdin.
func TestEvalCases(t *testing.T) {
	for _, c := range driplangtest.Cases(t) {
		var lines strings.Builder
		enc := json.NewEncoder(&lines)
		for _, e := range c.Events {
			must.NoError(t, enc.Encode(e))
		}
		at := c.At.Format(time.RFC3339Nano)
		if c.Error != "" {
			r := dripped(t, lines.String(), "eval", c.Expr, "--at", at)
			var fault *driplang.Error
			if !errors.As(r.fault, &fault) || !strings.HasPrefix(r.fault.Error(), c.Error) || !strings.HasSuffix(r.err, "^\n") || r.out != "" {
				t.Errorf("%s: %+v, want %s", c.ID, r, c.Error)
			}
			continue
		}
		e := must.Get(driplang.Parse(c.Expr))(t)
		form := must.Get(e.MarshalJSON())(t)
		for name, r := range map[string]ran{
			"argument, stdin": dripped(t, lines.String(), "eval", c.Expr, "--at", at, "--json"),
			"JSON, -":         dripped(t, lines.String(), "eval", string(form), "-", "--at", at, "--json"),
			"files":           dripped(t, "", "eval", "-f", testFile(t, c.Expr+"\n"), testFile(t, lines.String()), "--at", at, "--json"),
		} {
			var out api.Evaluation
			if err := json.Unmarshal([]byte(r.out), &out); err != nil || r.fault != nil {
				t.Fatalf("%s, %s: %+v, %v", c.ID, name, r, err)
			}
			check.Equalf(t, out.Value, c.Value, "%s, %s: %s: %+v: %s", c.ID, name, c.Expr, out, c.Why)
			if c.NextKnown && ((out.Next == nil) != (c.Next == nil) || out.Next != nil && !out.Next.Equal(*c.Next)) {
				t.Errorf("%s, %s: %s changes at %v, want %v", c.ID, name, c.Expr, out.Next, c.Next)
			}
		}
	}
}

const dripEvents = `{"event":"a","at":"2026-03-01T12:00:00Z","id":"k"}

{"event":"a","at":"2026-03-01T13:00:00Z","id":"k"}
{"event":"x","at":"2026-03-02T12:00:00Z"}
{"event":"b","at":"2026-03-09T12:00:00Z"}
{"event":"b","at":"2026-03-20T12:00:00Z"}
`

func TestEvalPrints(t *testing.T) {
	const expr = "a THEN (NOT b WITHIN 7 days)"
	for at, want := range map[string]string{
		"2026-03-02T12:00:00Z": `value  false
next   2026-03-08T12:00:00Z
why    not true yet; it can still change with b (must not come) until 2026-03-08T12:00:00Z and a; if nothing more happens it becomes true at 2026-03-08T12:00:00Z
`,
		"2026-03-10T12:00:00Z": `value  true
next   never, without further events
why    true since 2026-03-08T12:00:00Z, at a deadline; because of a at 2026-03-01T12:00:00Z (event 0); it cannot change any more
`,
	} {
		if r := dripped(t, dripEvents, "eval", expr, "--at", at); r.out != want || r.fault != nil || r.err != "" {
			t.Errorf("at %s:\n%s%s%v", at, r.out, r.err, r.fault)
		}
	}
	r := dripped(t, dripEvents, "eval", expr, "--at", "2026-03-10T12:00:00Z", "--trace")
	if want := `2026-03-01T12:00:00Z a pending begins it
2026-03-01T13:00:00Z a pending does not count: its ID came before
2026-03-02T12:00:00Z x pending not in the expression
2026-03-08T12:00:00Z (time) true makes it true: b did not come until 2026-03-08T12:00:00Z
2026-03-09T12:00:00Z b true has no effect: the expression did not wait for it then
2026-03-20T12:00:00Z b true does not count yet
value true
`; !strings.HasPrefix(squeezed(r.out), want) {
		t.Errorf("trace:\n%s", r.out)
	}
	// now is later
	if r := dripped(t, dripEvents, "eval", expr); !strings.Contains(r.out, "value  true") {
		t.Errorf("now: %+v", r)
	}
}

// squeezed replaces repeated spaces by one.
func squeezed(s string) string {
	for strings.Contains(s, "  ") {
		s = strings.ReplaceAll(s, "  ", " ")
	}
	return s
}

func TestFaultsAreShown(t *testing.T) {
	r := dripped(t, "", "eval", "a THEN\n(b WITHIN 2 parsecs)")
	if r.fault == nil || r.fault.Error() != "2:11: unknown unit 'parsecs': use ms, s, m, h, d or w" || r.err != "(b WITHIN 2 parsecs)\n          ^\n" {
		t.Errorf("%q, %v", r.err, r.fault)
	}
	for name, c := range map[string]struct {
		in    string
		args  []string
		fault string
		usage bool
	}{
		"no expression":        {args: []string{"eval"}, fault: "give an expression", usage: true},
		"a bad instant":        {args: []string{"eval", "a", "--at", "noon"}, fault: "--at: want RFC 3339", usage: true},
		"trace and JSON":       {args: []string{"eval", "a", "--trace", "--json"}, fault: "--trace", usage: true},
		"too much":             {args: []string{"eval", "-f", "x", "a", "b"}, fault: "no such file", usage: true},
		"all from stdin":       {in: "a", args: []string{"eval", "-f", "-"}, fault: "cannot both come from stdin", usage: true},
		"two expressions":      {args: []string{"eval", "-f", testFile(t, "a"), "a", "b"}, fault: "not both", usage: true},
		"no such events":       {args: []string{"eval", "a", "/nowhere/at/all"}, fault: "no such file", usage: true},
		"a bad event":          {in: "{\"event\":\"a\",\"at\":\"2026-03-01T12:00:00Z\"}\n{\"event\":\"a\"}", args: []string{"eval", "a"}, fault: "event 1: at: missing"},
		"a fault in JSON form": {args: []string{"check", `{"then":[{"event":"a"}]}`}, fault: "/then: "},
		"a form for fmt":       {args: []string{"fmt", "a", "--to", "xml"}, fault: "want text or json", usage: true},
		"two for fmt":          {args: []string{"fmt", "-f", testFile(t, "a"), "a"}, fault: "not both", usage: true},
		"two for check":        {args: []string{"check", "-f", testFile(t, "a"), "a"}, fault: "not both", usage: true},
		"true at once":         {args: []string{"check", "NOT a"}, fault: "true without any event"},
	} {
		r := dripped(t, c.in, c.args...)
		var w usageError
		if r.fault == nil || !strings.Contains(r.fault.Error(), c.fault) || errors.As(r.fault, &w) != c.usage || r.out != "" {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestFmtAndCheck(t *testing.T) {
	const text, form = "a THEN ((NOT b) WITHIN 1h30m)\n", `{"then":[{"event":"a"},{"within":{"not":{"event":"b"}},"for":"1h30m"}]}` + "\n"
	original := `{"operator":"then","a":{"operator":"event_name","a":"a"},"b":{"operator":"within","d":"5400000000000",` +
		`"a":{"operator":"not","a":{"operator":"event_name","a":"b"}}}}`
	for _, given := range []string{"a then (not b) within 90 min", text, form, " " + form, original} {
		if r := dripped(t, "", "fmt", given); r.out != text || r.fault != nil {
			t.Errorf("%s: %+v", given, r)
		}
		if r := dripped(t, given, "fmt", "--to", "json", "-f", "-"); r.out != form || r.fault != nil {
			t.Errorf("%s: %+v", given, r)
		}
	}
	if r := dripped(t, "", "check", text); r.out != "" || r.fault != nil {
		t.Errorf("%+v", r)
	}
	if r := dripped(t, "", "check", "a THEN NOT b"); !strings.HasPrefix(r.out, "warning: NOT without WITHIN") || r.fault != nil {
		t.Errorf("%+v", r)
	}
}

// TestCommandsWarn: eval and check warn about the precedence of an expression.
func TestCommandsWarn(t *testing.T) {
	const expr = "login THEN (NOT login WITHIN 3d) AND subscribed"
	const want = "warning: AND binds more strongly than THEN: this is read as login THEN ((NOT (login WITHIN 3d)) AND subscribed); "
	if r := dripped(t, "", "eval", expr); r.fault != nil || !strings.HasPrefix(r.err, want) || strings.Contains(r.out, "warning") {
		t.Errorf("eval: %+v", r)
	}
	if r := dripped(t, "", "check", expr); r.fault != nil || !strings.HasPrefix(r.out, want) {
		t.Errorf("check: %+v", r)
	}
}

func TestExplain(t *testing.T) {
	const want = "7 days after signup, unless purchase happens in that time.\n"
	for name, r := range map[string]ran{
		"text":  dripped(t, "", "explain", "signup THEN (NOT purchase WITHIN 7 days)"),
		"JSON":  dripped(t, "", "explain", `{"then":[{"event":"signup"},{"within":{"not":{"event":"purchase"}},"for":"7d"}]}`),
		"stdin": dripped(t, "signup THEN NOT purchase WITHIN 1 week\n", "explain", "-f", "-"),
	} {
		if r.fault != nil || r.out != want || r.err != "" {
			t.Errorf("%s: %+v, want %q", name, r, want)
		}
	}
	if r := dripped(t, "", "explain", "A THEN NOT B"); r.out != "A happens, and then B does not happen after A.\n" || !strings.HasPrefix(r.err, "warning: NOT without WITHIN") {
		t.Errorf("%+v, want a sentence and a warning", r)
	}
	if r := dripped(t, "", "explain", "A THEN"); r.fault == nil || r.out != "" || !strings.HasSuffix(r.err, "^\n") {
		t.Errorf("%+v, want an error with a caret", r)
	}
}

func TestStories(t *testing.T) {
	r := dripped(t, "", "stories", "signup THEN (NOT purchase WITHIN 7 days)")
	const first = "1. signup, and nothing for 7 days: fires 7 days after it\n2. signup, purchase 3 days later: does not fire\n   compared with 1: with purchase 3 days after signup\n3. "
	if r.fault != nil || !strings.HasPrefix(r.out, first) || r.err != "" {
		t.Errorf("%+v, want %q", r, first)
	}
	if r := dripped(t, "A AND NOT A", "stories", "-f", "-", "--json"); r.fault != nil || !strings.Contains(r.out, `"none_fires":"not_found"`) {
		t.Errorf("%+v, want JSON", r)
	}
	if r := dripped(t, "", "stories", "NOT A"); r.fault != nil || !strings.HasPrefix(r.out, "The expression is true before any event") {
		t.Errorf("%+v, want a note", r)
	}
	if r := dripped(t, "", "stories", "A THEN"); r.fault == nil || r.out != "" || !strings.HasSuffix(r.err, "^\n") {
		t.Errorf("%+v, want an error with a caret", r)
	}
}
