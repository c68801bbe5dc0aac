package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/storetest"
)

// eventServer is a broker on a folder with a trigger engine.
func eventServer(t *testing.T, change ...func(*setup)) *server {
	t.Helper()
	return start(t, append([]func(*setup){func(c *setup) {
		d := must.Get(objstore.OpenDisk(t.TempDir(), objstore.DiskOptions{}))(t)
		c.store = d
	}}, change...)...)
}

// event posts a body; kind "" sends no content type.
func (s *server) event(query, kind, body string) *answered {
	s.t.Helper()
	h := map[string]string{"Accept": "application/json, " + api.ProblemJSON}
	if kind != "" {
		h["Content-Type"] = kind
	}
	return s.do(call{method: "POST", path: "/event" + query, body: strings.NewReader(body), header: h})
}

func (s *server) settings(topic string) map[string]string {
	s.t.Helper()
	var out api.Topic
	s.must(200, s.get("/topic?topic-name="+topic), &out)
	return out.Settings
}

func TestEventIsARecord(t *testing.T) {
	s := eventServer(t)
	before := time.Now().Add(-time.Millisecond)
	for i, kind := range []string{"", api.JSON, "application/json; charset=utf-8"} {
		var out api.EventStored
		a := s.event("", kind, `{"event": "user_created", "entity_id": "ü1", "data": {"n": 1.50, "n": []}, "occurred_at":"2020-01-01T00:00:00Z"}`)
		s.must(201, a, &out)
		if out.Topic != "events" || out.Partition != 0 || out.Offset != int64(i) || out.Duplicate != nil || a.header.Get(api.HeaderEpoch) == "" {
			t.Errorf("%q: %s", kind, a)
		}
		if out.Time.Before(before) || out.Time.After(time.Now()) {
			t.Errorf("stored at %s", out.Time)
		}
		r := s.records("events", 0)[i]
		if *r.Key != "ü1" || *r.Value != `{"event":"user_created","entity_id":"ü1","data":{"n":1.50,"n":[]},"occurred_at":"2020-01-01T00:00:00Z"}` {
			t.Errorf("%q: %+v", *r.Key, *r.Value)
		}
		if r.Timestamp != out.Time.UnixMilli() {
			t.Errorf("the record has time %d, the answer %d", r.Timestamp, out.Time.UnixMilli())
		}
	}
	// This broker has no key index; the setting is for brokers that have one.
	check.Equalf(t, fmt.Sprint(s.settings("events")), "map[key-index:true timestamp-type:LogAppendTime]", "the topic has settings")
	if p := s.get("/key/history?topic-name=events&key=u1").problem(t); p.Code != api.KeyIndexOff {
		t.Errorf("%+v", p)
	}
}

// TestEventsOfAnEntity reads the events of one entity by the key index that the topic of events gets.
func TestEventsOfAnEntity(t *testing.T) {
	s := eventServer(t, func(c *setup) { c.keys = true })
	for i := range 6 {
		s.must(201, s.event("", "", fmt.Sprintf(`{"event":"e%d","entity_id":"u%d"}`, i, i%2)), nil)
	}
	var page api.KeyHistory
	s.must(200, s.get("/key/history?topic-name=events&key=u1&min-offset=5&limit=2"), &page)
	if len(page.Records) != 2 || *page.Records[0].Value != `{"event":"e5","entity_id":"u1"}` || page.Records[1].Offset != 3 || page.Next == "" {
		t.Errorf("%+v", page)
	}
}

// TestEventsByEntity checks that many events of a request are stored in the partitions of their
// entities, in order.
func TestEventsByEntity(t *testing.T) {
	s := eventServer(t)
	s.must(201, s.send("PUT", "/topic?topic-name=e4", `{"partitions":4,"settings":{"timestamp-type":"append"}}`), nil)
	var body strings.Builder
	for i := range 200 {
		fmt.Fprintf(&body, "{\"event\":\"e%d\", \"entity_id\":\"u%d\"}\n\n", i, i%20)
	}
	var out api.Produced
	s.must(201, s.event("?topic-name=e4", api.NDJSON, body.String()), &out)
	if out.Count != 200 || len(out.Results) != 4 {
		t.Fatalf("%+v", out)
	}
	for p := range 4 {
		last := map[string]int{}
		records := s.records("e4", p)
		if int64(len(records)) != out.Results[p].Count || *out.Results[p].FirstOffset != 0 {
			t.Errorf("partition %d has %d records, reported as %+v", p, len(records), out.Results[p])
		}
		for _, r := range records {
			check.Equalf(t, record.PartitionOf([]byte(*r.Key), 4), int32(p), "%s is in partition %d", *r.Key, p)
			var n int
			var e struct{ Event string }
			must.NoError(t, json.Unmarshal([]byte(*r.Value), &e))
			if _, err := fmt.Sscanf(e.Event, "e%d", &n); err != nil || n < last[*r.Key] {
				t.Errorf("%s of %s comes after e%d", e.Event, *r.Key, last[*r.Key])
			}
			last[*r.Key] = n
		}
	}
	var one api.EventStored
	s.must(201, s.event("?topic-name=e4", "", `{"event":"e","entity_id":"u3"}`), &one)
	if one.Topic != "e4" || one.Partition != record.PartitionOf([]byte("u3"), 4) {
		t.Errorf("%+v", one)
	}
	s.must(201, s.event("", api.NDJSON, `{"event":"e","entity_id":"u3"}`), &out)
	if out.Topic != "events" || out.FirstOffset == nil {
		t.Errorf("one line: %+v", out)
	}
}

