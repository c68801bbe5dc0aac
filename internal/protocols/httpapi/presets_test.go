package httpapi

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/access"
)

// TestPresets: of all routes a viewer may read everything but the cluster, and change nothing; an
// operator may do everything but manage the cluster.
func TestPresets(t *testing.T) {
	s := everyRoute(t)
	keys := map[string]string{}
	for _, preset := range []string{"viewer", "operator"} {
		var token api.TokenCreated
		s.must(201, s.as(canary, "POST", "/tokens", fmt.Sprintf(`{"id":%q,"preset":%q}`, "a-"+preset, preset)), &token)
		keys[preset] = token.Secret
	}
	n := 0
	for _, rt := range routes {
		l := validRequests[rt.name()]
		cluster := slices.ContainsFunc(rt.needs, func(n need) bool { return n.resource == access.Cluster && n.naming != inList })
		changes := rt.method != http.MethodGet && slices.ContainsFunc(rt.needs, func(n need) bool { return n.operation != 0 })
		for preset, key := range keys {
			want := l.status
			if cluster || changes && preset == "viewer" {
				want = http.StatusForbidden
			}
			if n++; l.before != nil {
				l.before(s, n)
			}
			before := s.everything()
			a := s.matrix(rt.method, l.target(rt, n), l.kind, l.body, authorization("Bearer "+key))
			if a.status != want {
				t.Errorf("%s as %s: %s, want %d", rt.name(), preset, a, want)
			}
			if preset == "viewer" && s.everything() != before {
				t.Errorf("%s as %s changed something", rt.name(), preset)
			}
		}
	}
	for topic, want := range map[string]int{"events": 200, "firings": 200, "triggers": 403} { // triggers has secrets of webhooks
		for preset, key := range keys {
			if a := s.as(key, "GET", "/records?offset=0&topic-name="+topic, ""); a.status != want {
				t.Errorf("records of %s as %s: %s, want %d", topic, preset, a, want)
			}
		}
	}
	if p := s.as(canary, "POST", "/tokens", `{"preset":"admin"}`).problem(t); p.Detail != `preset: "admin": want viewer or operator` {
		t.Errorf("an unknown preset: %+v", p)
	}
	var list api.Tokens
	if s.must(200, s.as(keys["operator"], "GET", "/tokens", ""), &list); len(list.Tokens) != 1 || list.Tokens[0].ID != "a-operator" {
		t.Errorf("tokens that an operator sees: %+v", list)
	}
}
