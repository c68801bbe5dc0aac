package httpapi

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/access"
)

// as sends a request with a key.
func (s *server) as(key, method, path, body string) *answered {
	s.t.Helper()
	a := s.matrix(method, path, api.JSON, body, authorization("Bearer "+key))
	checkSpec(s.t, method, path, a)
	return a
}

func TestTokensOverHTTP(t *testing.T) {
	s := start(t)
	newTopic(s, "orders.eu", 1)
	newTopic(s, "other", 1)
	created := s.as(canary, "POST", "/tokens", `{"id":"shop","read":["orders.*"],"write":["orders.eu"],"rules":[{"resource":"group","pattern":"g","operation":"read"}]}`)
	var shop api.TokenCreated
	s.must(201, created, &shop)
	if created.header.Get("Cache-Control") != "no-store" || len(shop.Rules) != 3 || shop.Issuer != access.RootID {
		t.Errorf("created: %v %s", created.header, created)
	}
	for path, want := range map[string]int{"/topic?topic-name=orders.eu": 200, "/topic?topic-name=other": 403, "/topic?topic-name=orders.no": 404, "/groups?group=g": 404, "/metrics": 403} {
		if a := s.as(shop.Secret, "GET", path, ""); a.status != want {
			t.Errorf("GET %s: %s, want %d", path, a, want)
		}
	}
	if a := s.as(shop.Secret, "GET", "/tokens/shop", ""); a.status != 200 || strings.Contains(string(a.body), shop.Secret) {
		t.Errorf("own token: %s", a)
	}
	var rotated api.TokenCreated
	s.must(201, s.as(shop.Secret, "POST", "/tokens/shop/rotate?overlap=1h", ""), &rotated)
	if len(rotated.Secrets) != 2 || rotated.Secrets[1].Expires.IsZero() || !rotated.Secrets[0].Expires.IsZero() || rotated.Secret == shop.Secret {
		t.Errorf("rotated: %+v", rotated)
	}
	for _, key := range []string{shop.Secret, rotated.Secret} {
		if a := s.as(key, "GET", "/topic?topic-name=orders.eu", ""); a.status != 200 {
			t.Errorf("during the overlap: %s", a)
		}
	}
	s.must(201, s.as(rotated.Secret, "POST", "/tokens/shop/rotate?overlap=0s", ""), &rotated)
	if a := s.as(shop.Secret, "GET", "/tokens/shop", ""); a.status != 401 {
		t.Errorf("the first secret after a rotation without overlap: %s", a)
	}
	s.must(200, s.as(rotated.Secret, "GET", "/tokens/shop", ""), nil)
	var token api.Token
	s.must(200, s.as(canary, "GET", "/tokens/shop", ""), &token)
	if token.Used.IsZero() || len(token.Secrets) != 1 {
		t.Errorf("used: %+v", token)
	}
	s.must(204, s.as(canary, "DELETE", "/tokens/shop", ""), nil)
	if a := s.as(rotated.Secret, "GET", "/tokens/shop", ""); a.status != 401 {
		t.Errorf("after the revocation: %s", a)
	}
	if p := s.as(canary, "GET", "/tokens/shop", "").problem(t); p.Code != api.UnknownToken {
		t.Errorf("after the revocation: %+v", p)
	}
}

func TestRulesOverHTTP(t *testing.T) {
	s := start(t)
	newTopic(s, "t", 1)
	key := s.token("ann", time.Time{})
	rules := `{"rules":[{"principal":"ann","resource":"topic","pattern":"*","operation":"read"},{"principal":"ann","resource":"topic","pattern":"secret.*","operation":"all","deny":true}]}`
	s.must(200, s.as(canary, "POST", "/acls", rules), nil)
	s.must(200, s.as(canary, "POST", "/acls", rules), nil) // nothing changes
	if a := s.as(key, "GET", "/topic?topic-name=t", ""); a.status != 200 {
		t.Errorf("allowed: %s", a)
	}
	if a := s.as(key, "GET", "/topic?topic-name=secret.x", ""); a.status != 403 {
		t.Errorf("denied: %s", a)
	}
	var list api.Rules
	for query, want := range map[string]int{"": 2, "?principal=ann": 2, "?principal=bob": 0, "?deny=true": 1, "?pattern=secret.*": 1, "?operation=read&resource=topic": 1, "?host=*": 2, "?host=192.0.2.1": 0} {
		if s.must(200, s.as(canary, "GET", "/acls"+query, ""), &list); len(list.Rules) != want {
			t.Errorf("GET /acls%s: %+v, want %d", query, list, want)
		}
	}
	s.must(200, s.as(canary, "DELETE", "/acls?principal=ann&operation=read", ""), &list)
	if len(list.Rules) != 1 || list.Rules[0].Pattern != "*" {
		t.Errorf("removed: %+v", list)
	}
	if a := s.as(key, "GET", "/topic?topic-name=t", ""); a.status != 403 {
		t.Errorf("after the removal: %s", a)
	}
}

