package main_test

import (
	"strings"
	"testing"
)

func TestEventsAndExpressions(t *testing.T) {
	p := newPlace(t)
	p.serve("--events-topic", "happened")
	r := p.run("event", "created", "u1", "--data", `{"name":"Ada"}`)
	if r.code != 0 || r.out != "" || !strings.HasPrefix(r.err, "event stored in happened partition 0 at offset 0, ") {
		t.Errorf("%+v", r)
	}
	p.mustWith("{\"event\":\"a\",\"entity_id\":\"u1\"}\n{\"event\":\"b\",\"entity_id\":\"u2\"}\n", "event", "-f", "-")
	got := p.must("consume", "happened", "--format", "key-value")
	want := "u1\t{\"event\":\"created\",\"entity_id\":\"u1\",\"data\":{\"name\":\"Ada\"}}\nu1\t{\"event\":\"a\",\"entity_id\":\"u1\"}\nu2\t{\"event\":\"b\",\"entity_id\":\"u2\"}\n"
	if got != want {
		t.Errorf("%s", got)
	}
	if got := p.must("topic", "describe", "happened"); !strings.Contains(got, "timestamp-type = LogAppendTime") {
		t.Errorf("%s", got)
	}
	p.refused(2, "give the name of an event", "event", "created")
	p.refused(1, "data: want an object", "event", "created", "u1", "--data", "[]")

	const events = "{\"event\":\"a\",\"at\":\"2026-03-01T12:00:00Z\"}\n"
	if got := p.mustWith(events, "drip", "eval", "a THEN (NOT b WITHIN 7 days)", "--at", "2026-03-08T12:00:00Z"); !strings.HasPrefix(got, "value  true\n") {
		t.Errorf("%s", got)
	}
	if got := p.must("drip", "fmt", "a then b within 90 min"); got != "a THEN (b WITHIN 1h30m)\n" {
		t.Errorf("%s", got)
	}
	r = p.run("drip", "check", "a THEN (b WITHIN 2 parsecs)")
	if want := "a THEN (b WITHIN 2 parsecs)\n                 ^\nseb drip check: 1:18: unknown unit 'parsecs': use ms, s, m, h, d or w\n"; r.code != 1 || r.err != want {
		t.Errorf("%+v", r)
	}
	p.refused(2, "give an expression", "drip", "check")
}
