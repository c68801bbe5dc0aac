package httpapi

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/test/sebtest"
)

// spellings are variants of a path that a proxy or a lenient broker may take for P. status is the
// answer without the key. With the key, a variant with 401 gets the answer of the route.
var spellings = []struct {
	path   string
	status int
}{
	{"P/", 404},
	{"P//", 404},
	{"/P", 404},
	{"//P", 404},
	{"/.P", 404},
	{"P/.", 404},
	{"/x/..P", 404},
	{"/healthz/..P", 404},
	{"/healthz/../healthz/..P", 404},
	{"/x/%2e%2eP", 404},
	{"/healthz/%2e%2eP", 404},
	{"/%2eP", 404},
	{"/..P", 404},
	{"/healthz%2f..P", 404},
	{"/healthz%2f%2e%2eP", 404},
	{"/%2fN", 404},
	{"P%2f", 404},
	{"P%2f.", 404},
	{"P%00", 404},
	{"/%00P", 404},
	{"P%20", 404},
	{"P%09", 404},
	{"P%0d%0a", 404},
	{"P.", 404},
	{"P;", 404},
	{"P;a=b", 404},
	{"P%3f", 404},
	{"P%23", 404},
	{"P#x", 404},
	{"/;P", 404},
	{"/healthz;P", 404},
	{"/healthz%3bP", 404},
	{"/healthz#P", 404},
	{"\\N", 400},
	{"/\\N", 404},
	{"/%5cN", 404},
	{"/..%5cN", 404},
	{"/%c0%afN", 404},
	{"/%c0%ae%c0%ae/N", 404},
	{"/%e0%80%afN", 404},
	{"/%252fN", 404},
	{"U", 404},
	{"/%u002fN", 400},
	{"P%", 400},
	{"P%zz", 400},
	{"%2fN", 400},
	{"N", 400},
	{"E", 401}, // the same path, spelled differently
}

// spell returns a variant of the path of a route.
func spell(path, in string) string {
	encoded := fmt.Sprintf("/%%%02x%s", path[1], path[2:])
	return strings.NewReplacer("P", path, "N", path[1:], "U", strings.ToUpper(path), "E", encoded).Replace(in)
}

// line sends one request and returns its answer.
func (s *server) line(method, target, headers string) (int, string) {
	s.t.Helper()
	resp, body, err := s.alone(method + " " + target + " HTTP/1.1\r\nHost: x\r\nAccept: */*\r\nConnection: close\r\n" + headers + "\r\n")
	if err != nil {
		s.t.Errorf("%s %s: %v", method, target, err)
		return 0, ""
	}
	return resp.StatusCode, string(body)
}

// TestPathSpellings: no spelling of a protected path reaches the route without the key. With the
// key only an equivalent spelling does.
func TestPathSpellings(t *testing.T) {
	t.Parallel()
	s := everyRoute(t)
	before, cells := s.everything(), 0
	for n, rt := range routes {
		l := validRequests[rt.name()]
		if l.open {
			continue
		}
		for i, c := range spellings {
			if (n+i)%sebtest.Runs(1, 12) > 0 {
				continue
			}
			path, query, _ := strings.Cut(l.target(rt, 0), "?")
			target := spell(path, c.path)
			if c.status == http.StatusNotFound {
				c.status = variable(rt.method, target)
			}
			if !strings.Contains(target, "#") {
				target += "?" + query
			}
			cells++
			if status, body := s.line(rt.method, target, ""); status != c.status {
				t.Errorf("%s %s without the key: %d %s, want %d", rt.method, target, status, body, c.status)
			}
			if c.status == http.StatusUnauthorized {
				continue
			}
			if status, body := s.line(rt.method, target, "Authorization: "+canary+"\r\n"); status != c.status {
				t.Errorf("%s %s with the key: %d %s, want %d", rt.method, target, status, body, c.status)
			}
		}
	}
	if after := s.everything(); after != before {
		t.Errorf("the state has changed:\n%s\n%s", before, after)
	}
	if status, body := s.line("GET", "/%74opics", "Authorization: "+canary+"\r\n"); status != http.StatusOK {
		t.Errorf("equivalent path: %d %s", status, body)
	}
	t.Logf("%d spellings", cells)
}

// variable returns the answer without the key to a path outside the table: 404, or 401 if it is
// another value of a route's variable.
func variable(method, target string) int {
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return http.StatusNotFound
	}
	switch rt, p := findRoute(&http.Request{Method: method, URL: u}); {
	case p != nil:
		return api.Statuses[p.Code]
	case strings.Contains(rt.path, "{") && rt.needsKey():
		return http.StatusUnauthorized
	}
	return http.StatusNotFound
}