// TestTokenFaults: each invalid request gets a clear answer, and nothing of it happens.
func TestTokenFaults(t *testing.T) {
	clock := &movable{}
	s := start(t, func(c *setup) { c.now = clock.now })
	admin := s.token("admin", clock.now().Add(time.Hour), permit(access.Alter, access.Cluster, access.ClusterName), permit(access.Read, access.Topic, "t"))
	later := clock.now().Add(2 * time.Hour).UTC().Format(time.RFC3339)
	rule := func(resource, pattern, operation string) string {
		return fmt.Sprintf(`{"principal":"x","resource":%q,"pattern":%q,"operation":%q}`, resource, pattern, operation)
	}
	before := s.everyPrincipal()
	for _, c := range []struct {
		key, path, body string
		code            api.Code
		detail          string
	}{
		{canary, "/tokens", `{"id":"A b"}`, api.BadRequest, "id: "},
		{canary, "/tokens", `{"id":"seb"}`, api.BadRequest, "id: "},
		{canary, "/tokens", `{"id":"admin"}`, api.TokenExists, "token exists"},
		{canary, "/tokens", `{"id":"x","expires_at":"2001-01-01T00:00:00Z"}`, api.BadRequest, "is not in the future"},
		{canary, "/tokens", `{"id":"x","expires_at":"tomorrow"}`, api.BadRequest, "expires_at: "},
		{canary, "/tokens", `{"id":"x","expires_at":null}`, api.BadRequest, "expires_at: must not be null"},
		{canary, "/tokens", `{"id":"x","read":["a/b"]}`, api.BadRequest, `topic name "a/b": want 1 to 249`},
		{canary, "/tokens", `{"id":"x","read":["a*b"]}`, api.BadRequest, "read: pattern"},
		{canary, "/tokens", `{"id":"x","read":["\\**"]}`, api.BadRequest, "would match every name"},
		{canary, "/tokens", `{"id":"x","reads":["a"]}`, api.BadRequest, "reads"},
		{canary, "/tokens", `{"id":"x","rules":[` + rule("topic", "a", "read") + `,{"principal":"y","resource":"topic","pattern":"a","operation":"read"}]}`, api.BadRequest, "principal: "},
		{admin, "/tokens", `{"id":"x","expires_at":"` + later + `"}`, api.BadRequest, "after the end of the issuing token"},
		{admin, "/tokens", `{"id":"x","read":["t","u"]}`, api.Forbidden, "a token can grant only rights that it has: allow x read on topic \"u\""},
		{admin, "/acls", `{"rules":[` + rule("topic", "t", "read") + `,` + rule("topic", "t", "write") + `]}`, api.Forbidden, "only rights that it has"},
		{canary, "/acls", `{"rules":[` + rule("topic", "t", "read") + `,` + rule("planet", "t", "read") + `]}`, api.BadRequest, `resource type "planet": want one of`},
		{canary, "/acls", `{"rules":[` + rule("topic", "t", "fly") + `]}`, api.BadRequest, `operation "fly": want one of`},
		{canary, "/acls", `{"rules":[` + rule("group", "t", "write") + `]}`, api.BadRequest, "write does not exist on a group"},
		{canary, "/acls", `{"rules":[` + rule("cluster", "mine", "alter") + `]}`, api.BadRequest, `the only cluster is "kafka-cluster"`},
		{canary, "/acls", `{"rules":[]}`, api.BadRequest, "the list is empty"},
		{canary, "/tokens/unknown/rotate", "", api.UnknownToken, "unknown token"},
		{canary, "/tokens/admin/rotate?overlap=x", "", api.BadRequest, "overlap: "},
	} {
		a := s.as(c.key, "POST", c.path, c.body)
		if p := a.problem(t); p.Code != c.code || !strings.Contains(p.Detail, c.detail) {
			t.Errorf("%s %s: %s, want %s with %q", c.path, c.body, a, c.code, c.detail)
		}
	}
	for path, code := range map[string]api.Code{"/acls": api.BadRequest, "/acls?resource=planet": api.BadRequest, "/acls?principal=": api.BadRequest, "/tokens/unknown": api.UnknownToken} {
		if p := s.as(canary, "DELETE", path, "").problem(t); p.Code != code {
			t.Errorf("DELETE %s: %+v, want %s", path, p, code)
		}
	}
	if after := s.everyPrincipal(); after != before {
		t.Errorf("something happened:\n%s\n%s", before, after)
	}
}

// everyPrincipal returns the IDs of principals and all rules.
func (s *server) everyPrincipal() string {
	text := ""
	for _, p := range s.b.Access().Principals() {
		text += fmt.Sprintln(p.ID, len(p.Secrets))
	}
	return text + fmt.Sprint(s.b.Access().Rules())
}
