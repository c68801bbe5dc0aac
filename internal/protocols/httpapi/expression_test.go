package httpapi

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/test/driplangtest"
)

func TestParseAnswers(t *testing.T) {
	t.Parallel()
	s := start(t)
	for body, want := range map[string]string{
		`{"expr":" A then ( not é within 7 days )"}`: `{"expr":{"then":[{"event":"A"},{"not":{"within":{"event":"é"},"for":"7d"}}]},"text":" A then ( not é within 7 days )",` +
			`"sentence":"7 days after A, unless é happens in that time.","warnings":[],"names":["A","é"],"spans":[{"pointer":"","from":1,"to":32},` +
			`{"pointer":"/then/0","from":1,"to":2},{"pointer":"/then/1","from":10,"to":30},{"pointer":"/then/1/not","from":14,"to":30},{"pointer":"/then/1/not/within","from":14,"to":16}]}`,
		`{"expr":{"then":[{"event":"A"},{"not":{"event":"b c"}}]}}`: `{"expr":{"then":[{"event":"A"},{"not":{"event":"b c"}}]},"text":"A THEN (NOT \"b c\")","sentence":"A happens, and then \"b c\" does not happen after A.",` +
			`"warnings":[{"kind":"fires-at-once","message":"NOT without WITHIN: true at once when A is complete; did you mean A THEN ((NOT \"b c\") WITHIN ...)?","pointer":"/then/1"}],"names":["A","b c"],"spans":[{"pointer":"","from":0,"to":18},` +
			`{"pointer":"/then/0","from":0,"to":1},{"pointer":"/then/1","from":8,"to":17},{"pointer":"/then/1/not","from":12,"to":17}]}`,
		`{"expr":{"then":[{"event":"A"},{"within":{"event":"b c"},"for":"7d"}]},"source":"A then\nB within 1 week"}`: `{"expr":{"then":[{"event":"A"},{"within":{"event":"b c"},"for":"7d"}]},` +
			`"text":"A then\n\"b c\" within 1 week","sentence":"A happens, and then \"b c\" happens within 7 days after A.","warnings":[],"names":["A","b c"],` +
			`"spans":[{"pointer":"","from":0,"to":26},{"pointer":"/then/0","from":0,"to":1},{"pointer":"/then/1","from":7,"to":26},{"pointer":"/then/1/within","from":7,"to":12}]}`,
		`{"expr":"a  then b","source":"x"}`: `{"expr":{"then":[{"event":"a"},{"event":"b"}]},"text":"a  then b","sentence":"a happens, and then b happens.","warnings":[],"names":["a","b"],` +
			`"spans":[{"pointer":"","from":0,"to":9},{"pointer":"/then/0","from":0,"to":1},{"pointer":"/then/1","from":8,"to":9}]}`,
	} {
		if a := s.send("POST", "/drip/parse", body); a.status != 200 || string(a.body) != want {
			t.Errorf("%s:\n%s\nwant\n%s", body, a, want)
		}
	}
}

// TestParseCases: both forms of each row have the same answer, except for the text that was given.
func TestParseCases(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, c := range driplangtest.Cases(t) {
		e, err := driplang.Parse(c.Expr)
		if err != nil {
			continue
		}
		var text, form api.Expression
		for given, out := range map[any]*api.Expression{c.Expr: &text, e: &form} {
			body, _ := json.Marshal(map[string]any{"expr": given})
			s.must(200, s.send("POST", "/drip/parse", string(body)), out)
			for _, span := range out.Spans {
				if span.From >= span.To || span.To > len(out.Text) {
					t.Errorf("%s: %+v", out.Text, span)
				}
			}
		}
		if text.Text != c.Expr || form.Text != e.String() || string(text.Expr) != string(form.Expr) || text.Sentence != form.Sentence || text.Sentence != e.Sentence() ||
			len(text.Spans) != len(form.Spans) || strings.Join(text.Names, " ") != strings.Join(e.Names(), " ") {
			t.Errorf("%s: %+v and %+v", c.ID, text, form)
		}
	}
}

