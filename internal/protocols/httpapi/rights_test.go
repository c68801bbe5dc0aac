package httpapi

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/log/compact"
	"github.com/sebbroker/seb/internal/protocols/auth"
	"github.com/sebbroker/seb/internal/protocols/httpapi/httpconn"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// movable is a clock that a test moves.
type movable struct{ ahead atomic.Int64 }

func (m *movable) now() time.Time       { return time.Now().Add(time.Duration(m.ahead.Load())) }
func (m *movable) move(d time.Duration) { m.ahead.Add(int64(d)) }

// token creates a token with rules and returns it.
func (s *server) token(id string, expires time.Time, rules ...access.Rule) string {
	s.t.Helper()
	_, token := must.Get2(s.auth.CreateToken(s.t.Context(), s.auth.Root(), auth.TokenSpec{ID: id, Expires: expires, Rules: rules}))(s.t)
	return token
}

// allow replaces the rules of a principal.
func (s *server) allow(id string, rules ...access.Rule) {
	s.t.Helper()
	for i := range rules {
		rules[i].Principal = id
	}
	must.NoError(s.t, s.auth.ChangeRules(s.t.Context(), s.auth.Root(), rules, s.b.Access().RulesOf(id)))
}

func permit(o access.Operation, t access.ResourceType, name string) access.Rule {
	return access.Rule{Resource: t, Name: name, Operation: o, Host: access.Any}
}

// granting returns rules that allow a request, or with others rules of the same kind for other names.
func (l *validRequest) granting(t *testing.T, rt *route, path string, n int, others bool) (rules []access.Rule) {
	t.Helper()
	r, err := http.NewRequest(rt.method, "http://x"+path, nil)
	if err != nil || !rt.matches(r) {
		t.Fatalf("%s is not a request for %s: %v", path, rt.name(), err)
	}
	names := slices.Clone(l.asked)
	for i := range rt.needs {
		need := &rt.needs[i]
		if need.operation == 0 {
			continue
		}
		name, wanted := need.nameIn(r, httpconn.ParseParams(r.URL.RawQuery), "events")
		if need.naming == asked || need.naming == inList {
			if len(names) == 0 {
				t.Fatalf("%s: no name for need %d", rt.name(), i)
			}
			name, wanted = strings.ReplaceAll(names[0], "%d", fmt.Sprint(n)), true
			names = names[1:]
		}
		rule := permit(need.operation, need.resource, name)
		if rule.Prefix = others; others {
			rule.Name = "other."
		}
		unique := need.resource == access.Cluster || need.resource == access.Metrics
		if wanted && !(others && unique) {
			rules = append(rules, rule)
		}
	}
	return rules
}

// otherScope returns rules that allow everything on the resources of types that a route does not need.
func otherScope(rt *route) (rules []access.Rule) {
	for t, name := range map[access.ResourceType]string{
		access.Topic: access.Any, access.Group: access.Any, access.TransactionalID: access.Any, access.Trigger: access.Any, access.Cluster: access.ClusterName, access.Metrics: access.MetricsName,
	} {
		if !slices.ContainsFunc(rt.needs, func(n need) bool { return n.resource == t }) {
			rules = append(rules, permit(access.All, t, name))
		}
	}
	return rules
}

// deniedStatus is the answer to a client without the rights for a request.
func (l *validRequest) deniedStatus(rt *route, path string) int {
	if rt.needs[0].operation == 0 {
		return l.status
	}
	r, _ := http.NewRequest(rt.method, "http://x"+path, nil)
	for i := range rt.needs {
		n := &rt.needs[i]
		_, wanted := n.nameIn(r, httpconn.ParseParams(r.URL.RawQuery), "events")
		if wanted || n.naming == asked {
			return http.StatusForbidden
		}
	}
	return l.status // a list leaves out everything
}

