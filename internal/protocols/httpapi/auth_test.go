package httpapi

import (
	"net/http"
	"strings"
	"testing"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/test/check"
)

// TestKeyIsCheckedFirst checks that a request without the key is refused before its parameters or
// body are read.
func TestKeyIsCheckedFirst(t *testing.T) {
	s := start(t)
	resp, err := s.raw("POST /records?topic-name=../evil HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\nExpect: 100-continue\r\n\r\n")
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("%v %v", resp, err)
	}
}

func TestUnknownRoutes(t *testing.T) {
	s := start(t)
	for _, path := range []string{"/", "/nothing", "/records/", "//records", "/Records", "/add", "/debug/pprof/", "/records/../topic"} {
		if p := s.do(call{method: "GET", path: path}).problem(t); p.Code != api.NotFound {
			t.Errorf("%s: %+v", path, p)
		}
	}
	check.Equalf(t, allowedAt("/topic"), "DELETE, GET, HEAD, PUT", "Allow")
}

func TestOptionsAreValidated(t *testing.T) {
	err := (&Options{Connections: -1, RecordsMax: -1, StepTimeout: -1}).Validate()
	for _, want := range []string{"authority", "connections", "records", "step timeout"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not mention %s", err, want)
		}
	}
	check.Error(t, check.Err(New(nil, Options{})), "options without a key were accepted")
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
		check.Containsf(t, string(a.body), want+"\n", "no %s in\n%s", want, a.body)
	}
}