func TestParseFaults(t *testing.T) {
	t.Parallel()
	s := start(t)
	for body, want := range map[string]api.Problem{
		`{"expr":"A\nTHEN (B WITHIN 2 parsecs)"}`:   {Field: "expr", Line: 2, Column: 16, Detail: "expr: 2:16: unknown unit 'parsecs': use ms, s, m, h, d or w"},
		`{"expr":{"then":[{"event":"A"},{"x":1}]}}`: {Field: "expr", Pointer: "/then/1/x", Detail: "expr: /then/1/x: "},
		`{"expr":null}`:        {Field: "expr", Detail: "expr: "},
		`{"expr":7}`:           {Field: "expr", Detail: "expr: "},
		`{}`:                   {Field: "expr", Detail: "expr: missing"},
		``:                     {Field: "body", Detail: "body: empty"},
		"{\"expr\":\"A\xff\"}": {Field: "body", Detail: "body: not valid UTF-8"},
		`{"expr":{"event":"a"},"source":"a\nthen"}`: {Field: "source", Line: 2, Column: 5, Detail: "source: 2:5: expected an event name"},
		`{"expr":{"event":"a"},"source":7}`:         {Field: "source", Detail: "source: "},
		`{"expr":"A","more":1}`:                     {Field: "more", Detail: "more: unknown member"},
		`{"expr":"A"} {}`:                           {Field: "body", Detail: "body: more than one JSON value"},
		`{"expr":"B WITHIN 2 d"}`:                   {Field: "expr", Line: 1, Column: 3, Detail: "expr: 1:3: WITHIN has no starting point"},
	} {
		p := s.send("POST", "/drip/parse", body).problem(t)
		if p.Code != api.BadRequest || p.Field != want.Field || p.Line != want.Line || p.Column != want.Column || p.Pointer != want.Pointer || !strings.HasPrefix(p.Detail, want.Detail) {
			t.Errorf("%s: %+v", body, p)
		}
	}
	if p := s.send("POST", "/drip/parse", strings.Repeat(" ", expressionBodyMax+1)).problem(t); p.Code != api.TooLarge || *p.Limit != expressionBodyMax {
		t.Errorf("%+v", p)
	}
}

func TestStories(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, expr := range []string{`"A THEN (NOT b[x > 1] WITHIN 7 days)"`, `{"then":[{"event":"A"},{"not":{"within":{"event":"b","where":{"property":"x","is":">","value":1}},"for":"7d"}}]}`} {
		const first = `{"stories":[{"outcome":"fires","events":[{"event":"A","after_ms":0,"after":""}],"end_ms":604800000,"fires_ms":604800000,` +
			`"text":"A, and nothing for 7 days: fires 7 days after it"},{"outcome":"does_not_fire","events":[{"event":"A","after_ms":0,"after":""},` +
			`{"event":"b","data":{"x":2},"after_ms":259200000,"after":"3 days"}],"end_ms":259200000,"text":"A, b (x 2) 3 days later: does not fire",` +
			`"differs_from":0,"difference":"with b (x 2) 3 days after A"},{`
		if a := s.send("POST", "/drip/stories", `{"expr":`+expr+`}`); a.status != 200 || !strings.HasPrefix(string(a.body), first) {
			t.Errorf("%s:\n%s\nwant\n%s", expr, a, first)
		}
	}
	for expr, want := range map[string]string{
		"NOT A":       `{"stories":[],"none_fires":"true_at_start","note":"The expression is true before any event, so that no event can make it true. Add an event that starts it."}`,
		"A AND NOT A": `"none_fires":"not_found","note":"No history of at most 64 events was found that makes the expression true."}`,
	} {
		if a := s.send("POST", "/drip/stories", `{"expr":"`+expr+`"}`); a.status != 200 || !strings.HasSuffix(string(a.body), want) {
			t.Errorf("%s:\n%s\nwant\n%s", expr, a, want)
		}
	}
	for body, want := range map[string]api.Problem{
		`{"expr":"A\nTHEN ("}`:  {Field: "expr", Line: 2, Column: 7},
		`{"expr":{"x":1}}`:      {Field: "expr", Pointer: "/x"},
		`{}`:                    {Field: "expr"},
		`{"expr":"A","more":1}`: {Field: "more"},
	} {
		p := s.send("POST", "/drip/stories", body).problem(t)
		if p.Code != api.BadRequest || p.Field != want.Field || p.Line != want.Line || p.Column != want.Column || p.Pointer != want.Pointer {
			t.Errorf("%s: %+v", body, p)
		}
	}
}