// TestEveryRouteRequiresItsRights asks each route with every kind of token. Exactly one answer is
// expected of each; requests without the right change nothing.
func TestEveryRouteRequiresItsRights(t *testing.T) {
	t.Parallel()
	clock := &movable{}
	s := everyRoute(t, func(c *setup) { c.now = clock.now })
	expired := s.token("expired", clock.now().Add(time.Hour), permit(access.All, access.Topic, access.Any), permit(access.All, access.Cluster, access.ClusterName))
	revoked := s.token("revoked", time.Time{}, permit(access.All, access.Topic, access.Any), permit(access.All, access.Cluster, access.ClusterName))
	client := s.token("client", time.Time{})
	clock.move(2 * time.Hour)
	s.must(204, s.send("DELETE", "/tokens/revoked", ""), nil)
	cells := 1000 // the names of other tests have lower numbers
	for i := range routes {
		rt := &routes[i]
		l := validRequests[rt.name()]
		if rt.needs == nil {
			t.Errorf("%s declares no rights", rt.name())
		}
		if !rt.needsKey() {
			continue
		}
		ask := func(kind, key string, want int, detail string, rules func(path string, n int) []access.Rule) {
			t.Helper()
			cells++
			if l.before != nil {
				l.before(s, cells)
			}
			path := l.target(*rt, cells)
			if rules != nil {
				s.allow("client", rules(path, cells)...)
			}
			if want == 0 {
				want = l.deniedStatus(rt, path)
			}
			before := s.everything()
			a := s.matrix(rt.method, path, l.kind, l.body, authorization("Bearer "+key))
			checkSpec(t, rt.method, path, a)
			if a.status != want {
				t.Errorf("%s with %s: %s, want %d", rt.name(), kind, a, want)
			}
			if want >= 400 {
				if p := a.problem(t); !strings.Contains(p.Detail, detail) {
					t.Errorf("%s with %s: detail %q, want %q", rt.name(), kind, p.Detail, detail)
				}
				if after := s.everything(); after != before {
					t.Errorf("%s with %s changed something:\n%s\n%s", rt.name(), kind, before, after)
				}
			}
			for _, name := range l.asked {
				if rt.method == http.MethodGet && kind != "the right scope" && rt.path != "/tokens" && strings.Contains(string(a.body), fmt.Sprintf(":%q", name)) {
					t.Errorf("%s with %s shows %s: %s", rt.name(), kind, name, a)
				}
			}
		}
		if i%sebtest.Runs(1, 4) == 0 {
			ask("an expired token", expired, 401, "token has expired: expired ended at ", nil)
			ask("a revoked token", revoked, 401, "token is unknown or has been revoked", nil)
			ask("a truncated token", client[:len(client)-3], 401, "token is truncated or mistyped", nil)
		}
		ask("no rules", client, 0, "", func(string, int) []access.Rule { return nil })
		ask("a wrong scope", client, 0, "", func(string, int) []access.Rule { return otherScope(rt) })
		ask("a wrong prefix", client, l.denied, "", func(path string, n int) []access.Rule { return l.granting(t, rt, path, n, true) })
		ask("the right scope", client, l.status, "", func(path string, n int) []access.Rule { return l.granting(t, rt, path, n, false) })
	}
	t.Logf("%d cells", cells-1000)
}

// TestForbiddenDoesNotTellWhatExists compares the answers about names that exist and that do not.
func TestForbiddenDoesNotTellWhatExists(t *testing.T) {
	s := everyRoute(t)
	key := s.token("stranger", time.Time{}, access.Rule{Resource: access.Trigger, Name: "mine.", Prefix: true, Operation: access.All, Host: access.Any})
	for _, pair := range []struct{ method, known, unknown, body string }{
		{"GET", "/records?offset=0&topic-name=t", "/records?offset=0&topic-name=u", ""},
		{"POST", "/records?topic-name=t", "/records?topic-name=u", "v"},
		{"GET", "/topic?topic-name=t", "/topic?topic-name=u", ""},
		{"PUT", "/topic?topic-name=t", "/topic?topic-name=u", `{"partitions":3}`},
		{"DELETE", "/topic?topic-name=t", "/topic?topic-name=u", ""},
		{"GET", "/offsets?group=g0", "/offsets?group=u0", ""},
		{"GET", "/groups?group=g0", "/groups?group=u0", ""},
		{"GET", "/transactions?transactional-id=payments0", "/transactions?transactional-id=payoffs0", ""},
		{"POST", "/transactions/abort?transactional-id=payments0", "/transactions/abort?transactional-id=payoffs0", ""},
		{"GET", "/triggers/fires", "/triggers/fireu", ""},
		{"GET", "/firings/" + firedID, "/firings/" + strings.Repeat("1", 32), ""},
		{"POST", "/firings/" + firedID + "/resend", "/firings/" + strings.Repeat("1", 32) + "/resend", ""},
		{"GET", "/tokens/someone", "/tokens/someonf", ""},
	} {
		var texts [2]string
		for i, path := range []string{pair.known, pair.unknown} {
			a := s.matrix(pair.method, path, api.OctetStream, pair.body, authorization(key))
			if a.status != 403 && !strings.HasPrefix(path, "/firings/") {
				t.Errorf("%s %s: %s", pair.method, path, a)
			}
			texts[i] = fmt.Sprint(a, a.header["Seb-Next-Offset"])
		}
		known := strings.NewReplacer(firedID, "ID", `topic \"t\"`, `topic \"u\"`, `"topic":"t"`, `"topic":"u"`, `\"g0\"`, `\"u0\"`, `payments0`, `payoffs0`, `fires`, `fireu`, "someone", "someonf").Replace(texts[0])
		if unknown := strings.ReplaceAll(texts[1], strings.Repeat("1", 32), "ID"); known != unknown {
			t.Errorf("%s %s and %s differ:\n%s\n%s", pair.method, pair.known, pair.unknown, texts[0], texts[1])
		}
	}
}

