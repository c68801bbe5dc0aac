package httpapi

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// validRequest is a request that succeeds with the key.
type validRequest struct {
	at string // replaces a path with variables; %d as in path
	// path follows that of the route. %d is the number of the request, so that each has its own
	// names.
	path   string
	kind   string
	body   string
	before func(s *server, n int)
	status int
	open   bool // needs no key
	// asked has the names of needs that the handler asks for, in the order of the needs; %d as in
	// path.
	asked []string
	// denied is the status for a client whose rules match other names; 0: 403, or 200 for a list.
	denied int
}

// validRequests has a request for each route. TestEveryRouteRequiresTheKey fails if one is missing.
var validRequests = map[string]validRequest{
	"POST /records":    {path: "?topic-name=t", kind: api.TextPlain, body: "v", status: 201, asked: []string{"t"}},
	"GET /records":     {path: "?topic-name=t&offset=0", status: 200},
	"GET /record":      {path: "?topic-name=t&offset=0", status: 200},
	"GET /key":         {path: "?topic-name=t&key=k&min-offset=0&partition=0", status: 200},
	"GET /key/history": {path: "?topic-name=t&key=k&min-offset=0&partition=0", status: 200},
	"GET /keys":        {path: "?topic-name=t", status: 200},
	"GET /topic":       {path: "?topic-name=t", status: 200},
	"PUT /topic":       {path: "?topic-name=new%d", body: "{}", status: 201, asked: []string{"new%d", "new%d"}},
	"DELETE /topic": {path: "?topic-name=old%d", status: 204, before: func(s *server, n int) {
		newTopic(s, fmt.Sprintf("old%d", n), 1)
	}},
	"POST /topic/trim":   {path: "?topic-name=t&partition=0&offset=0", status: 200},
	"GET /topic/offsets": {path: "?topic-name=t&time=earliest", status: 200},
	"GET /topics":        {status: 200, asked: []string{"t"}},
	"GET /stats":         {status: 200},
	"GET /latency":       {status: 200},
	"GET /cost":          {status: 200},

	"GET /queues":               {status: 200, asked: []string{"jobs"}},
	"GET /queues/{queue}":       {at: "/queues/jobs", status: 200},
	"GET /queues/{queue}/stats": {at: "/queues/jobs/stats", status: 200},
	"PUT /queues/{queue}":       {at: "/queues/new%d", body: `{"settings":{"dead-letter":"none"}}`, status: 201, asked: []string{"new%d", "new%d"}},
	"DELETE /queues/{queue}":    {at: "/queues/old%d", status: 204, before: ownQueue},

	"POST /queues/{queue}/pause":    {at: "/queues/old%d/pause", status: 200, before: ownQueue},
	"POST /queues/{queue}/resume":   {at: "/queues/old%d/resume", status: 200, before: ownQueue},
	"GET /queues/{queue}/messages":  {at: "/queues/jobs/messages", status: 200},
	"POST /queues/{queue}/messages": {at: "/queues/old%d/messages", kind: api.OctetStream, body: "v", status: 201, before: ownQueue},
	"POST /queues/{queue}/lease":    {at: "/queues/old%d/lease", status: 200, before: ownMessage},
	"POST /queues/{queue}/settle":   {at: "/queues/jobs/settle", body: `{"messages":[{"receipt":"x","do":"done"}]}`, status: 200},
	"POST /queues/{queue}/purge":    {at: "/queues/old%d/purge", status: 200, before: ownMessage},
	"POST /queues/{queue}/redrive":  {at: "/queues/old%d/redrive", body: `{"to":"jobs"}`, status: 200, before: ownMessage, asked: []string{"jobs"}},

	"GET /queues/{queue}/schedules":               {at: "/queues/jobs/schedules", status: 200},
	"GET /queues/{queue}/schedules/{schedule}":    {at: "/queues/jobs/schedules/s", status: 200},
	"PUT /queues/{queue}/schedules/{schedule}":    {at: "/queues/old%d/schedules/s", body: `{"cron":"@daily"}`, status: 200, before: ownQueue},
	"DELETE /queues/{queue}/schedules/{schedule}": {at: "/queues/old%d/schedules/s", status: 204, before: ownSchedule},

	"DELETE /queues/{queue}/messages/{message}": {at: "/queues/old%d/messages/0-0", status: 204, before: ownMessage},

	"POST /console/login":  {status: 200},
	"GET /console/session": {status: 200},
	"POST /console/logout": {status: 204},

	"GET /settings":            {status: 200},
	"GET /offsets":             {path: "?group=g", status: 200, asked: []string{"t"}},
	"PUT /offsets":             {path: "?group=g&topic-name=t&partition=0", body: `{"offset":1}`, status: 200, asked: []string{"t"}},
	"DELETE /offsets":          {path: "?group=g%d&topic-name=t&partition=0", status: 204, before: ownGroup},
	"GET /groups":              {status: 200, asked: []string{"g0"}},
	"DELETE /groups":           {path: "?group=g%d", status: 204, before: ownGroup},
	"GET /transactions":        {status: 200, asked: []string{"payments0"}},
	"POST /transactions/abort": {path: "?transactional-id=payments%d", status: 200, before: ownTransaction},
	"GET /status":              {status: 200},
	"GET /upgrade":             {status: 200},

	"GET /cluster":            {status: 200},
	"POST /cluster/hand-over": {status: 200},
	"DELETE /cluster/{run}":   {at: "/cluster/" + goneRun, status: 204},

	"GET /secrets": {status: 200},

	"POST /secrets/rewrap": {status: 200},
	"POST /upgrade":        {status: 200},
	"GET /time":            {status: 200},
	"POST /time/reset":     {status: 200},
	"GET /metrics":         {status: 200},
	"GET /healthz":         {status: 200, open: true},
	"GET /readyz":          {status: 200, open: true},

	"GET /peer/link": {status: 404, open: true}, // of a broker without links

	"GET /openapi.json":  {status: 200, open: true},
	"POST /evaluate":     {body: `{"expr":"A","at":"2026-01-01T00:00:00Z"}`, status: 200},
	"POST /drip/parse":   {body: `{"expr":"A"}`, status: 200},
	"POST /drip/stories": {body: `{"expr":"A"}`, status: 200},
	"POST /event":        {body: `{"event":"e","entity_id":"1"}`, status: 201},

	"GET /events/names":  {status: 200},
	"GET /riemann/index": {path: "?query=true", status: 200, asked: []string{"riemann"}},

	"GET /triggers":                        {status: 200, asked: []string{"fires"}},
	"POST /triggers/check":                 {path: "?id=any", body: `{"expr":"a THEN b"}`, status: 200},
	"POST /triggers/dry-run":               {body: `{"expr":"a THEN b"}`, status: 200, asked: []string{"any", "events"}},
	"GET /triggers/{id}/entities/{entity}": {at: "/triggers/fires/entities/u0", status: 200},
	"GET /triggers/{id}":                   {at: "/triggers/fires", status: 200},
	"PUT /triggers/{id}":                   {at: "/triggers/new%d", body: `{"expr":"a THEN b"}`, status: 201, asked: []string{"events"}},
	"DELETE /triggers/{id}":                {at: "/triggers/old%d", status: 204, before: ownTrigger},
	"POST /triggers/{id}/pause":            {at: "/triggers/old%d/pause", status: 200, before: ownTrigger},
	"POST /triggers/{id}/resume":           {at: "/triggers/old%d/resume", status: 200, before: ownTrigger},
	"GET /firings":                         {path: "?trigger=fires", status: 200, asked: []string{"fires"}},
	"GET /firings/{id}":                    {at: "/firings/" + firedID, status: 200, asked: []string{"fires"}, denied: 404},
	"POST /firings/{id}/resend":            {at: "/firings/" + firedID + "/resend", status: 200, asked: []string{"fires"}, denied: 404},
	"GET /tokens":                          {status: 200, asked: []string{access.ClusterName}},
	"POST /tokens":                         {body: "{}", status: 201},
	"GET /tokens/{id}":                     {at: "/tokens/someone", status: 200, asked: []string{access.ClusterName}},
	"DELETE /tokens/{id}":                  {at: "/tokens/old%d", status: 204, before: ownToken},
	"POST /tokens/{id}/rotate":             {at: "/tokens/old%d/rotate", status: 201, before: ownToken, asked: []string{access.ClusterName}},
	"POST /tokens/{id}/aws":                {at: "/tokens/someone/aws", status: 200, asked: []string{access.ClusterName}},
	"GET /acls":                            {status: 200},
	"POST /acls":                           {body: `{"rules":[{"principal":"someone","resource":"group","pattern":"g","operation":"read","deny":true}]}`, status: 200},
	"DELETE /acls":                         {path: "?principal=unknown", status: 200},
	"GET /quotas":                          {status: 200},
	"PUT /quotas/{id}":                     {at: "/quotas/limited%d", body: `{"requests":1}`, status: 200},
	"DELETE /quotas/{id}": {at: "/quotas/limited%d", status: 204, before: func(s *server, n int) {
		s.must(200, s.send("PUT", fmt.Sprintf("/quotas/limited%d", n), `{"requests":1}`), nil)
	}},
	"GET /entities/{entity}":    {at: "/entities/u0", status: 200, asked: []string{"fires"}},
	"DELETE /entities/{entity}": {at: "/entities/unknown%d", status: 204},
}

