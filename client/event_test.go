package client_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

func TestEventsAreRecords(t *testing.T) {
	c := realBroker(t)
	first, err := c.ProduceEvent(t.Context(), client.Event{Name: "created", EntityID: "ü<1>", Data: json.RawMessage(`{ "a": 1.0 }`)}, client.EventOptions{})
	if err != nil || first.Topic != "events" || first.Offset != 0 || first.Duplicate || first.Original != -1 || first.Time.IsZero() {
		t.Fatalf("%+v, %v", first, err)
	}
	at := time.Date(2026, 3, 1, 12, 0, 0, 5e6, time.FixedZone("", 3600))
	produced, err := c.ProduceEvents(t.Context(), []client.Event{{Name: "a", EntityID: "1", ID: "i", OccurredAt: at}, {Name: "b", EntityID: "2"}}, client.EventOptions{})
	if err != nil || len(produced) != 1 || produced[0] != (client.ProduceResult{Partition: 0, First: 1, Count: 2}) {
		t.Fatalf("%+v, %v", produced, err)
	}
	var got []string
	for r, err := range c.Records(t.Context(), "events", client.ReadOptions{}) {
		must.NoError(t, err)
		if r.Offset == 0 && r.Timestamp != first.Time.UnixMilli() {
			t.Errorf("record timestamp %d, event time %s", r.Timestamp, first.Time)
		}
		got = append(got, fmt.Sprintf("%s %s", r.Key, r.Value))
	}
	want := []string{
		`ü<1> {"event":"created","entity_id":"ü<1>","data":{"a":1.0}}`,
		`1 {"event":"a","entity_id":"1","id":"i","occurred_at":"2026-03-01T12:00:00.005+01:00"}`,
		`2 {"event":"b","entity_id":"2"}`,
	}
	check.Equal(t, strings.Join(got, "\n"), strings.Join(want, "\n"))
	if other, err := c.ProduceEvent(t.Context(), client.Event{Name: "a", EntityID: "1"}, client.EventOptions{Topic: "mine"}); err != nil || other.Topic != "mine" {
		t.Errorf("%+v, %v", other, err)
	}
}

func TestBadEventsAreRejected(t *testing.T) {
	c := realBroker(t)
	for name, e := range map[string]client.Event{
		"no name":       {EntityID: "1"},
		"no entity":     {Name: "a"},
		"long":          {Name: strings.Repeat("a", 257), EntityID: "1"},
		"not an object": {Name: "a", EntityID: "1", Data: json.RawMessage(`[]`)},
		"invalid JSON":  {Name: "a", EntityID: "1", Data: json.RawMessage(`{`)},
		"not UTF-8":     {Name: "a", EntityID: "\xff"},
	} {
		check.ErrorIsf(t, check.Err(c.ProduceEvent(t.Context(), e, client.EventOptions{})), client.ErrRejected, "%s", name)
		if _, err := c.ProduceEvents(t.Context(), []client.Event{{Name: "good", EntityID: "1"}, e}, client.EventOptions{}); !errors.Is(err, client.ErrRejected) {
			t.Errorf("%s, of two: %v", name, err)
		}
	}
	check.ErrorIs(t, check.Err(c.ProduceEvents(t.Context(), nil, client.EventOptions{})), client.ErrRejected)
	if topics, err := c.Topics(t.Context()); err != nil || len(topics) != 0 {
		t.Errorf("%v, %v", topics, err)
	}
}

// TestEventsWithAnIDAreRepeated: only events with an ID are sent again after a lost answer.
func TestEventsWithAnIDAreRepeated(t *testing.T) {
	var requests atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1) == 1 {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"topic":"events","partition":2,"offset":9,"time":"2026-03-01T12:00:00.25Z","duplicate":true,"original_offset":7}`)
	}))
	defer srv.Close()
	c := must.Get(client.New(srv.URL, client.Options{RetryTime: time.Minute}))(t)
	defer c.Close()
	if _, err := c.ProduceEvent(t.Context(), client.Event{Name: "a", EntityID: "1"}, client.EventOptions{}); !errors.Is(err, client.ErrOutcomeUnknown) || requests.Load() != 1 {
		t.Errorf("%v after %d requests", err, requests.Load())
	}
	requests.Store(0)
	got, err := c.ProduceEvent(t.Context(), client.Event{Name: "a", EntityID: "1", ID: "i"}, client.EventOptions{})
	want := client.StoredEvent{Topic: "events", Partition: 2, Offset: 9, Time: time.Date(2026, 3, 1, 12, 0, 0, 250e6, time.UTC), Duplicate: true, Original: 7}
	if err != nil || got != want || requests.Load() != 2 {
		t.Errorf("%+v, %v after %d requests", got, err, requests.Load())
	}
}