// TestMetricsHideNames: a client with the scope metrics sees the series of what it may describe.
func TestMetricsHideNames(t *testing.T) {
	s := everyRoute(t, func(c *setup) {
		c.http.WriteMetrics = func(w io.Writer) {
			fmt.Fprint(w, "# HELP a b\na{group=\"g\",topic=\"mine.a\"} 1\na{group=\"h\",topic=\"mine.a\"} 1\na{group=\"g\",topic=\"t\"} 1\n"+
				"b{queue=\"jobs\",state=\"ready\"} 2\nb{queue=\"mine.q\"} 3\nb{route=\"x\",trigger=\"fires\"} 2\nb{le=\"+Inf\",topic=\"mine.\\\"b\"} 2\nc{broken\nplain 3\n")
		}
	})
	key := s.token("scraper", time.Time{}, permit(access.Describe, access.Metrics, access.MetricsName), permit(access.Read, access.Group, "g"),
		access.Rule{Resource: access.Topic, Name: "mine.", Prefix: true, Operation: access.Read, Host: access.Any})
	const want = "# HELP a b\na{group=\"g\",topic=\"mine.a\"} 1\nb{queue=\"mine.q\"} 3\nb{le=\"+Inf\",topic=\"mine.\\\"b\"} 2\nplain 3\n"
	if a := s.matrix("GET", "/metrics", "", "", authorization(key)); string(a.body) != want {
		t.Errorf("metrics:\n%s\nwant:\n%s", a.body, want)
	}
	newQueue(s, "mails", "")
	s.must(201, s.sendOne("mails.dead", "", "letter"), nil)
	var status api.Status
	s.must(200, s.matrix("GET", "/status", "", "", authorization(key)), &status)
	if status.Lag.Group != nil || status.Letters != nil {
		t.Errorf("status shows the lag of a hidden group or a hidden queue: %+v, %+v", status.Lag.Group, status.Letters)
	}
	s.must(200, s.get("/status"), &status)
	if status.Letters == nil || *status.Letters != (api.Letters{Queue: "mails.dead", Messages: 1}) {
		t.Errorf("status shows the letters %+v", status.Letters)
	}
}

// TestStatusShowsCompaction: GET /status shows the running compaction, and its topic to a client that may
// describe that.
func TestStatusShowsCompaction(t *testing.T) {
	var pass compact.Pass
	s := everyRoute(t, func(c *setup) { c.http.Compaction = func() compact.Pass { return pass } })
	ask := func(authority string) *api.CompactionStatus {
		t.Helper()
		var status api.Status
		s.must(200, s.matrix("GET", "/status", "", "", authorization(authority)), &status)
		return status.Compaction
	}
	if c := ask("Bearer " + canary); c != nil {
		t.Errorf("without a pass: %+v", c)
	}
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	pass = compact.Pass{
		Phase: compact.Dropping, Started: began, Partitions: 3, Topic: s.b.View().TopicByName("t").ID, Partition: 1, Read: 5, Bytes: 8,
	}
	want := api.CompactionStatus{Phase: "dropping", Started: began, Partitions: 3, Topic: "t", Partition: 1, ReadBytes: 5, Bytes: 8}
	check.Equalf(t, *ask("Bearer " + canary), want, "to the root key")
	want.Topic = ""
	check.Equalf(t, *ask(s.token("scraper", time.Time{}, permit(access.Describe, access.Metrics, access.MetricsName))), want, "to a client that may not describe the topic")
}
