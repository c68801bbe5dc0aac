package httpapi

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/protocols/auth"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// frozen is a clock that only the test moves.
type frozen struct{ ahead atomic.Int64 }

func (f *frozen) now() time.Time       { return time.Unix(1_800_000_000, f.ahead.Load()) }
func (f *frozen) move(d time.Duration) { f.ahead.Add(int64(d)) }

// limitedServer is a server with a topic t, and the keys of two principals of which the first has
// a quota.
func limitedServer(t *testing.T, q string) (s *server, clock *frozen, limited, free string) {
	t.Helper()
	clock = &frozen{}
	s = start(t, func(c *setup) { c.now = clock.now })
	newTopic(s, "t", 1)
	all := permit(access.All, access.Topic, access.Any)
	limited, free = s.token("limited", time.Time{}, all), s.token("free", time.Time{}, all)
	s.must(200, s.as(canary, "PUT", "/quotas/limited", q), nil)
	return s, clock, limited, free
}

// over expects a refusal by a quota.
func (s *server) over(a *answered, retryAfter, detail string) {
	s.t.Helper()
	if a.status != 429 || a.header.Get("Retry-After") != retryAfter || !strings.Contains(string(a.body), `"quota_exceeded"`) || !strings.Contains(string(a.body), detail) {
		s.t.Errorf("%s, Retry-After %q, want 429 quota_exceeded, %s, %q", a, a.header.Get("Retry-After"), retryAfter, detail)
	}
}

const records = "/records?topic-name=t"

func TestQuotaOfBodies(t *testing.T) {
	s, clock, limited, free := limitedServer(t, `{"produce_bytes":1000}`)
	body := `[{"value":"` + strings.Repeat("x", 3586) + `"}]` // 3,600 bytes
	s.must(201, s.as(limited, "POST", records, body), nil)
	s.over(s.as(limited, "POST", records, body), "3", "quota of 1000 produced bytes per second exceeded: retry in 2.6s")
	s.must(201, s.as(free, "POST", records, body), nil)
	s.must(200, s.as(limited, "GET", records+"&offset=0", ""), nil)
	clock.move(2600 * time.Millisecond)
	s.must(201, s.as(limited, "POST", records, body), nil)
	clock.move(3600*time.Millisecond + time.Second)
	chunked := func() *answered { // without a size
		return s.do(call{method: "POST", path: records, body: io.MultiReader(strings.NewReader(body)), header: map[string]string{
			"Authorization": "Bearer " + limited, "Content-Type": api.JSON,
		}})
	}
	s.must(201, chunked(), nil)
	s.over(chunked(), "3", "retry in 2.6s")
	clock.move(3600 * time.Millisecond)
	atomic := func() *answered {
		line := `{"topic":"t","value":"` + strings.Repeat("x", 3576) + `"}`
		return s.matrix("POST", "/records?atomic=true", api.NDJSON, line, authorization("Bearer "+limited))
	}
	s.must(201, atomic(), nil)
	s.over(atomic(), "3", "retry in 2.6s")
	s.must(204, s.as(canary, "DELETE", "/quotas/limited", ""), nil)
	s.must(201, s.as(limited, "POST", records, body), nil) // the removal acts at its commit
}

// TestQuotaIsCheckedBeforeTheBody: the answer comes before the body, and without memory for it.
func TestQuotaIsCheckedBeforeTheBody(t *testing.T) {
	s, _, limited, _ := limitedServer(t, `{"produce_bytes":10}`)
	s.must(201, s.as(limited, "POST", records, `[{"value":"`+strings.Repeat("x", 500)+`"}]`), nil)
	resp := must.Get(s.raw("POST " + records + " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + limited + "\r\nContent-Type: application/json\r\n" +
		"Content-Length: 1000000\r\nExpect: 100-continue\r\n\r\n"))(t)
	_ = resp.Body.Close()
	if resp.StatusCode != 429 || resp.Header.Get("Retry-After") != "29" { // of a single request, see auth.RequestDebtMax
		t.Errorf("%d, Retry-After %s", resp.StatusCode, resp.Header.Get("Retry-After"))
	}
	check.Equalf(t, s.budget.Class(budget.Produce).Used(), 0, "bytes are reserved")
}

func TestQuotaOfAnswers(t *testing.T) {
	s, clock, limited, free := limitedServer(t, `{"fetch_bytes":1000}`)
	s.mustPost("topic-name=t", api.NDJSON, strings.Repeat(`{"value":"`+strings.Repeat("x", 990)+`"}`+"\n", 20))
	a := s.as(limited, "GET", records+"&offset=0&max-records=100", "")
	s.must(200, a, nil)
	if n := len(a.body); n < 5_000 || n > 15_000 { // of ten seconds, in JSON
		t.Errorf("an answer of %d bytes", n)
	}
	wait := time.Duration(len(a.body))*time.Millisecond - time.Second
	s.over(s.as(limited, "GET", records+"&offset=0", ""), fmt.Sprint(int((wait+time.Second-1)/time.Second)), "fetched bytes")
	s.must(201, s.as(limited, "POST", records, `[{"value":"x"}]`), nil)
	s.must(200, s.as(free, "GET", records+"&offset=0&max-records=100", ""), nil)
	clock.move(wait)
	s.must(200, s.as(limited, "GET", records+"&offset=0&max-records=1", ""), nil)
}