func TestEventsAreCheckedBeforeAnyIsStored(t *testing.T) {
	s := eventServer(t, func(c *setup) { c.http.RecordsMax = 10 })
	good := `{"event":"e","entity_id":"1"}` + "\n"
	for name, c := range map[string]struct {
		query, kind, body, field, detail string
		code                             api.Code
	}{
		"a bad line":          {kind: api.NDJSON, body: good + "{\"event\":\"e\"}\n", code: api.BadRequest, field: "entity_id", detail: "record 1: entity_id: missing"},
		"an unknown member":   {body: `{"event":"e","entity_id":"1","user":"x"}`, code: api.BadRequest, field: `"user"`, detail: "unknown member"},
		"not UTF-8":           {body: "{\"event\":\"e\",\"entity_id\":\"\xff\"}", code: api.BadRequest, field: "body", detail: "UTF-8"},
		"too deep":            {body: `{"event":"e","entity_id":"1","data":{"x":` + strings.Repeat("[", 99) + strings.Repeat("]", 99) + "}}", code: api.BadRequest, field: "body", detail: "64 deep"},
		"too large":           {body: `{"event":"e","entity_id":"1","data":{"x":"` + strings.Repeat("x", 256<<10) + `"}}`, code: api.TooLarge, field: "event", detail: "at most 262144"},
		"too many":            {kind: api.NDJSON, body: strings.Repeat(good, 11), code: api.TooLarge, field: "records", detail: "at most 10, given 11"},
		"many as one":         {body: good + good, code: api.BadRequest, field: "body", detail: "want the end of the event"},
		"an array":            {body: "[" + good + "]", code: api.BadRequest, field: "body", detail: "application/x-ndjson, one on a line"},
		"empty":               {body: "", code: api.BadRequest, field: "body"},
		"blank":               {body: " \n", code: api.BadRequest, field: "body", detail: "no records"},
		"blank lines":         {kind: api.NDJSON, body: "\n \n", code: api.BadRequest, field: "body", detail: "no records"},
		"a form":              {kind: "application/x-www-form-urlencoded", body: good, code: api.UnsupportedMediaType, detail: "application/x-ndjson, for many"},
		"a bad type":          {kind: "a b", body: good, code: api.UnsupportedMediaType},
		"a partition":         {query: "?partition=0", body: good, code: api.BadRequest, field: "partition", detail: "unknown parameter of POST /event"},
		"a bad topic":         {query: "?topic-name=a%20b", body: good, code: api.BadRequest, field: "topic-name"},
		"an engine topic":     {query: "?topic-name=triggers", body: good, code: api.BadRequest, field: "topic-name"},
		"the other one":       {query: "?topic-name=firings", body: good, code: api.BadRequest, field: "topic-name"},
		"an empty topic":      {query: "?topic-name=", body: good, code: api.BadRequest, field: "topic-name"},
		"a bad timeout":       {query: "?timeout=soon", body: good, code: api.BadRequest, field: "timeout"},
		"a name that is null": {body: `{"event":null,"entity_id":"1"}`, code: api.BadRequest, field: "event", detail: "want a string"},
	} {
		p := s.event(c.query, c.kind, c.body).problem(t)
		if p.Code != c.code || p.Field != c.field || !strings.Contains(p.Detail, c.detail) {
			t.Errorf("%s: %+v", name, p)
		}
	}
	p := s.do(call{method: "POST", path: "/event", body: strings.NewReader(good), header: map[string]string{"Content-Encoding": "gzip"}}).problem(t)
	check.Equalf(t, p.Code, api.UnsupportedMediaType, "%+v", p)
	if a := s.get("/topics"); string(a.body) != `{"topics":[]}` {
		t.Errorf("topics were created: %s", a)
	}
}

