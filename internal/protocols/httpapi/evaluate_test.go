package httpapi

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/internal/triggers/rules/explain"
	"github.com/sebbroker/seb/test/driplangtest"
	"github.com/sebbroker/seb/test/must"
)

func (s *server) evaluation(question any) *answered {
	s.t.Helper()
	b := must.Get(json.Marshal(question))(s.t)
	return s.send("POST", "/evaluate", string(b))
}

// TestEvaluateCases runs all rows of the table over HTTP, as text and as JSON.
func TestEvaluateCases(t *testing.T) {
	s := start(t)
	for _, c := range driplangtest.Cases(t) {
		question := map[string]any{"expr": c.Expr, "events": c.Events, "at": c.At}
		if c.Events == nil {
			delete(question, "events") // absent instead of null
		}
		if c.Error != "" {
			p := s.evaluation(question).problem(t)
			if p.Code != api.BadRequest || p.Field != "expr" || !strings.HasPrefix(p.Detail, "expr: "+c.Error) || p.Line == 0 || p.Column == 0 {
				t.Errorf("%s: %+v, want %s", c.ID, p, c.Error)
			}
			continue
		}
		e := must.Get(driplang.Parse(c.Expr))(t)
		for _, form := range []any{c.Expr, e} {
			question["expr"] = form
			var out api.Evaluation
			s.must(200, s.evaluation(question), &out)
			if out.Value != c.Value || out.Why == "" || out.Witness == nil {
				t.Errorf("%s: %s: %+v: %s", c.ID, c.Expr, out, c.Why)
			}
			if c.NextKnown && ((out.Next == nil) != (c.Next == nil) || out.Next != nil && !out.Next.Equal(*c.Next)) {
				t.Errorf("%s: %s changes at %v, want %v", c.ID, c.Expr, out.Next, c.Next)
			}
		}
	}
}

func TestEvaluateAnswers(t *testing.T) {
	s := start(t)
	for body, want := range map[string]string{
		`{"expr":"A THEN (NOT B WITHIN 7 days)","events":[{"event":"A","at":"2026-03-01T12:00:00Z"}],"at":"2026-03-05T00:00:00Z"}`: `{"value":false,"pending":true,"next":"2026-03-08T12:00:00Z","why":"not true yet; it can still change with ` +
			`B (must not come) until 2026-03-08T12:00:00Z and A; if nothing more happens it becomes true at 2026-03-08T12:00:00Z","witness":[]}`,
		`{"expr":"A","events":[],"at":"2026-03-01T12:00:00Z"}`: `{"value":false,"pending":false,"next":null,"why":"false; it can still change with A","witness":[]}`,
		`{"expr":"A THEN (B WITHIN 1 day)","events":[{"event":"C","at":"2026-03-01T12:00:00Z"},{"event":"A","at":"2026-03-01T12:00:00Z"},{"event":"B","at":"2026-03-01T13:00:00.5Z"}],"at":"2026-03-05T00:00:00Z"}`: `{"value":true,"pending":false,"next":null,` +
			`"why":"true since 2026-03-01T13:00:00.5Z, when B came (event 2); because of A at 2026-03-01T12:00:00Z (event 1) and B at 2026-03-01T13:00:00.5Z (event 2); it cannot change any more","witness":[1,2]}`,
	} {
		if a := s.send("POST", "/evaluate", body); a.status != 200 || string(a.body) != want {
			t.Errorf("%s:\n%s\nwant\n%s", body, a, want)
		}
	}
	if a := s.get("/topics"); string(a.body) != `{"topics":[]}` {
		t.Errorf("topics were created: %s", a)
	}
}

func TestEvaluateFaults(t *testing.T) {
	t.Parallel()
	s := start(t)
	const at = `,"at":"2026-03-01T12:00:00Z"}`
	for body, want := range map[string]api.Problem{
		`{"expr":"A\nTHEN (B WITHIN 2 parsecs)"` + at:   {Field: "expr", Line: 2, Column: 16, Detail: "expr: 2:16: unknown unit 'parsecs': use ms, s, m, h, d or w"},
		`{"expr":{"then":[{"event":"A"},{"x":1}]}` + at: {Field: "expr", Pointer: "/then/1/x", Detail: "expr: /then/1/x: "},
		`{"events":[]` + at:                             {Field: "expr", Detail: "expr: missing"},
		`{"expr":"A"}`:                                  {Field: "at", Detail: "at: missing"},
		`{"expr":"A","more":1` + at:                     {Field: "more", Detail: "more: unknown member"},
		`{"expr":"A","events":[{"event":"A","at":"2026-03-01T12:00:00Z"},{"event":"A","at":"12:00"}]` + at: {Field: "at", Record: new(int64(1)), Detail: `event 1: at: want RFC 3339`},
	} {
		p := s.send("POST", "/evaluate", body).problem(t)
		if p.Code != api.BadRequest || p.Field != want.Field || p.Line != want.Line || p.Column != want.Column || p.Pointer != want.Pointer ||
			!strings.HasPrefix(p.Detail, want.Detail) || (p.Record == nil) != (want.Record == nil) || p.Record != nil && *p.Record != *want.Record {
			t.Errorf("%s: %+v", body, p)
		}
	}
	if p := s.send("POST", "/evaluate", strings.Repeat(" ", explain.BodyMax+1)).problem(t); p.Code != api.TooLarge || *p.Limit != explain.BodyMax {
		t.Errorf("%+v", p)
	}
}

// TestEvaluateStepByStep: every event and deadline is a step, up to a limit.
func TestEvaluateStepByStep(t *testing.T) {
	s := start(t)
	var out api.Evaluation
	s.must(200, s.send("POST", "/evaluate", `{"expr":"A THEN (NOT B WITHIN 1 h)","trace":true,"at":"2026-03-01T14:00:00Z","events":[
		{"event":"A","at":"2026-03-01T12:00:00Z","id":"1"},{"event":"A","at":"2026-03-01T12:00:00Z","id":"1"},
		{"event":"C","at":"2026-03-01T12:30:00Z"},{"event":"B","at":"2026-03-01T15:00:00Z"}]}`), &out)
	const want = `[{"at":"2026-03-01T12:00:00Z","event":0,"effect":"begins","expr":"A","value":"pending","text":"begins it"},{"at":"2026-03-01T12:00:00Z","event":1,"skipped":"duplicate_id","value":"pending","text":"does not count: its ID came before"},` +
		`{"at":"2026-03-01T12:30:00Z","event":2,"skipped":"not_mentioned","value":"pending","text":"not in the expression"},{"at":"2026-03-01T15:00:00Z","event":3,"skipped":"not_yet","value":"pending","text":"does not count yet"},` +
		`{"at":"2026-03-01T13:00:00Z","event":null,"effect":"true","expr":"B","value":"true","text":"makes it true: B did not come until 2026-03-01T13:00:00Z"}]`
	if got, _ := json.Marshal(out.Steps); string(got) != want || out.Truncated || !out.Value {
		t.Errorf("%s\nwant %s", got, want)
	}
	var events []map[string]string
	for range explain.EventsMax {
		events = append(events, map[string]string{"event": "A", "at": "2026-03-01T12:00:00Z"})
	}
	question := map[string]any{"expr": "A THEN (NOT B WITHIN 1 h)", "trace": true, "events": events, "at": "2026-03-02T12:00:00Z"}
	out = api.Evaluation{}
	if s.must(200, s.evaluation(question), &out); len(out.Steps) != stepsMax || !out.Truncated {
		t.Errorf("%d steps, truncated %t", len(out.Steps), out.Truncated)
	}
}
