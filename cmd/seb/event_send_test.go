package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/protocols/httpapi"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// eventBroker is a broker with the event "seen" of u1.
func eventBroker(t *testing.T) *testBroker {
	t.Helper()
	return newTestBroker(t, func(o *httpapi.Options) {
		o.OriginalEvent = func(_ context.Context, _ string, _ int32, entity, id string) (int64, bool, bool) {
			return 7, entity+id == "u1seen", true
		}
	})
}

func sent(t *testing.T, b *testBroker, in string, args ...string) ran {
	t.Helper()
	return b.execute(t, newEvent(), in, args...)
}

func valuesOf(t *testing.T, c *testBroker, topic string) (list []string) {
	t.Helper()
	for r, err := range c.Records(t.Context(), topic, client.ReadOptions{}) {
		must.NoError(t, err)
		list = append(list, fmt.Sprintf("%s %s", r.Key, r.Value))
	}
	return list
}

func TestEventIsSent(t *testing.T) {
	c := eventBroker(t)
	r := sent(t, c, "", "created", "u1")
	if r.fault != nil || r.out != "" || !strings.HasPrefix(r.err, "event stored in events partition 0 at offset 0, 20") {
		t.Errorf("%+v", r)
	}
	r = sent(t, c, "", "purchase", "u1", "--data", `{"amount": 12.50}`, "--id", "seen", "--occurred-at", "2026-03-01T12:00:00Z")
	if r.fault != nil || !strings.Contains(r.err, "its id is a duplicate") {
		t.Errorf("%+v", r)
	}
	if r = sent(t, c, "", "created", "u2", "-q", "--topic-name", "other"); r.fault != nil || r.err != "" {
		t.Errorf("%+v", r)
	}
	want := []string{
		`u1 {"event":"created","entity_id":"u1"}`,
		`u1 {"event":"purchase","entity_id":"u1","data":{"amount":12.50},"id":"seen","occurred_at":"2026-03-01T12:00:00Z"}`,
	}
	if got := valuesOf(t, c, "events"); strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("%s", got)
	}
	if got := valuesOf(t, c, "other"); len(got) != 1 {
		t.Errorf("%s", got)
	}
}

func TestEventsOfAFileAreSent(t *testing.T) {
	c := eventBroker(t)
	var lines strings.Builder
	n := sebtest.Runs(25_000, 5_000)
	for i := range n {
		fmt.Fprintf(&lines, "{\"event\":\"e%d\",\"entity_id\":\"u%d\",\"data\":{\"n\":%d}}\n\n", i, i%7, i)
	}
	if r := sent(t, c, "", "-f", testFile(t, lines.String())); r.fault != nil || r.err != fmt.Sprintf("%d events stored\n", n) {
		t.Errorf("%+v", r)
	}
	got := valuesOf(t, c, "events")
	for i, v := range got {
		must.Equalf(t, v, fmt.Sprintf(`u%d {"event":"e%d","entity_id":"u%d","data":{"n":%d}}`, i%7, i, i%7, i), "record %d", i)
	}
	check.Equalf(t, len(got), n, "records")
	// Events before an invalid line are stored, and the error names the line.
	r := sent(t, c, "{\"event\":\"a\",\"entity_id\":\"1\"}\n\n{\"event\":\"b\",\"entity\":\"1\"}\n{\"event\":\"c\",\"entity_id\":\"1\"}\n", "-f", "-", "--topic-name", "t")
	if r.fault == nil || r.fault.Error() != `after 1 stored events: line 3: entity: unknown member` {
		t.Errorf("%v", r.fault)
	}
	r = sent(t, c, "{\"event\":\"a\",\"entity_id\":\"1\"}\n{\"event\":\"\",\"entity_id\":\"1\"}\n", "-f", "-", "--topic-name", "u")
	if !errors.Is(r.fault, client.ErrRejected) || !strings.HasPrefix(r.fault.Error(), "after 0 stored events: lines 1 to 2: ") ||
		!strings.Contains(r.fault.Error(), "record 1: event: empty") {
		t.Errorf("%v", r.fault)
	}
	if got := valuesOf(t, c, "t"); len(got) != 1 {
		t.Errorf("%s", got)
	}
}

func TestEventUsage(t *testing.T) {
	c := eventBroker(t)
	for text, args := range map[string][]string{
		"give the name of an event":            {"created"},
		"--data: not JSON":                     {"created", "u1", "--data", "{"},
		"--occurred-at: want RFC 3339":         {"created", "u1", "--occurred-at", "now"},
		"--file: cannot be":                    {"created", "u1", "-f", "x"},
		"--file: cannot be combined with an e": {"-f", "x", "--id", "i"},
	} {
		r := sent(t, c, "", args...)
		var w usageError
		if !errors.As(r.fault, &w) || !strings.Contains(r.fault.Error(), text) {
			t.Errorf("%q: %v", args, r.fault)
		}
	}
	if r := sent(t, c, strings.Repeat(" ", 2<<20), "-f", "-"); r.fault == nil || !strings.Contains(r.fault.Error(), "line 1: ") {
		t.Error(r.fault)
	}
	check.ErrorIs(t, sent(t, c, "", "created", "u1", "--data", "[]").fault, client.ErrRejected)
}
