package httpapi

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/test/must"
)

// riemannEvents posts events to the topic riemann, each "host service data".
func (s *server) riemannEvents(events ...string) {
	s.t.Helper()
	for _, text := range events {
		host, rest, _ := strings.Cut(text, " ")
		service, data, _ := strings.Cut(rest, " ")
		body, err := json.Marshal(map[string]any{"entity_id": host, "event": service, "data": json.RawMessage(data), "occurred_at": "2026-03-05T09:00:00Z"})
		must.NoError(s.t, err)
		s.must(201, s.send("POST", "/event?topic-name=riemann", string(body)), nil)
	}
}

func (s *server) riemannIndex(text string) *answered {
	s.t.Helper()
	return s.get("/riemann/index?query=" + url.QueryEscape(text))
}

func TestRiemannIndex(t *testing.T) {
	s := keyedServer(t, 1)
	var out api.RiemannIndex
	s.must(200, s.riemannIndex("true"), &out)
	if out.Topic != "riemann" || out.Events == nil || len(out.Events) != 0 {
		t.Errorf("without a topic: %+v", out)
	}
	s.riemannEvents(`a disk {"state":"ok","metric":0.5}`, `b disk {"state":"critical","metric":0.97,"tags":["prod"],"rack":"<r1>"}`, `a disk {"state":"ok","metric":0.6}`)
	for text, want := range map[string][]string{
		`true`: {
			`{"host":"a","service":"disk","time":"2026-03-05T09:00:00.000Z","state":"ok","metric":0.6}`,
			`{"host":"b","service":"disk","time":"2026-03-05T09:00:00.000Z","state":"critical","metric":0.97,"tags":["prod"],"rack":"\u003cr1\u003e"}`,
		},
		`host = "a" and service = "disk"`:         {`{"host":"a","service":"disk","time":"2026-03-05T09:00:00.000Z","state":"ok","metric":0.6}`},
		`metric > 0.9 and tagged "staging"`:       nil,
		`rack = "<r1>" and time = 1772701200`:     {`{"host":"b","service":"disk","time":"2026-03-05T09:00:00.000Z","state":"critical","metric":0.97,"tags":["prod"],"rack":"\u003cr1\u003e"}`},
		`host = "a" and service = "disk" and nil`: nil,
	} {
		s.must(200, s.riemannIndex(text), &out)
		var got []string
		for _, e := range out.Events {
			got = append(got, string(e))
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want\n%q", text, got, want)
		}
	}
}

func TestRiemannIndexRefusals(t *testing.T) {
	s := keyedServer(t, 1, func(c *setup) { c.limit = 16 << 20 })
	if p := s.get("/riemann/index").problem(t); p.Code != api.BadRequest || p.Field != "query" {
		t.Errorf("without a query: %+v", p)
	}
	if p := s.riemannIndex(`a = `).problem(t); p.Code != api.BadRequest || p.Field != "query" || !strings.Contains(p.Detail, "character 5: expected a value, found the end") {
		t.Errorf("a wrong query: %+v", p)
	}
	if p := s.get("/riemann/index?query=true&timeout=x").problem(t); p.Code != api.BadRequest || p.Field != "timeout" {
		t.Errorf("a wrong timeout: %+v", p)
	}
	for i := range 3 {
		s.riemannEvents(fmt.Sprintf(`h%d s {"description":%q}`, i, strings.Repeat("x", 100<<10)))
	}
	p := s.riemannIndex(`true`).problem(t)
	if p.Code != api.TooLarge || p.Field != "query" || p.Limit == nil || *p.Limit != 256<<10 || *p.Given < 300<<10 || !strings.HasPrefix(p.Detail, "3 events match (") || !strings.HasSuffix(p.Detail, "narrow the query") {
		t.Errorf("a large answer: %+v", p)
	}
	var out api.RiemannIndex
	if s.must(200, s.riemannIndex(`not host = "h1"`), &out); len(out.Events) != 2 {
		t.Errorf("%d events, want 2", len(out.Events))
	}
	if p := start(t).get("/riemann/index?query=true").problem(t); p.Code != api.RiemannIndexOff || p.Status != 404 {
		t.Errorf("without an index: %+v", p)
	}
}
