package httpapi

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/triggers/rules"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// contentOf has the topic whose content a route returns. Other routes return none: the test finds the
// content in the answer of a route without a row.
var contentOf = map[string]string{
	"GET /records": "t", "GET /record": "t", "GET /key": "t", "GET /key/history": "t", "GET /riemann/index": "riemann",
	"GET /events/names": "events", "POST /triggers/dry-run": "events", "GET /triggers/{id}/entities/{entity}": "events",
	"GET /firings": "events", "GET /firings/{id}": "events", "POST /firings/{id}/resend": "events",
	"GET /queues/{queue}/messages": access.Any, "POST /queues/{queue}/lease": access.Any,
	"GET /queues/{queue}/schedules": access.Any, "GET /queues/{queue}/schedules/{schedule}": access.Any,
}

// allBut returns rules for all operations on everything, except for the reading of topics that are
// not named.
func allBut(read []string) (rules []access.Rule) {
	for _, name := range []string{access.Any, "events", "firings", "triggers", "riemann"} {
		for _, o := range []access.Operation{
			access.Write, access.Create, access.Delete, access.Alter, access.Describe, access.DescribeConfigs, access.AlterConfigs,
		} {
			rules = append(rules, permit(o, access.Topic, name))
		}
	}
	for _, name := range read {
		rules = append(rules, permit(access.Read, access.Topic, name))
	}
	return append(rules, permit(access.All, access.Group, access.Any), permit(access.All, access.Trigger, access.Any),
		permit(access.All, access.Cluster, access.ClusterName), permit(access.All, access.Metrics, access.MetricsName))
}

// TestContentNeedsTheRightToRead asks every route with all rights but those to read some topics. An
// answer has the content of a topic only if the client may read the topic.
func TestContentNeedsTheRightToRead(t *testing.T) {
	t.Parallel()
	s := everyRoute(t)
	must.NoError(t, s.api.o.Triggers.Report(t.Context(), must.Get(rule.ParseID(firedID))(t), rules.Attempt{
		State: rule.Dead, Outcome: json.RawMessage(`{"kind":"permanent","status":400,"reason":"answered 400 Bad Request","detail":"no ` + content + `","took_ns":1,"at":2}`),
	}))
	s.must(201, s.send("POST", "/event?topic-name=riemann", `{"event":"cpu","entity_id":"h","data":{"state":"`+content+`"}}`), nil)
	sebtest.Eventually(t, "the event is in the index", func() bool {
		return strings.Contains(string(s.get("/riemann/index?query=true").body), content)
	})
	key := s.token("client", time.Time{})
	for n, read := range [][]string{nil, {"t"}, {"events"}, {"riemann"}, {access.Any, "events", "riemann"}} {
		s.allow("client", allBut(read)...)
		for i := range routes {
			rt := &routes[i]
			of := contentOf[rt.name()]
			l, own := validRequests[rt.name()], 10_000*(n+1)+i
			if l.before != nil {
				l.before(s, own)
			}
			if rt.name() == "POST /triggers/dry-run" {
				l.body = `{"expr":"hit"}`
			}
			a := s.matrix(rt.method, l.target(*rt, own), l.kind, l.body, authorization("Bearer "+key))
			want := of != "" && (slices.Contains(read, of) || of == "t" && slices.Contains(read, access.Any))
			if got := strings.Contains(string(a.body), content); got != want {
				t.Errorf("%s by a client that may read %q: the answer has content: %v, want %v\n%s", rt.name(), read, got, want, a)
			}
		}
	}
	for name := range contentOf {
		if !slices.ContainsFunc(routes, func(rt route) bool { return rt.name() == name }) {
			t.Errorf("%s has a row in contentOf, and is no route", name)
		}
	}
}

// TestAnswerWithoutContent: what a client without the right to read events sees of a firing.
func TestAnswerWithoutContent(t *testing.T) {
	t.Parallel()
	s := everyRoute(t)
	must.NoError(t, s.api.o.Triggers.Report(t.Context(), must.Get(rule.ParseID(firedID))(t), rules.Attempt{
		State: rule.Dead, Outcome: json.RawMessage(`{"kind":"permanent","status":400,"reason":"r","detail":"d","took_ns":1,"at":2}`),
	}))
	key := s.token("client", time.Time{}, permit(access.All, access.Trigger, access.Any))
	var x api.Firing
	s.must(200, s.as(key, "GET", "/firings/"+firedID, ""), &x)
	if len(x.Witness) != 1 || x.Witness[0].Event != "hit" || x.Witness[0].Time.IsZero() || x.Witness[0].ID != "" || x.Witness[0].Data != nil {
		t.Errorf("the matched events are %+v, want one hit without ID and data", x.Witness)
	}
	if want := `{"at":2,"kind":"permanent","reason":"r","status":400,"took_ns":1}`; string(x.Outcome) != want {
		t.Errorf("the outcome is %s, want %s", x.Outcome, want)
	}
}
