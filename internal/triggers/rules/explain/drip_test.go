package explain_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/internal/triggers/rules/explain"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/driplangtest"
	"github.com/sebbroker/seb/test/must"
)

// body returns a question as JSON; expr is any value.
func body(t testing.TB, expr, events, at any) []byte {
	t.Helper()
	question := map[string]any{"expr": expr, "events": events, "at": at}
	if v := reflect.ValueOf(events); v.Kind() == reflect.Slice && v.IsNil() {
		delete(question, "events") // null is invalid
	}
	b := must.Get(json.Marshal(question))(t)
	return b
}

func ask(t *testing.T, text []byte) *explain.Answer {
	t.Helper()
	q, err := explain.Parse(text)
	must.NoErrorf(t, err, "%s", text)
	a := must.Get(q.Answer(t.Context(), nil))(t)
	return a
}

// TestCases runs all rows of the table, with the expression as text and as JSON.
func TestCases(t *testing.T) {
	for _, c := range driplangtest.Cases(t) {
		text := body(t, c.Expr, c.Events, c.At)
		if c.Error != "" {
			_, err := explain.Parse(text)
			var fault *driplang.Error
			if !errors.As(err, &fault) || !strings.HasPrefix(err.Error(), c.Error) {
				t.Errorf("%s: %v, want %s", c.ID, err, c.Error)
			}
			continue
		}
		e := must.Get(driplang.Parse(c.Expr))(t)
		for form, a := range map[string]*explain.Answer{"text": ask(t, text), "JSON": ask(t, body(t, e, c.Events, c.At))} {
			if a.Value != c.Value || a.Value && a.Pending || a.Why == "" {
				t.Errorf("%s %s: %s at %s: %+v: %s", c.ID, form, c.Expr, c.At, a, c.Why)
			}
			if c.NextKnown && ((a.Next == nil) != (c.Next == nil) || a.Next != nil && *a.Next != c.Next.UnixMilli()) {
				t.Errorf("%s %s: %s changes at %v, want %v", c.ID, form, c.Expr, a.Next, c.Next)
			}
		}
	}
}

// day returns a time of the examples.
func day(d float64) time.Time {
	return driplangtest.Base.Add(time.Duration(d * 24 * float64(time.Hour)))
}

type happened struct {
	Event string          `json:"event"`
	At    time.Time       `json:"at"`
	ID    string          `json:"id,omitempty"`
	Data  json.RawMessage `json:"data,omitempty"`
}

