package main_test

import (
	"strings"
	"testing"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

func TestEventsAndExpressions(t *testing.T) {
	p := newWorkDir(t)
	p.serve("--events-topic", "happened")
	r := p.run("event", "created", "u1", "--data", `{"name":"Ada"}`)
	if r.code != 0 || r.out != "" || !strings.HasPrefix(r.err, "event stored in happened partition 0 at offset 0, ") {
		t.Errorf("%+v", r)
	}
	p.mustWith("{\"event\":\"a\",\"entity_id\":\"u1\"}\n{\"event\":\"b\",\"entity_id\":\"u2\"}\n", "event", "-f", "-")
	got := p.must("consume", "happened", "--format", "key-value")
	want := "u1\t{\"event\":\"created\",\"entity_id\":\"u1\",\"data\":{\"name\":\"Ada\"}}\nu1\t{\"event\":\"a\",\"entity_id\":\"u1\"}\nu2\t{\"event\":\"b\",\"entity_id\":\"u2\"}\n"
	check.Equal(t, got, want)
	check.Contains(t, p.must("topic", "describe", "happened"), "timestamp-type = LogAppendTime")
	p.refused(2, "give the name of an event", "event", "created")
	p.refused(1, "data: want an object", "event", "created", "u1", "--data", "[]")

	const events = "{\"event\":\"a\",\"at\":\"2026-03-01T12:00:00Z\"}\n"
	if got := p.mustWith(events, "drip", "eval", "a THEN (NOT b WITHIN 7 days)", "--at", "2026-03-08T12:00:00Z"); !strings.HasPrefix(got, "value  true\n") {
		t.Errorf("%s", got)
	}
	check.Equal(t, p.must("drip", "fmt", "a then b within 90 min"), "a THEN (b WITHIN 1h30m)\n")
	r = p.run("drip", "check", "a THEN (b WITHIN 2 parsecs)")
	if want := "a THEN (b WITHIN 2 parsecs)\n                 ^\nseb drip check: 1:18: unknown unit 'parsecs': use ms, s, m, h, d or w\n"; r.code != 1 || r.err != want {
		t.Errorf("%+v", r)
	}
	p.refused(2, "give an expression", "drip", "check")
}

// TestOneEventFormat sends a file of events to a broker, reads it back in each format, and
// evaluates an expression on all of them.
func TestOneEventFormat(t *testing.T) {
	p := newWorkDir(t)
	p.serve()
	const file = `{"event":"created","entity_id":"u1","id":"1","occurred_at":"2026-03-01T12:00:00Z"}
{"event":"created","entity_id":"u2","data":{"plan":"free"},"occurred_at":"2026-03-01T13:00:00Z"}
{"event":"used","entity_id":"u1","occurred_at":"2026-03-02T12:00:00Z"}
`
	p.mustWith(file, "event", "-f", "-")
	values, records := p.must("consume", "events"), p.must("consume", "events", "--format", "json")
	must.Equalf(t, values, file, "consumed")
	const expr = "created THEN (NOT used WITHIN 7 days)"
	for name, lines := range map[string]string{"as sent": file, "as consumed": values, "with append times": records} {
		for entity, want := range map[string]string{"u1": "value  false\n", "u2": "value  true\n"} {
			got := p.mustWith(lines, "drip", "eval", expr, "--entity", entity, "--at", "2999-01-01T00:00:00Z")
			if !strings.HasPrefix(got, want) {
				t.Errorf("%s, %s: %s", name, entity, got)
			}
			took := strings.Contains(got, "2026-03-0")
			if name == "with append times" && took || name != "with append times" && entity == "u2" && !took {
				t.Errorf("%s, %s: different time: %s", name, entity, got)
			}
		}
		r := p.runWith(strings.NewReader(lines), "drip", "eval", expr)
		if want := "seb drip eval: entity_id: the events are of 2 entities (u1 and u2): choose one (--entity)\n"; r.code != 1 || r.err != want {
			t.Errorf("%s: %+v", name, r)
		}
	}
}