// firedID is the ID of a firing on the server of everyRoute.
var firedID = rule.MakeID("fires", 1, "u0", rule.EventCause(0, 0)).String()

// content is in the records and events on the server of everyRoute, and nowhere else.
const content = "the-content-of-a-client"

// everyRoute is a server on which each route has something to return.
func everyRoute(t *testing.T, change ...func(*setup)) *server {
	t.Helper()
	s := keyedServer(t, 1, change...)
	s.mustPost("topic-name=t", api.NDJSON, `{"key":"k","value":"`+content+`"}`)
	ownGroup(s, 0)
	ownTransaction(s, 0)
	s.must(200, s.send("PUT", "/offsets?group=g&topic-name=t&partition=0", `{"offset":1}`), nil)
	s.must(201, s.send("PUT", "/queues/jobs", `{"settings":{"dead-letter":"none"}}`), nil)
	s.must(200, s.sendMessages("jobs", `{"value":"`+content+`"}`), nil)
	s.must(200, s.send("PUT", "/queues/jobs/schedules/s", `{"cron":"@yearly","value":"`+content+`"}`), nil)
	s.must(201, s.send("POST", "/tokens", `{"id":"someone"}`), nil)
	s.must(201, s.send("PUT", "/triggers/fires", `{"expr":"hit"}`), nil)
	s.must(201, s.send("POST", "/event", `{"event":"hit","entity_id":"u0","id":"`+content+`","data":{"`+content+`":1}}`), nil)
	sebtest.Eventually(t, "the firing is recorded", func() bool {
		return strings.Contains(string(s.get("/firings/"+firedID).body), "recorded_at")
	})
	return s
}

