package httpapi

import (
	"net/http"
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/api"
)

// TestWhoMayCallWhat derives its matrix from the table of routes: with each kind of key, every route and method answers
// 401 exactly where it must.
func TestWhoMayCallWhat(t *testing.T) {
	s := start(t)
	s.mustPost("topic-name=t", api.TextPlain, "a")
	for name, key := range map[string]struct {
		header string
		good   bool
	}{
		"bearer":        {"Bearer " + canary, true},
		"bare":          {canary, true},
		"none":          {"", false},
		"wrong":         {"Bearer wrong", false},
		"wrong bare":    {"wrong", false},
		"empty bearer":  {"Bearer ", false},
		"joined":        {"Bearer" + canary, false},
		"colon":         {"Bearer: " + canary, false},
		"twice":         {"Bearer Bearer " + canary, false},
		"basic":         {"Basic " + canary, false},
		"longer":        {"Bearer " + canary + "x", false},
		"shorter":       {"Bearer " + canary[:len(canary)-1], false},
		"other case":    {"Bearer " + strings.ToLower(canary), false},
		"digest's name": {"Bearer 0000000000000000000000000000000000000000000000000000000000000000", false},
	} {
		for _, rt := range routes {
			methods := []string{rt.method}
			if rt.method == http.MethodGet {
				methods = append(methods, http.MethodHead)
			}
			for _, method := range methods {
				c := call{method: method, path: rt.path + "?topic-name=nothing&offset=0", noKey: true}
				if key.header != "" {
					c.header = map[string]string{"Authorization": key.header}
				}
				a := s.do(c)
				if refused := a.status == http.StatusUnauthorized; refused != (rt.auth && !key.good) {
					t.Errorf("%s %s with %s: %d", method, rt.path, name, a.status)
				}
				if a.status == http.StatusUnauthorized && method != http.MethodHead {
					p := a.problem(t)
					if p.Code != api.Unauthorized || p.Detail != "invalid auth" || a.header.Get("WWW-Authenticate") == "" {
						t.Errorf("%s %s: %s", method, rt.path, a)
					}
				}
			}
		}
	}
	// The key is asked for before anything is looked at or read.
	resp, err := s.raw("POST /records?topic-name=../evil HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\nExpect: 100-continue\r\n\r\n")
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("%v %v", resp, err)
	}
	for _, name := range []string{"nothing"} {
		if a := s.get("/topic?topic-name=" + name); a.status != 404 {
			t.Errorf("somebody made a topic: %s", a)
		}
	}
}

func TestUnknownRoutesAndMethods(t *testing.T) {
	s := start(t)
	for _, path := range []string{"/", "/nothing", "/records/", "//records", "/Records", "/add", "/debug/pprof/", "/records/../topic"} {
		if p := s.do(call{method: "GET", path: path}).problem(t); p.Code != api.NotFound {
			t.Errorf("%s: %+v", path, p)
		}
	}
	for _, rt := range routes {
		a := s.do(call{method: "PATCH", path: rt.path})
		if p := a.problem(t); p.Code != api.MethodNotAllowed || !strings.Contains(a.header.Get("Allow"), rt.method) {
			t.Errorf("%s: %s %v", rt.path, a, a.header)
		}
	}
	if got := allowed("/topic"); got != "DELETE, GET, HEAD, PUT" {
		t.Errorf("Allow: %s", got)
	}
}

func TestOptionsAreValidated(t *testing.T) {
	err := (&Options{Connections: -1, RecordsMax: -1, StepTimeout: -1}).Validate()
	for _, want := range []string{"API key", "connections", "records", "step timeout"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: no word of %s", err, want)
		}
	}
	if _, err := New(nil, Options{}); err == nil {
		t.Error("a server without a key")
	}
}

func TestMetricsAreWritten(t *testing.T) {
	s := start(t)
	s.mustPost("topic-name=t", api.TextPlain, "a\nb")
	s.get("/records?topic-name=t&offset=0")
	s.get("/records?topic-name=no&offset=0")
	a := s.get("/metrics")
	for _, want := range []string{
		`seb_http_requests_total{route="POST /records",code="ok"} 1`, `seb_http_requests_total{route="GET /records",code="unknown_topic"} 1`,
		"seb_http_produced_records_total 2", "seb_http_read_records_total 2", "seb_http_connections 1",
		`seb_http_request_duration_seconds_count{route="POST /records"} 1`,
	} {
		if !strings.Contains(string(a.body), want+"\n") {
			t.Errorf("no %s in\n%s", want, a.body)
		}
	}
}