func TestWhy(t *testing.T) {
	const onboarding = "user_created THEN (NOT use_x WITHIN 7 days)"
	created := happened{Event: "user_created", At: day(0)}
	for _, c := range []struct {
		expr   string
		events []happened
		at     float64
		want   string
	}{
		{onboarding, nil, 0, "false; it can still change with user_created"},
		{onboarding, []happened{created}, 1, `not true yet; it can still change with use_x (must not come) until 2026-01-08T00:00:00Z and user_created; if nothing more happens it becomes true at 2026-01-08T00:00:00Z`},
		{onboarding, []happened{created}, 8, `true since 2026-01-08T00:00:00Z, at a deadline; because of user_created at 2026-01-01T00:00:00Z (event 0); it cannot change any more`},
		{onboarding, []happened{created, {Event: "use_x", At: day(3)}}, 8, `false; it can still change with user_created`},
		{"A THEN (B WITHIN 2 days)", []happened{{Event: "A", At: day(0)}}, 1, `not true yet; it can still change with B until 2026-01-03T00:00:00Z and A`},
		{"A THEN (B WITHIN 2 days)", []happened{{Event: "A", At: day(0)}}, 3, `false; it can still change with A`},
		{"A THEN (NOT B)", []happened{{Event: "A", At: day(0)}}, 1, `true since 2026-01-01T00:00:00Z, when A came (event 0); because of A at 2026-01-01T00:00:00Z (event 0); it can still change with A and B (must not come)`},
		{"A THEN (NOT B)", []happened{{Event: "A", At: day(0)}, {Event: "B", At: day(1)}}, 1, `false since 2026-01-02T00:00:00Z, when B came (event 1); it can still change with A`},
		{"A AND B", []happened{{Event: "A", At: day(0)}, {Event: "B", At: day(1)}}, 1, `true since 2026-01-02T00:00:00Z, when B came (event 1); because of A at 2026-01-01T00:00:00Z (event 0) and B at 2026-01-02T00:00:00Z (event 1); it cannot change any more`},
		{"NOT A", nil, 1, `true without any event; it can still change with A (must not come)`},
		{"A THEN (B AFTER 2 days)", []happened{{Event: "A", At: day(0)}}, 1, `not true yet; it can still change with A and B from 2026-01-03T00:00:00Z`},
		{"signup THEN (count(login) >= 3 WITHIN 7 days)", []happened{{Event: "signup", At: day(0)}, {Event: "login", At: day(1)}}, 2, `not true yet; it can still change with count(login) >= 3 (1 so far) until 2026-01-08T00:00:00Z and signup`},
		{"signup THEN (count(login) < 3 WITHIN 7 days)", []happened{{Event: "signup", At: day(0)}, {Event: "login", At: day(1)}}, 2, `not true yet; it can still change with count(login) >= 3 (must not come; 1 so far) until 2026-01-08T00:00:00Z and signup; if nothing more happens it becomes true at 2026-01-08T00:00:00Z`},
		{"count(login) >= 3 WITHIN 7 days", []happened{{Event: "login", At: day(0)}, {Event: "login", At: day(1)}}, 2, `not true yet; it can still change with count(login) >= 2 (1 so far) until 2026-01-08T00:00:00Z, count(login) >= 2 (0 so far) until 2026-01-09T00:00:00Z and login`},
		{"A AND count(B) < 1", []happened{{Event: "A", At: day(0)}}, 1, `true since 2026-01-01T00:00:00Z, when A came (event 0); because of A at 2026-01-01T00:00:00Z (event 0); it can still change with B (must not come)`},
		{`purchase[amount > 100]`, []happened{{Event: "purchase", At: day(0), Data: json.RawMessage(`{"amount":99}`)}, {Event: "purchase", At: day(1), Data: json.RawMessage(`{"amount":101}`)}}, 2, `true since 2026-01-02T00:00:00Z, when purchase came (event 1); because of purchase at 2026-01-02T00:00:00Z (event 1); it cannot change any more`},
		{"A THEN B", []happened{{Event: "A", At: day(2)}, {Event: "B", At: day(1)}}, 2, `true since 2026-01-03T00:00:00Z, when B came (event 1); because of A at 2026-01-03T00:00:00Z (event 0) and B at 2026-01-03T00:00:00Z (event 1); it cannot change any more; 1 event is earlier than the one before in the list, and got its time`},
	} {
		a := ask(t, body(t, c.expr, append([]happened{}, c.events...), day(c.at)))
		check.Equalf(t, a.Why, c.want, "%s at day %v", c.expr, c.at)
	}
}

func TestOrderAndDuplicates(t *testing.T) {
	for name, c := range map[string]struct {
		expr   string
		events []happened
		at     float64
		value  bool
		trace  string
	}{
		"later events do not count": {
			"A AND B", []happened{{Event: "A", At: day(0)}, {Event: "B", At: day(2)}}, 1, false, "0 0  false counts|2 1 not_yet false",
		},
		"an ID counts once a day": {
			"A THEN A", []happened{{Event: "A", At: day(0), ID: "k"}, {Event: "A", At: day(1), ID: "k"}}, 1, false, "0 0  false begins|1 1 duplicate_id false",
		},
		"an ID counts again after a day": {
			"A THEN A", []happened{{Event: "A", At: day(0), ID: "k"}, {Event: "A", At: day(1.25), ID: "k"}}, 2, true, "0 0  false begins|1.25 1  true true",
		},
		"time does not decrease": {
			"A THEN (B WITHIN 1 day)", []happened{{Event: "A", At: day(3)}, {Event: "B", At: day(1)}, {Event: "C", At: day(4)}}, 5, true, "3 0  pending begins|3 1  true true|4 2 not_mentioned true",
		},
		"an event comes before the deadline of its instant": {
			"A THEN (NOT B WITHIN 1 day)", []happened{{Event: "A", At: day(0)}, {Event: "B", At: day(1)}}, 1, false, "0 0  pending begins|1 1  false ends",
		},
		"a deadline comes before a later event": {
			"A THEN (NOT B WITHIN 1 day)", []happened{{Event: "A", At: day(0)}, {Event: "B", At: day(1.5)}}, 2, true, "0 0  pending begins|1 -1  true true|1.5 1  true none",
		},
	} {
		q := must.Get(explain.Parse(body(t, c.expr, c.events, day(c.at))))(t)
		var trace []string
		a, err := q.Answer(t.Context(), func(m explain.Moment) {
			trace = append(trace, strings.TrimSpace(fmt.Sprintf("%v %d %s %v %s", time.UnixMilli(m.At).Sub(driplangtest.Base).Hours()/24, m.Event, m.Skip, m.Value, m.Kind)))
		})
		if err != nil || a.Value != c.value || strings.Join(trace, "|") != c.trace {
			t.Errorf("%s: %v, %q, %v", name, a.Value, strings.Join(trace, "|"), err)
		}
	}
}