func ownToken(s *server, n int) {
	s.must(201, s.send("POST", "/tokens", fmt.Sprintf(`{"id":"old%d"}`, n)), nil)
}

func ownTrigger(s *server, n int) {
	s.send("PUT", fmt.Sprintf("/triggers/old%d", n), `{"expr":"a THEN b"}`)
}

// target returns the path of a route with values for its variables.
func (l *validRequest) target(rt route, n int) string {
	path := rt.path
	if l.at != "" {
		path = l.at
	}
	return strings.ReplaceAll(path+l.path, "%d", fmt.Sprint(n))
}

// requestAt returns a request for the table of routes.
func requestAt(method, path string) *http.Request {
	return &http.Request{Method: method, URL: &url.URL{Path: path}}
}

func allowedAt(path string) string { return allowed(requestAt("", path)) }

func ownQueue(s *server, n int) {
	s.must(201, s.send("PUT", fmt.Sprintf("/queues/old%d", n), `{"settings":{"dead-letter":"none"}}`), nil)
}

// sendMessages sends messages in JSON.
func (s *server) sendMessages(queue, body string) *answered {
	s.t.Helper()
	return s.do(call{method: "POST", path: "/queues/" + queue + "/messages", body: strings.NewReader(body), header: map[string]string{"Content-Type": api.JSON, "Accept": "*/*"}})
}

// ownSchedule makes a queue with a schedule.
func ownSchedule(s *server, n int) {
	ownQueue(s, n)
	s.must(200, s.send("PUT", fmt.Sprintf("/queues/old%d/schedules/s", n), `{"cron":"@daily"}`), nil)
}

// ownMessage makes a queue with a message.
func ownMessage(s *server, n int) {
	ownQueue(s, n)
	s.must(200, s.sendMessages(fmt.Sprintf("old%d", n), `{"value":"`+content+`"}`), nil)
}