// TestEventsTopicKeepsItsSettings: an existing topic with other settings accepts events. Without
// auto-creation no topic is created.
func TestEventsTopicKeepsItsSettings(t *testing.T) {
	s := eventServer(t, func(c *setup) { c.http.EventsTopic = "mine" })
	newTopic(s, "mine", 1)
	var out api.EventStored
	s.must(201, s.event("", "", `{"event":"e","entity_id":"1"}`), &out)
	if got := s.settings("mine"); out.Topic != "mine" || len(got) != 0 {
		t.Errorf("%+v, %v", out, got)
	}
	strict := eventServer(t, func(c *setup) { c.broker.AutoCreate = false })
	if p := strict.event("", "", `{"event":"e","entity_id":"1"}`).problem(t); p.Code != api.UnknownTopic {
		t.Errorf("%+v", p)
	}
	check.ErrorContains(t, check.Err(New(s.b, Options{Auth: s.auth, EventsTopic: "a b"})), "events topic")
}

func TestDuplicateEvents(t *testing.T) {
	s := eventServer(t, func(c *setup) {
		c.http.OriginalEvent = func(_ context.Context, topic string, _ int32, entity, id string) (int64, bool, bool) {
			return 7, topic+entity+id == "eventsu1k", entity == "u1"
		}
	})
	for body, want := range map[string]string{
		`{"event":"e","entity_id":"u1","id":"k"}`: `"duplicate":true,"original_offset":7`,
		`{"event":"e","entity_id":"u1","id":"l"}`: `"duplicate":false`,
		`{"event":"e","entity_id":"u1"}`:          `"duplicate":false`,
		`{"event":"e","entity_id":"u2","id":"k"}`: `Z"`, // unknown
		`{"event":"e","entity_id":"u2"}`:          `"duplicate":false`,
	} {
		if a := s.event("", "", body); a.status != 201 || !strings.HasSuffix(string(a.body), want+"}") {
			t.Errorf("%s: %s", body, a)
		}
	}
	check.Equalf(t, len(s.records("events", 0)), 5, "records; duplicates must be appended too")
}

// TestEventsWithoutAStore: events that were sent to the store have an unknown outcome; others are
// rejected.
func TestEventsWithoutAStore(t *testing.T) {
	t.Parallel()
	var store *storetest.Faulty
	s := eventServer(t, func(c *setup) {
		store = storetest.NewFaulty(c.store, 1, storetest.Faults{})
		c.store = store
		c.broker.Timeouts.Put, c.broker.Core.Window = 200*time.Millisecond, 1
	})
	event := func(n int) string { return fmt.Sprintf(`{"event":"e%d","entity_id":"1"}`, n) }
	s.must(201, s.event("", "", event(0)), nil)
	store.SetFaults(storetest.Faults{Put: storetest.Rates{storetest.Hang: 1}})
	defer store.SetFaults(storetest.Faults{})
	for i, c := range []struct {
		query, kind string
		code        api.Code
	}{
		{"?timeout=300ms", "", api.OutcomeUnknown},
		{"?timeout=100ms", "", api.StoreUnavailable},
		{"?timeout=100ms", api.NDJSON, api.StoreUnavailable},
		{"?timeout=100ms&topic-name=other", "", api.StoreUnavailable},
	} {
		if p := s.event(c.query, c.kind, event(i+1)).problem(t); p.Code != c.code || p.Topic == "" {
			t.Errorf("%s: %+v", c.query, p)
		}
	}
	store.SetFaults(storetest.Faults{})
	sebtest.Eventually(t, "the store works again", func() bool { return s.get("/readyz").status == 200 })
	s.must(201, s.event("", "", event(9)), nil)
	for _, r := range s.records("events", 0) {
		if *r.Value == event(2) || *r.Value == event(3) {
			t.Errorf("%s was rejected", *r.Value)
		}
	}
}

// TestEventsTopicCreatedConcurrently: the events topic is created with several partitions during a
// request. The event still goes to its partition.
func TestEventsTopicCreatedConcurrently(t *testing.T) {
	s := eventServer(t)
	p := producing{a: s.api, by: &s.api.root, topic: "t", kind: api.JSON, partition: -1, partitions: 1}
	must.Get(s.b.CreateTopic(t.Context(), "t", broker.TopicSpec{Partitions: 3}))(t)
	if err := p.ensure(t.Context()); problemOf(err).Code != api.StoreUnavailable {
		t.Error(err)
	}
	p.kind = api.OctetStream // has no key
	check.NoError(t, p.ensure(t.Context()))
}