// TestEffects: what each event, and each end of a window, does.
func TestEffects(t *testing.T) {
	at := func(name string, d float64) happened { return happened{Event: name, At: day(d)} }
	paid := func(amount int, d float64) happened {
		return happened{Event: "paid", At: day(d), Data: fmt.Appendf(nil, `{"amount":%d}`, amount)}
	}
	const onboarding, active = "created THEN (NOT used WITHIN 7 days)", "created THEN (count(login) >= 3 WITHIN 7 days)"
	for _, c := range []struct {
		expr   string
		events []happened
		want   []string
	}{
		{onboarding, []happened{at("created", 0), at("used", 3)}, []string{"created: begins it", "used: ends it: used must not come until 2026-01-08T00:00:00Z"}},
		{onboarding, []happened{at("created", 0), at("used", 8)}, []string{
			"created: begins it", ": makes it true: used did not come until 2026-01-08T00:00:00Z", "used: has no effect: the expression did not wait for it then",
		}},
		{onboarding, []happened{at("used", 0), at("created", 1)}, []string{
			"used: has no effect: the expression did not wait for it then", "created: begins it", ": makes it true: used did not come until 2026-01-09T00:00:00Z",
		}},
		{active, []happened{at("created", 0), at("login", 1), at("login", 2)}, []string{
			"created: begins it", "login: counts: 1 of 3 for count(login) >= 3", "login: counts: 2 of 3 for count(login) >= 3",
			": count(login) >= 3 did not come until 2026-01-08T00:00:00Z (2 so far)",
		}},
		{"A THEN (B WITHIN 2 days)", []happened{at("A", 0), at("A", 1), at("B", 2.5)}, []string{
			"A: begins it", "A: begins it", "B: makes it true",
		}},
		{"A THEN (B AFTER 2 days)", []happened{at("A", 0), at("B", 1), at("B", 3)}, []string{
			"A: begins it", "B: has no effect: the expression did not wait for it then", "B: makes it true",
		}},
		{"A AND NOT B", []happened{at("A", 0), at("B", 1)}, []string{"A: makes it true", "B: makes it false: B must not come"}},
		{"A AND B", []happened{at("B", 0), at("B", 1), at("other", 2), at("A", 3)}, []string{
			"B: counts for B", "B: has no effect: the expression did not wait for it then", "other: not in the expression", "A: makes it true",
		}},
		{"paid[amount > 100]", []happened{paid(99, 0), paid(101, 1)}, []string{"paid: does not count: its data does not match", "paid: makes it true"}},
		{"A THEN (B WITHIN 1 day) THEN (C WITHIN 1 day)", []happened{at("A", 0), at("B", 0.5), at("C", 3)}, []string{
			"A: begins it", "B: begins it", ": C did not come until 2026-01-02T12:00:00Z", "C: has no effect: the expression did not wait for it then",
		}},
		{"A THEN (NOT B WITHIN 1 day) THEN C", []happened{at("A", 0), at("C", 3)}, []string{"A: begins it", ": B did not come until 2026-01-02T00:00:00Z, as it must", "C: makes it true"}},
	} {
		q := must.Get(explain.Parse(body(t, c.expr, c.events, day(30))))(t)
		var got []string
		must.NoError(t, check.Err(q.Answer(t.Context(), func(m explain.Moment) {
			name := ""
			if m.Event >= 0 {
				name = q.Events[m.Event].Name
			}
			got = append(got, name+": "+m.Words())
		})))
		if !slices.Equal(got, c.want) {
			t.Errorf("%s\n got  %q\n want %q", c.expr, got, c.want)
		}
	}
}