func ownGroup(s *server, n int) {
	s.must(200, s.send("PUT", fmt.Sprintf("/offsets?group=g%d&topic-name=t&partition=0", n), `{"offset":1}`), nil)
}

// credentials are headers with or without a valid key. good: the key is valid and in the right
// header.
var credentials = []struct {
	name  string
	give  func(r *http.Request)
	good  bool
	query string
}{
	{name: "bearer", give: authorization("Bearer " + canary), good: true},
	{name: "lower-case scheme", give: authorization("bearer " + canary), good: true},
	{name: "two spaces", give: authorization("BEARER  " + canary), good: true},
	{name: "bare", give: authorization(canary), good: true},
	{name: "no key", give: func(*http.Request) {}},
	{name: "empty", give: authorization("")},
	{name: "empty bearer", give: authorization("Bearer ")},
	{name: "wrong", give: authorization("Bearer wrong")},
	{name: "wrong bare", give: authorization("wrong")},
	{name: "of the same length", give: authorization("Bearer " + strings.Repeat("x", len(canary)))},
	{name: "longer", give: authorization("Bearer " + canary + "x")},
	{name: "shorter", give: authorization("Bearer " + canary[:len(canary)-1])},
	{name: "twice in one", give: authorization("Bearer " + canary + ", Bearer " + canary)},
	{name: "quoted", give: authorization(`Bearer "` + canary + `"`)},
	{name: "another scheme", give: authorization("Token " + canary)},
	{name: "tab", give: authorization("Bearer\t" + canary)},
	{name: "scheme twice", give: authorization("Bearer Bearer " + canary)},
	{name: "no space", give: authorization("Bearer" + canary)},
	{name: "other case", give: authorization("Bearer " + strings.ToLower(canary))},
	{name: "user", give: func(r *http.Request) { r.SetBasicAuth(canary, "") }},
	{name: "password", give: func(r *http.Request) { r.SetBasicAuth("seb", canary) }},
	{name: "two headers, the first is wrong", give: authorization("Bearer wrong", "Bearer "+canary)},
	{name: "two headers, the second is wrong", give: authorization("Bearer "+canary, "Bearer wrong")},
	{name: "another header", give: header("X-Api-Key", canary)},
	{name: "proxy's header", give: header("Proxy-Authorization", "Bearer "+canary)},
	{name: "cookie", give: header("Cookie", "api-key="+canary+"; Authorization="+canary)},
	{name: "query", give: func(*http.Request) {}, query: "api-key=" + canary + "&Authorization=" + canary + "&api_key=" + canary},
	{name: "user of the URL", give: header("Host", canary+"@x")},
}