// keyLines are header lines with a key, and the status of a protected route.
var keyLines = []struct {
	lines  string
	status int
}{
	{"Authorization: Bearer " + canary, 200},
	{"Authorization:Bearer " + canary, 200},
	// White space around a value is not part of it.
	{"Authorization: \tBearer " + canary + " \t ", 200},
	{"aUTHORIZATION: Bearer " + canary, 200},
	{"", 401},
	{"Authorization:", 401},
	{"Authorization: Bearer", 401},
	{"Authorization: Bearer\t" + canary, 401},
	{"Authorization: bearer " + canary, 200},
	{"Authorization: BEARER " + canary, 200},
	{"Authorization: Basic " + canary, 401},
	{"Authorization: Token " + canary, 401},
	{"Authorization: Bearer  " + canary, 200},
	{"Authorization: Bearer " + canary + " x", 401},
	{"Authorization: Bearer " + canary + ",", 401},
	{"Authorization: Bearer \"" + canary + "\"", 401},
	{"Authorization: Bearer " + canary + "\r\nAuthorization: Bearer " + canary, 401},
	{"Authorization: Bearer " + canary + "\r\nauthorization: x", 401},
	{"Authorization: x\r\nauthorization: Bearer " + canary, 401},
	{"Authorization: Bearer " + canary + "\r\nAuthorization:", 401},
	{"X-Authorization: Bearer " + canary, 401},
	{"Authorization_: Bearer " + canary, 401},
	{"Trailer: Authorization\r\nX: Bearer " + canary, 401},
	{"Authorization: Bearer " + canary + "\x00", 400},
	{"Authorization: Bearer " + canary + "\x7f", 400},
	{"Authorization: Bearer\r\n " + canary, 400},
	{"Authorization : Bearer " + canary, 400},
	{" Authorization: Bearer " + canary, 400},
	{"Authorization\x00: Bearer " + canary, 400},
	{"X: y\rAuthorization: Bearer " + canary, 400},
	{"X: y\nAuthorization: Bearer " + canary, 400},
	{"Authorization: Bearer " + strings.Repeat(canary, 500), 401},
	{"Authorization: Bearer " + strings.Repeat(canary, 40_000), 431},
}

// TestKeysByteForByte covers headers that client libraries would not send.
func TestKeysByteForByte(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, c := range keyLines {
		lines := c.lines
		if lines != "" {
			lines += "\r\n"
		}
		status, body := s.line("GET", "/topics", lines)
		if status != c.status {
			t.Errorf("%.100q: %d %s, want %d", c.lines, status, body, c.status)
		}
		if strings.Contains(body, canary) {
			t.Errorf("%.100q: the key is in the answer: %s", c.lines, body)
		}
	}
	// Each byte of the key counts, even if all bytes before it match.
	for i := range canary {
		other := []byte(canary)
		other[i] ^= 1
		if status, _ := s.line("GET", "/topics", "Authorization: Bearer "+string(other)+"\r\n"); status != http.StatusUnauthorized {
			t.Errorf("byte %d is another: %d", i, status)
		}
		if status, _ := s.line("GET", "/topics", "Authorization: Bearer "+canary[:i]+"\r\n"); status != http.StatusUnauthorized {
			t.Errorf("the first %d bytes: %d", i, status)
		}
	}
	// A key in a trailer is ignored.
	resp, body, err := s.alone(postLine + "Host: x\r\nAccept: */*\r\nContent-Type: text/plain\r\nTrailer: Authorization\r\nTransfer-Encoding: chunked\r\n\r\n" +
		"1\r\nx\r\n0\r\nAuthorization: Bearer " + canary + "\r\n\r\n")
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("in a trailer: %v %s %v", resp, body, err)
	}
	// HTTP/1.0 is supported, with the same key.
	for headers, status := range map[string]int{"": 401, "Authorization: " + canary + "\r\n": 200} {
		resp, body, err := s.alone("GET /topics HTTP/1.0\r\nAccept: */*\r\n" + headers + "\r\n")
		if err != nil || resp.StatusCode != status {
			t.Errorf("HTTP/1.0: %v %s %v, want %d", resp, body, err, status)
		}
	}
}

// TestNoUpgrade: upgrades to HTTP/2 and other protocols are not supported, so they cannot bypass
// the key.
func TestNoUpgrade(t *testing.T) {
	s := start(t)
	for _, headers := range []string{
		"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n",
		"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n",
		"Connection: Upgrade\r\nUpgrade: TLS/1.2\r\n",
	} {
		for path, status := range map[string]int{"/topics": 401, "/healthz": 200} {
			resp, err := s.raw("GET " + path + " HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n" + headers + "\r\n")
			if err != nil || resp.StatusCode != status || resp.Header.Get("Upgrade") != "" {
				t.Errorf("%s with %q: %v %v", path, headers, resp, err)
			}
		}
	}
	if resp, body, err := s.alone("\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03\r\n\r\n"); err == nil && resp.StatusCode != http.StatusBadRequest {
		t.Errorf("TLS: %v %s", resp, body)
	}
}

// TestOptionsStar: the handler refuses "OPTIONS *" instead of net/http, and the following request
// is checked as usual.
func TestOptionsStar(t *testing.T) {
	s := start(t)
	s.mustPost("topic-name=t", api.TextPlain, "a")
	for _, c := range ambiguous {
		conn := s.dial()
		_ = conn.SetDeadline(time.Now().Add(sebtest.Limit))
		in := bufio.NewReader(conn)
		fmt.Fprint(conn, "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n")
		resp, err := http.ReadResponse(in, nil)
		if err != nil || resp.StatusCode != http.StatusNotFound {
			t.Fatalf("OPTIONS *: %v %v", resp, err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		if c.status == "" {
			c.status = "400"
		}
		_, _ = io.WriteString(conn, c.text)
		if resp, err = http.ReadResponse(in, nil); err != nil || fmt.Sprint(resp.StatusCode) != c.status {
			t.Errorf("%s: %v %v", c.name, resp, err)
		}
		conn.Close()
	}
	if a := s.get("/topic?topic-name=t"); a.status != 200 {
		t.Errorf("a hidden request was served: %s", a)
	}
	if got := s.values("t", 0); len(got) != 1 {
		t.Errorf("an invalid request was served: %q", got)
	}
}