func TestQuotaOfRequests(t *testing.T) {
	s, clock, limited, free := limitedServer(t, `{"requests":2}`)
	for range 3 { // the burst, and the one that makes the debt
		s.must(403, s.as(limited, "GET", "/metrics", ""), nil)
	}
	s.over(s.as(limited, "GET", "/metrics", ""), "1", "quota of 2 requests per second")
	s.over(s.as(limited, "DELETE", "/topic?topic-name=t", ""), "1", "requests")
	s.must(200, s.as(free, "GET", "/topics", ""), nil)
	clock.move(500 * time.Millisecond)
	s.must(200, s.as(limited, "GET", "/topics", ""), nil)
	s.over(s.as(limited, "GET", "/topics", ""), "1", "requests")
}

// TestQuotaSlowsAStreamDown: an event stream over the quota sends comments until the debt is paid or
// the quota is changed.
func TestQuotaSlowsAStreamDown(t *testing.T) {
	t.Parallel()
	s, clock, limited, _ := limitedServer(t, `{"fetch_bytes":100}`)
	post := func(n int) {
		s.mustPost("topic-name=t", api.NDJSON, strings.Repeat(`{"value":"`+strings.Repeat("x", 900)+`"}`+"\n", n))
	}
	post(6)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream := s.eventsAs(ctx, limited, "topic-name=t&offset=0", "")
	seen := 0
	throttled := func() { // until heartbeats come in place of events
		for comments := 0; comments < 2; {
			select {
			case e, open := <-stream:
				switch {
				case !open:
					t.Fatal("the stream has ended")
				case e.comment != "":
					comments++
				default:
					seen, comments = seen+1, 0
				}
			case <-time.After(sebtest.Limit):
				t.Fatal("no heartbeat")
			}
		}
	}
	throttled()
	if seen == 0 || seen > 2 {
		t.Fatalf("%d events, want the first ones of 900 bytes", seen)
	}
	for seen < 6 {
		before := seen
		clock.move(auth.RequestDebtMax)
		// Heartbeats of the time before may still come.
		sebtest.Eventually(t, "an event comes after the debt was paid", func() bool {
			throttled()
			return seen > before
		})
	}
	post(1)
	clock.move(time.Hour)
	throttled()
	post(3)
	s.must(204, s.as(canary, "DELETE", "/quotas/limited", ""), nil)
	for throttled(); seen < 10; {
		throttled()
	}
}

func TestQuotasOverHTTP(t *testing.T) {
	s := start(t)
	for id, body := range map[string]string{"shop": `{"produce_bytes":1048576,"requests":100}`, "*": `{"principal":"*","fetch_bytes":5}`, "a%2Fb": `{"requests":1}`} {
		s.must(200, s.as(canary, "PUT", "/quotas/"+id, body), nil)
	}
	list := `{"quotas":[{"principal":"*","fetch_bytes":5},{"principal":"a/b","requests":1},{"principal":"shop","produce_bytes":1048576,"requests":100}]}`
	if a := s.as(canary, "GET", "/quotas", ""); string(a.body) != list {
		t.Errorf("quotas %s, want %s", a, list)
	}
	if a := s.as(canary, "PUT", "/quotas/shop", `{"fetch_bytes":7}`); string(a.body) != `{"principal":"shop","fetch_bytes":7}` {
		t.Errorf("a change: %s", a)
	}
	for _, c := range []struct {
		id, body string
		status   int
		want     string
	}{
		{"shop", `{}`, 400, "want at least one limit"},
		{"shop", `{"requests":-1}`, 400, "want 1 or more"},
		{"shop", `{"requests":1099511627777}`, 400, "the highest is 1099511627776"},
		{"shop", `{"principal":"bill","requests":1}`, 400, "than in the path"},
		{"seb", `{"requests":1}`, 400, "the root key has no quota"},
		{"a,b", `{"requests":1}`, 400, "want an ID"},
	} {
		if a := s.as(canary, "PUT", "/quotas/"+c.id, c.body); a.status != c.status || !strings.Contains(string(a.body), c.want) {
			t.Errorf("PUT %s %s: %s, want %d %q", c.id, c.body, a, c.status, c.want)
		}
	}
	for _, id := range []string{"shop", "*", "a%2Fb"} {
		s.must(204, s.as(canary, "DELETE", "/quotas/"+id, ""), nil)
		if a := s.as(canary, "DELETE", "/quotas/"+id, ""); a.problem(t).Code != api.UnknownQuota {
			t.Errorf("DELETE %s again: %s", id, a)
		}
	}
	old := oldServer(t)
	a := old.do(call{method: "PUT", path: "/quotas/shop", body: strings.NewReader(`{"requests":1}`), header: map[string]string{"Content-Type": api.JSON}})
	if p := a.problem(t); a.status != http.StatusConflict || p.Code != api.FormatLevel || !strings.Contains(p.Detail, "level 4 needed") {
		t.Errorf("a quota at level 1: %s", a)
	}
}
