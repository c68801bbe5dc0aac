package httpapi

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/protocols/auth"
	"github.com/sebbroker/seb/test/must"
)

// page is a browser with a session.
type page struct {
	s            *server
	cookie, half string
	session      api.Session
}

// login exchanges a key for a session.
func (s *server) login(key string) *page {
	s.t.Helper()
	a := s.do(call{method: "POST", path: "/console/login", noKey: true, header: map[string]string{"Authorization": "Bearer " + key}})
	must.Equalf(s.t, a.status, http.StatusOK, "login: %s", a)
	c := must.Get(http.ParseSetCookie(a.header.Get("Set-Cookie")))(s.t)
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Name != "seb_console_"+s.port() || c.Secure != (s.tls != nil) {
		s.t.Errorf("cookie %v", c)
	}
	p := &page{s: s, cookie: c.Name + "=" + c.Value}
	must.NoError(s.t, json.Unmarshal(a.body, &p.session))
	p.half = p.session.Session
	return p
}

func (s *server) port() string { return s.addr[strings.LastIndexByte(s.addr, ':')+1:] }

// send sends a request of the page. A header with an empty value is left out.
func (p *page) send(method, path, body string, change map[string]string) *answered {
	p.s.t.Helper()
	h := map[string]string{"Cookie": p.cookie, api.HeaderSession: p.half}
	for k, v := range change {
		h[k] = v
	}
	for k, v := range h {
		if v == "" {
			delete(h, k)
		}
	}
	c := call{method: method, path: path, noKey: true, header: h}
	if body != "" {
		c.body = strings.NewReader(body)
	}
	return p.s.do(c)
}

// TestASessionNeedsBothHalves: neither half alone is a login, nor are halves of two sessions, and a
// changed bit makes either invalid.
func TestASessionNeedsBothHalves(t *testing.T) {
	s := start(t)
	one, two := s.login(canary), s.login(canary)
	if a := one.send("GET", "/topics", "", nil); a.status != 200 {
		t.Fatalf("with both halves: %s", a)
	}
	changed := func(s string) string {
		b := []byte(s)
		at := len(b) / 2
		b[at] ^= 1
		return string(b)
	}
	for name, change := range map[string]map[string]string{
		"only the page's half": {"Cookie": ""}, "only the cookie": {api.HeaderSession: ""}, "another page's half": {api.HeaderSession: two.half},
		"another cookie": {"Cookie": two.cookie}, "a changed half": {api.HeaderSession: changed(one.half)}, "a changed cookie": {"Cookie": changed(one.cookie)},
		"the cookie as half": {api.HeaderSession: strings.SplitAfter(one.cookie, "=")[1]}, "not base64": {api.HeaderSession: "%"},
		"the name of another port": {"Cookie": strings.Replace(one.cookie, s.port(), "1", 1)}, "an empty cookie": {"Cookie": "seb_console_" + s.port() + "="},
	} {
		if a := one.send("GET", "/topics", "", change); a.status != http.StatusUnauthorized {
			t.Errorf("%s: %s", name, a)
		}
	}
	// A page of another origin that the browser gives both halves anyway.
	for _, h := range []map[string]string{
		{"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": "http://127.0.0.1:1"},
	} {
		if a := one.send("POST", "/records?topic-name=t", "v", h); a.status != http.StatusForbidden {
			t.Errorf("%v: %s", h, a)
		}
		if a := one.send("GET", "/topics", "", h); a.status != http.StatusForbidden {
			t.Errorf("GET with %v: %s", h, a)
		}
	}
	if a := one.send("POST", "/records?topic-name=t", "v", map[string]string{"Sec-Fetch-Site": "same-origin", "Origin": "http://" + s.addr, "Content-Type": api.TextPlain}); a.status != 201 {
		t.Errorf("of the page itself: %s", a)
	}
}