// TestRestart: the history starts over each time that the expression becomes true.
func TestRestart(t *testing.T) {
	var events []happened
	for i, name := range []string{"A", "B", "B", "A", "B"} {
		events = append(events, happened{Event: name, At: day(float64(i))})
	}
	for restart, want := range map[bool]string{false: "begins true none none none", true: "begins true none begins true"} {
		q := must.Get(explain.Parse(body(t, "A THEN B", events, day(9))))(t)
		q.Restart = restart
		var got []string
		must.NoError(t, check.Err(q.Answer(t.Context(), func(m explain.Moment) { got = append(got, string(m.Kind)) })))
		check.Equalf(t, strings.Join(got, " "), want, "restart %t", restart)
	}
}

// TestTraceChangesNothing: the instants at which windows end do not change the answer.
func TestTraceChangesNothing(t *testing.T) {
	for _, c := range driplangtest.Cases(t) {
		q, err := explain.Parse(body(t, c.Expr, c.Events, c.At))
		if err != nil {
			continue
		}
		plain := must.Get(q.Answer(t.Context(), nil))(t)
		last := "" // of the steps
		traced := must.Get(q.Answer(t.Context(), func(m explain.Moment) { last = m.Value.String() }))(t)
		if !reflect.DeepEqual(plain, traced) || last != "" && (last == "true") != traced.Value {
			t.Errorf("%s: %+v, with a trace %+v, at last %s", c.ID, plain, traced, last)
		}
	}
}

func TestFaults(t *testing.T) {
	const at = `,"at":"2026-01-01T00:00:00Z"}`
	for text, want := range map[string]string{
		``:                         "body: empty",
		`[]`:                       "body: want an object, given a JSON array",
		`{"expr":"A"}`:             "at: missing",
		`{"expr":"A","at":"soon"}`: `at: want RFC 3339, such as 2026-03-01T12:00:00Z, given "soon"`,
		`{"expr":"A","at":"3001-01-01T00:00:00Z"}`: "at: want a year from 1 to 3000, given 3001",
		`{"expr":"A","at":5}`:                      "at: want a string, given a JSON number",
		`{"events":[]` + at:                        "expr: missing",
		`{"expr":"A","extra":1` + at:               "extra: unknown member",
		`{"expr":"A"` + at + `{}`:                  "body: more than one JSON value",
		"{\"expr\":\"\xff\"" + at:                  "body: not valid UTF-8",
		`{"expr":"A","events":[{}]` + at:           "event 0: event: missing",
		`{"expr":"A","events":{}` + at:             "events: want an array",
		`{"expr":"A","events":["A"]` + at:          "event 0: want an object, given a JSON string",
		`{"expr":"A","events":null` + at:           "events: want an array",
		`{"expr":"A","events":[null]` + at:         "event 0: event: missing",
		`{"expr":"A","events":[{"event":"A","at":"2026-01-01T00:00:00Z"},{"event":"A"}]` + at:                                  "event 1: at: missing",
		`{"expr":"A","events":[{"event":"","at":"2026-01-01T00:00:00Z"}]` + at:                                                 "event 0: event: empty",
		`{"expr":"A","events":[{"event":"A","at":"2026-01-01T00:00:00Z","data":[]}]` + at:                                      "event 0: data: want an object, or null",
		`{"expr":"A","events":[{"event":"A","at":"2026-01-01T00:00:00Z","name":1}]` + at:                                       "event 0: name: unknown member",
		`{"expr":"A","events":[{"event":"` + strings.Repeat("x", 257) + `","at":"2026-01-01T00:00:00Z"}]` + at:                 "event 0: event: 257 bytes, the limit is 256",
		`{"expr":"A","events":[{"event":"A","at":"2026-01-01T00:00:00Z","id":"` + strings.Repeat("x", 257) + `"}]` + at:        "event 0: id: 257 bytes, the limit is 256",
		`{"expr":"A","events":[` + strings.Repeat(`{"event":"A","at":"2026-01-01T00:00:00Z"},`, explain.EventsMax) + `0]` + at: "events: more than 10000 events",
		`{"expr":"` + strings.Repeat("x", explain.BodyMax) + `"` + at:                                                          "body: 1048615 bytes, the limit is 1048576",
		`{"expr":"A THEN (B WITHIN 2 parsecs)"` + at:                                                                           "1:18: unknown unit 'parsecs'",
		`{"expr":"A\nAND"` + at: "2:4: expected an event name, NOT or '('",
		`{"expr":{"then":[{"event":"A"},{"within":{"event":"B"}}]}` + at: `/then/1: "within" needs "for"`,
		`{"expr":7` + at: "expected an expression, an object",
	} {
		q, err := explain.Parse([]byte(text))
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.80s: %v, %v, want %s", text, q, err, want)
		}
	}
}

