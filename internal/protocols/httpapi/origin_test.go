package httpapi

import (
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sebbroker/seb/api"

	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// from sends a request of a web page.
func (s *server) from(origin, method, path string, more ...string) *answered {
	s.t.Helper()
	return s.matrix(method, path, "", "", func(r *http.Request) {
		authorization("Bearer " + canary)(r)
		r.Header.Set("Origin", origin)
		for i := 0; i < len(more); i += 2 {
			r.Header.Set(more[i], more[i+1])
		}
	})
}

// TestOtherOriginsAreRefused: each route refuses a page of another origin, even with a valid key.
func TestOtherOriginsAreRefused(t *testing.T) {
	s := everyRoute(t, func(c *setup) { c.http.Origins = []string{"https://app.example.com"} })
	for i := range routes {
		rt := &routes[i]
		l := validRequests[rt.name()]
		before := s.everything()
		for j, origin := range []string{"https://evil.example.com", "https://app.example.com.evil.com", "http://app.example.com", "null", "http://127.0.0.1"} {
			if (i+j)%sebtest.Runs(1, 5) != 0 {
				continue
			}
			a := s.from(origin, rt.method, l.target(*rt, 1))
			if p := a.problem(t); p.Code != api.Forbidden || !strings.Contains(p.Detail, "--cors-origin") || a.header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s from %s: %s", rt.name(), origin, a)
			}
		}
		if after := s.everything(); after != before {
			t.Errorf("%s of another origin changed something", rt.name())
		}
	}
}

func TestNamedOriginsAreServed(t *testing.T) {
	const app = "https://app.example.com"
	s := everyRoute(t, func(c *setup) { c.http.Origins = []string{app} })
	for _, path := range []string{"/records?topic-name=t&offset=0", "/topics", "/healthz"} {
		a := s.from(app, "GET", path)
		if h := a.header; a.status != 200 || h.Get("Access-Control-Allow-Origin") != app || !strings.Contains(strings.Join(h.Values("Vary"), ","), "Origin") ||
			!strings.Contains(h.Get("Access-Control-Expose-Headers"), api.HeaderNextOffset) || h.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("GET %s: %s %v", path, a, h)
		}
	}
	if a := s.from(app, "GET", "/topic?topic-name=no"); a.status != 404 || a.header.Get("Access-Control-Allow-Origin") != app {
		t.Errorf("an error: %s %v", a, a.header)
	}
	if a := s.from("http://"+s.addr, "GET", "/topics"); a.status != 200 || a.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("own origin: %s %v", a, a.header)
	}
	a := s.from(app, "OPTIONS", "/topic?topic-name=t", "Access-Control-Request-Method", "PUT", "Authorization", "")
	if a.status != 204 || a.header.Get("Access-Control-Allow-Methods") != "DELETE, GET, HEAD, PUT" || !strings.Contains(a.header.Get("Access-Control-Allow-Headers"), "Authorization") {
		t.Errorf("preflight: %s %v", a, a.header)
	}
	for path, origin := range map[string]string{"/topic": "https://evil.example.com", "/no": app} {
		if a := s.from(origin, "OPTIONS", path, "Access-Control-Request-Method", "PUT"); a.status != 403 && a.status != 404 {
			t.Errorf("preflight of %s for %s: %s", origin, path, a)
		}
	}
}

// TestOriginsMayUseAllHeaders: a page of a named origin may set and read the headers that the description of the
// API names, so that a client in it works as elsewhere.
func TestOriginsMayUseAllHeaders(t *testing.T) {
	const app = "https://app.example.com"
	s := everyRoute(t, func(c *setup) { c.http.Origins = []string{app} })
	a := s.from(app, "OPTIONS", "/topic?topic-name=t", "Access-Control-Request-Method", "PUT")
	known := a.header.Get("Access-Control-Allow-Headers") + ", " + a.header.Get("Access-Control-Expose-Headers")
	for _, name := range regexp.MustCompile(`Seb-[A-Z][A-Za-z-]*`).FindAllString(string(must.Get(os.ReadFile("openapi.yaml"))(t)), -1) {
		if name != api.HeaderSession && !slices.Contains(strings.Split(known, ", "), name) { // the console has that, of its own origin
			t.Errorf("a page can neither set nor read %s", name)
		}
	}
}

// TestOpenRoutesKnowTheirHost: routes without a key refuse the name of another host, as a page sends
// it whose name resolves to the broker, unless the request has a key.
func TestOpenRoutesKnowTheirHost(t *testing.T) {
	s := everyRoute(t, func(c *setup) { c.http.Hosts = []string{"seb.example.com"} })
	for i := range routes {
		rt := &routes[i]
		if rt.method != http.MethodGet || rt.path == peerPath { // TestPeerLink
			continue
		}
		l := validRequests[rt.name()]
		for host, known := range map[string]bool{
			"evil.example.com": false, "evil.example.com:80": false, "127.0.0.1.evil.com": false, "localhost:1": true, "10.0.0.1": true, "[::1]:80": true, "SEB.example.com:51313": true,
		} {
			for _, key := range []string{canary, "wrong"} {
				a := s.matrix("GET", l.target(*rt, 1), "", "", func(r *http.Request) {
					authorization(key)(r)
					r.Host = host
				})
				if want := key == canary || known && !rt.needsKey(); (a.status == 200) != want {
					t.Errorf("%s with Host %s and key %s: %s", rt.name(), host, key, a)
				}
			}
		}
	}
	if resp, err := s.raw("GET /healthz HTTP/1.0\r\n\r\n"); err != nil || resp.StatusCode != 200 {
		t.Errorf("without a Host: %v %v", resp, err)
	}
	if KnownHost("localhost.evil.com", nil) || KnownHost("[::1].evil.com", nil) {
		t.Error("a name that begins like localhost is known")
	}
}