// TestASessionEndsWithItsToken: a request after the revocation of the token fails, and a stream
// that the page has open ends. So do those after a rotation's overlap, after 12 hours, and with
// another root key.
func TestASessionEndsWithItsToken(t *testing.T) {
	var later atomic.Int64
	s := start(t, func(c *setup) {
		c.now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	})
	s.mustPost("topic-name=t", api.TextPlain, "v")
	token := func(id string) string {
		var made api.TokenCreated
		s.must(201, s.send("POST", "/tokens", fmt.Sprintf(`{"id":%q,"read":["t"]}`, id)), &made)
		return made.Secret
	}
	p := s.login(token("reader"))
	if p.session.Principal != "reader" || !slices.Equal(p.session.May["topic"], []string{"read", "describe"}) || len(p.session.May["cluster"]) != 0 {
		t.Errorf("session %+v", p.session)
	}
	if a := p.send("PUT", "/topic?topic-name=x", "{}", nil); a.status != http.StatusForbidden {
		t.Errorf("a viewer creates a topic: %s", a)
	}
	req := must.Get(http.NewRequestWithContext(t.Context(), "GET", "http://"+s.addr+"/records?topic-name=t&offset=0", nil))(t)
	req.Header = http.Header{"Accept": {"text/event-stream"}, "Cookie": {p.cookie}, api.HeaderSession: {p.half}}
	stream := must.Get(s.client.Do(req))(t)
	defer stream.Body.Close()
	must.Get(io.ReadFull(stream.Body, make([]byte, 1)))(t)
	s.must(204, s.send("DELETE", "/tokens/reader", ""), nil)
	_, _ = io.Copy(io.Discard, stream.Body) // it ends, or the test times out
	if a := p.send("GET", "/record?topic-name=t&offset=0", "", nil); a.status != http.StatusUnauthorized {
		t.Errorf("after the revocation: %s", a)
	}
	if token("reader"); p.send("GET", "/console/session", "", nil).status != http.StatusUnauthorized {
		t.Error("a new token of the same ID revives the session")
	}
	q := s.login(token("other"))
	later.Store(int64(auth.SessionLife - time.Minute))
	if a := q.send("GET", "/console/session", "", nil); a.status != 200 {
		t.Errorf("before its end: %s", a)
	}
	later.Store(int64(auth.SessionLife + time.Minute))
	if a := q.send("GET", "/console/session", "", nil); a.status != http.StatusUnauthorized {
		t.Errorf("after 12 hours: %s", a)
	}
}

// TestPages: the page and its files have the headers that bind a browser, browsers are sent to the
// page, and other clients see what they saw before.
func TestPages(t *testing.T) {
	s := start(t)
	get := func(path, accept string, more map[string]string) *answered {
		h := map[string]string{"Accept": accept}
		for k, v := range more {
			h[k] = v
		}
		return s.do(call{method: "GET", path: path, noKey: true, header: h})
	}
	const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
	if a := get("/", "*/*", nil); a.status != 404 {
		t.Errorf("GET / of curl: %s", a)
	}
	a := get("/console/", browser, nil)
	if a.status != 200 || !strings.HasPrefix(a.header.Get("Content-Type"), "text/html") || a.header.Get("Cache-Control") != "no-cache" {
		t.Fatalf("the page: %s %v", a, a.header)
	}
	for _, want := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "require-trusted-types-for 'script'", "trusted-types seb-tail"} {
		if !strings.Contains(a.header.Get("Content-Security-Policy"), want) {
			t.Errorf("policy without %s", want)
		}
	}
	if b := get("/console/", browser, map[string]string{"If-None-Match": a.header.Get("Etag")}); b.status != http.StatusNotModified {
		t.Errorf("the same page: %s", b)
	}
	files := 0
	for _, part := range strings.Split(string(a.body), `"`) {
		if !strings.HasSuffix(part, ".js") && !strings.HasSuffix(part, ".css") && !strings.HasSuffix(part, ".svg") {
			continue
		}
		files++
		f := get("/console/"+part, "*/*", nil)
		if f.status != 200 || !strings.Contains(f.header.Get("Cache-Control"), "immutable") || f.header.Get("X-Content-Type-Options") != "nosniff" || len(f.body) == 0 {
			t.Errorf("%s: %d %v", part, f.status, f.header)
		}
	}
	if files != 4 {
		t.Errorf("the page refers to %d files", files)
	}
	for _, path := range []string{"/console/x", "/console/../topics", "/console/0000000000000000/app.js"} {
		if f := get(path, browser, nil); f.status != 404 {
			t.Errorf("%s: %s", path, f)
		}
	}
	if resp, err := s.raw("GET /console/ HTTP/1.1\r\nHost: evil.example\r\nAccept: text/html\r\n\r\n"); err != nil || resp.StatusCode != 403 {
		t.Errorf("a name that is not the broker's: %v %v", resp, err)
	}
	s.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for _, path := range []string{"/", "/console"} {
		if f := get(path, browser, nil); f.status != http.StatusSeeOther || f.header.Get("Location") != "console/" {
			t.Errorf("%s: %s %v", path, f, f.header)
		}
	}
}

// TestNoConsole: with --console=false nothing of it answers.
func TestNoConsole(t *testing.T) {
	s := start(t, func(c *setup) { c.http.Console = nil })
	for _, c := range []call{
		{method: "GET", path: "/"},
		{method: "GET", path: "/console/"},
		{method: "POST", path: "/console/login"},
		{method: "GET", path: "/console/session"},
		{method: "POST", path: "/console/logout"},
	} {
		c.header = map[string]string{"Accept": "text/html"}
		if a := s.do(c); a.status != 404 {
			t.Errorf("%s %s: %s", c.method, c.path, a)
		}
	}
}