func TestReadEvents(t *testing.T) {
	q := &explain.Question{}
	err := q.ReadEvents(strings.NewReader("\n{\"event\":\"A\",\"at\":\"2026-01-01T00:00:00.0019Z\"}\r\n \n{\"event\":\"B\",\"at\":\"2026-01-01T01:00:00+01:00\",\"data\":{\"x\":1}}"), "")
	if err != nil || len(q.Events) != 2 || q.Events[0].At != driplangtest.Base.UnixMilli()+1 || q.Events[1].At != driplangtest.Base.UnixMilli() || string(q.Events[1].Data) != `{"x":1}` {
		t.Errorf("%+v, %v", q.Events, err)
	}
	var fault *explain.Fault
	if err := q.ReadEvents(strings.NewReader("{\"event\":\"A\",\"at\":\"2026-01-01T00:00:00Z\"}\n\n{\"event\":\"A\"}"), ""); !errors.As(err, &fault) || fault.Event != 1 || fault.Field != "at" {
		t.Error(err)
	}
}

func TestAnswerEndsWithItsContext(t *testing.T) {
	q := must.Get(explain.Parse(body(t, "A", []happened{{Event: "A", At: day(0)}}, day(1))))(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	check.ErrorIs(t, check.Err(q.Answer(ctx, nil)), context.Canceled)
}

// FuzzQuestion: every input gives an answer or a fault. The answer does not depend on the form of
// the expression, and its forecast is right.
func FuzzQuestion(f *testing.F) {
	for _, c := range driplangtest.Cases(f)[:40] {
		f.Add(body(f, c.Expr, c.Events, c.At))
	}
	f.Add([]byte(`{"expr":{"then":[{"event":"A"},{"within":{"not":{"event":"B"}},"for":"1d"}]},"events":[{"event":"A","at":"2026-01-01T00:00:00Z","id":"x","data":{"y":[1]}}],"at":"2026-01-01T12:00:00Z"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		q, err := explain.Parse(text)
		if err != nil {
			var expr *driplang.Error
			var own *explain.Fault
			if !errors.As(err, &expr) && !errors.As(err, &own) || err.Error() == "" {
				t.Fatalf("%#v", err)
			}
			return
		}
		a, err := q.Answer(t.Context(), nil)
		if err != nil {
			return
		}
		for _, i := range a.Witness {
			if !a.Value || q.Events[i].Name == "" {
				t.Fatalf("%+v", a)
			}
		}
		canonical := must.Get(driplang.Parse(q.Expr.String()))(t)
		again := &explain.Question{Expr: canonical, Events: q.Events, At: q.At}
		b, err := again.Answer(t.Context(), nil)
		if err != nil || b.Value != a.Value || b.Why != a.Why {
			t.Fatalf("%+v, then %+v, %v", a, b, err)
		}
		if a.Next != nil && *a.Next < 1<<52 {
			again.At = *a.Next
			if again.Events = before(q); len(again.Events) == 0 && len(q.Events) > 0 {
				return
			}
			if b, err = again.Answer(t.Context(), nil); err != nil || b.Value == a.Value {
				t.Fatalf("%s: %+v, and at %d %+v, %v", q.Expr, a, *a.Next, b, err)
			}
		}
	})
}

// before returns the events of a question that count.
func before(q *explain.Question) (events []explain.Event) {
	last := int64(-1 << 62)
	for _, e := range q.Events {
		if last = max(last, e.At); last > q.At {
			break
		}
		events = append(events, e)
	}
	return events
}

// TestReadEventsOfBroker: input of `seb event -f` and output of `seb consume`, with the applicable
// time and entity.
func TestReadEventsOfBroker(t *testing.T) {
	const sent = `{"event":"A","entity_id":"u1","data":{"x":1},"id":"k","occurred_at":"2026-01-01T00:00:00Z"}`
	record := func(offset, millis int64, entity, value string) string {
		text, _ := json.Marshal(map[string]any{"partition": 0, "offset": offset, "timestamp": millis, "key": entity, "value": value})
		return string(text) + "\n"
	}
	erased := `{"partition":0,"offset":1,"timestamp":5,"key":"u1","value":null}` + "\n"
	for name, c := range map[string]struct {
		lines, entity string
		want, fault   string
	}{
		"sent":                {lines: sent, want: "[{A u1 1767225600000 k [123 34 120 34 58 49 125]}]"},
		"at comes first":      {lines: `{"event":"A","at":"1970-01-01T00:00:01Z","occurred_at":"2026-01-01T00:00:00Z"}`, want: "[{A  1000 null []}]"},
		"append time":         {lines: record(0, 7000, "u1", sent), want: "[{A u1 7000 k [123 34 120 34 58 49 125]}]"},
		"at inside the value": {lines: record(0, 7000, "u1", `{"event":"A","at":"1970-01-01T00:00:01Z"}`), want: "[{A  1000 null []}]"},
		"erased":              {lines: record(0, 4, "u1", `{"event":"A","entity_id":"u1"}`) + erased + record(2, 6, "u1", `{"event":"B","entity_id":"u1"}`), want: "[{B u1 6 null []}]"},
		"selected entity":     {lines: record(0, 4, "u1", `{"event":"A","entity_id":"u1"}`) + record(1, 5, "u2", `{"event":"B","entity_id":"u2"}`), entity: "u2", want: "[{B u2 5 null []}]"},
		"several":             {lines: record(0, 4, "u1", `{"event":"A","entity_id":"u1"}`) + record(1, 5, "u2", `{"event":"B","entity_id":"u2"}`), fault: "entity_id: the events are of 2 entities (u1 and u2): choose one"},
		"another":             {lines: sent, entity: "u3", fault: `entity_id: no event of "u3"; the events are of 1 entity (u1)`},
		"at and occurred_at":  {lines: `{"event":"A","at":"1970-01-01T00:00:01Z","occurred_at":"AAA"}`, want: "[{A  1000 null []}]"},
		"only occurred_at":    {lines: `{"event":"A","occurred_at":"AAA"}`, fault: `event 0: occurred_at: want RFC 3339, such as 2026-03-01T12:00:00Z, given "AAA"`},
		"no time":             {lines: `{"event":"A","entity_id":"u1"}`, fault: "event 0: at: missing, and occurred_at too"},
		"binary":              {lines: `{"offset":0,"timestamp":1,"key":"u1","value":null,"value_base64":"/w=="}`, fault: "event 0: value_base64: binary value: not an event"},
		"no event":            {lines: record(0, 4, "u1", "x"), fault: "event 0: line 1, column 1: invalid character 'x' looking for beginning of value"},
		"an unknown member":   {lines: `{"event":"A","entity":"u1"}`, fault: "event 0: entity: unknown member"},
	} {
		t.Run(name, func(t *testing.T) {
			var q explain.Question
			if err := q.ReadEvents(strings.NewReader(c.lines), c.entity); fmt.Sprint(err) != cmp.Or(c.fault, "<nil>") {
				t.Fatal(err)
			}
			for i := range q.Events {
				if q.Events[i].ID == "" {
					q.Events[i].ID = "null"
				}
			}
			if got := fmt.Sprint(q.Events); c.fault == "" && got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}