func authorization(values ...string) func(*http.Request) {
	return func(r *http.Request) { r.Header["Authorization"] = values }
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

// matrix is one request with one kind of credentials.
func (s *server) matrix(method, path, kind, body string, give func(*http.Request)) *answered {
	s.t.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req := must.Get(http.NewRequest(method, "http://"+s.addr+path, r))(s.t)
	req.Header.Set("Accept", "*/*")
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	give(req)
	resp, err := s.client.Do(req)
	must.NoErrorf(s.t, err, "%s %s", method, path)
	defer resp.Body.Close()
	answer := must.Get(io.ReadAll(resp.Body))(s.t)
	return &answered{status: resp.StatusCode, header: resp.Header, body: answer}
}

// TestEveryRouteRequiresTheKey checks the status of every route and method with every kind of
// credentials. Requests without the key change nothing.
func TestEveryRouteRequiresTheKey(t *testing.T) {
	t.Parallel()
	s := everyRoute(t)
	for n, rt := range routes {
		l, ok := validRequests[rt.name()]
		if !ok {
			t.Errorf("no request for %s: the matrix does not cover it", rt.name())
			continue
		}
		methods := []string{rt.method}
		if rt.method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
		if l.before != nil {
			l.before(s, n)
		}
		before := s.everything()
		for i, c := range credentials {
			if c.good || (n+i)%sebtest.Runs(1, 6) > 0 {
				continue
			}
			path := l.target(rt, n)
			if c.query != "" {
				path += map[bool]string{true: "&", false: "?"}[strings.Contains(path, "?")] + c.query
			}
			for _, method := range methods {
				a := s.matrix(method, path, l.kind, l.body, c.give)
				if l.open && a.status != l.status || !l.open && !a.unauthorized(t, method) {
					t.Errorf("%s %s with %s: %s", method, rt.path, c.name, a)
				}
			}
		}
		if after := s.everything(); after != before {
			t.Errorf("%s without the key changed something:\n%s\n%s", rt.name(), before, after)
		}
		for i, c := range credentials {
			if !c.good {
				continue
			}
			for _, method := range methods {
				own := 1000*(i+1) + n // each request has its own names
				if l.before != nil {
					l.before(s, own)
				}
				if a := s.matrix(method, l.target(rt, own), l.kind, l.body, c.give); a.status != l.status {
					t.Errorf("%s %s with %s: %s, want %d", method, rt.path, c.name, a, l.status)
				}
			}
		}
	}
	if len(validRequests) != len(routes) {
		t.Errorf("requests for %d routes, and %d routes", len(validRequests), len(routes))
	}
}

// unauthorized reports whether a is a complete answer to a request without the key.
func (a *answered) unauthorized(t *testing.T, method string) bool {
	if a.status != http.StatusUnauthorized || a.header.Get("WWW-Authenticate") == "" {
		return false
	}
	if method == http.MethodHead {
		return true
	}
	p := a.problem(t)
	return p.Code == api.Unauthorized && p.Detail == "invalid or missing API key"
}

// everything returns all state that a client can change, as text. It asks the handler without a
// connection, because the matrices call it for each request.
func (s *server) everything() string {
	s.t.Helper()
	get := func(path string) []byte {
		r := httptest.NewRequest("GET", path, nil)
		authorization("Bearer " + canary)(r)
		w := httptest.NewRecorder()
		s.api.ServeHTTP(w, r)
		must.Equalf(s.t, w.Code, http.StatusOK, "GET %s: %s", path, w.Body)
		return w.Body.Bytes()
	}
	// Of the engine's topics only the names, because the engine writes by itself.
	var topics api.Topics
	must.NoError(s.t, json.Unmarshal(get("/topics"), &topics))
	text := ""
	for _, topic := range topics.Topics {
		if topic.Name == "triggers" || topic.Name == "firings" {
			topic = api.Topic{Name: topic.Name}
		}
		text += fmt.Sprintf("%+v\n", topic)
	}
	for _, ref := range s.b.TransactionRefs() {
		info, _ := s.b.Transaction(ref.ID)
		text += fmt.Sprint(ref.ID, info.Started)
	}
	for _, path := range []string{"/groups", "/offsets?group=g", "/triggers", "/acls"} {
		text += string(get(path))
	}
	return text
}

// TestOtherMethodsAreRefused: a method that is not in the table gives 405, even with headers that
// override the method.
func TestOtherMethodsAreRefused(t *testing.T) {
	t.Parallel()
	s := start(t)
	newTopic(s, "t", 1)
	of := map[string]map[string]bool{}
	for _, rt := range routes {
		of[rt.path] = map[string]bool{}
	}
	for path := range of {
		for _, rt := range routes {
			if rt.matches(requestAt(rt.method, path)) {
				of[path][rt.method] = true
				of[path][http.MethodHead] = of[path][http.MethodGet]
			}
		}
	}
	for path, known := range of {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND", "get", "delete"} {
			for i, c := range credentials {
				if known[method] || c.query != "" || i%sebtest.Runs(1, 12) > 0 {
					continue
				}
				a := s.matrix(method, path+"?topic-name=t", "", "", c.give)
				if a.status != http.StatusMethodNotAllowed || a.header.Get("Allow") != allowedAt(path) {
					t.Errorf("%s %s with %s: %s", method, path, c.name, a)
				}
			}
		}
	}
	for _, name := range []string{"X-HTTP-Method-Override", "X-Method-Override", "X-HTTP-Method"} {
		a := s.matrix("GET", "/topic?topic-name=t&_method=DELETE", "", "", func(r *http.Request) {
			authorization("Bearer " + canary)(r)
			header(name, "DELETE")(r)
		})
		check.Equalf(t, a.status, http.StatusOK, "%s: %s", name, a)
	}
	if a := s.get("/topic?topic-name=t"); a.status != http.StatusOK {
		t.Errorf("the topic was deleted: %s", a)
	}
}
