package httpapi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// originalPost returns a produce request byte for byte as the original's Go client sends it.
func originalPost(topic, sizes, records string) string {
	const boundary = "b1946ac92492d2347c6235b4d2611184a7f2bc9a"
	b := body(boundary, sizes, records)
	return fmt.Sprintf("POST /records?topic-name=%s HTTP/1.1\r\nHost: localhost:51313\r\nUser-Agent: Go-http-client/1.1\r\n"+
		"Content-Length: %d\r\nAuthorization: Bearer %s\r\nContent-Type: multipart/form-data; boundary=%s\r\nAccept-Encoding: gzip\r\n\r\n%s",
		topic, len(b), canary, boundary, b)
}

func originalGet(path string) string {
	return "GET " + path + " HTTP/1.1\r\nHost: localhost:51313\r\nUser-Agent: Go-http-client/1.1\r\nAuthorization: Bearer " + canary + "\r\n"
}

func TestOriginalClientsRequests(t *testing.T) {
	s := start(t)
	conn := s.dial()
	_ = conn.SetDeadline(time.Now().Add(sebtest.Limit))
	in := bufio.NewReader(conn)
	ask := func(text string) *answered {
		t.Helper()
		must.Get(io.WriteString(conn, text))(t)
		resp := must.Get(http.ReadResponse(in, nil))(t)
		b, err := io.ReadAll(resp.Body)
		if err != nil || resp.Close {
			t.Fatal(err, resp.Close)
		}
		return &answered{status: resp.StatusCode, header: resp.Header, body: b}
	}
	// All on one connection: it stays usable after each answer.
	if a := ask(originalPost("haps", "[3,4]", "abcdefg")); a.status != 201 || string(a.body) != `{"offsets":[0,1]}` || a.header.Get("Content-Type") != api.JSON {
		t.Errorf("%s", a)
	}
	if a := ask(originalPost("haps", "[0,1]", "z")); a.status != 201 || string(a.body) != `{"offsets":[2,3]}` {
		t.Errorf("%s", a)
	}
	// The original's client would take 400 for stored, so it gets no answer; other clients get the
	// error.
	for _, c := range []struct{ sizes, records string }{{"[]", ""}, {"null", ""}, {"[3,5]", "abcdefg"}, {"[3]", "abcdefg"}, {"x", ""}} {
		text := originalPost("haps", c.sizes, c.records)
		if resp, err := s.raw(text); err == nil {
			t.Errorf("%v: %v", c, resp)
		}
		if a := ask(strings.Replace(text, "Accept-Encoding: gzip", "Accept: */*", 1)); a.status != 400 {
			t.Errorf("%v: %s", c, a)
		}
	}
	if a := ask(originalPost("haps", "[31457281]", "short")); a.status != 413 {
		t.Errorf("%s", a)
	}
	if a := ask(originalGet("/record?offset=1&topic-name=haps") + "\r\n"); a.status != 200 || string(a.body) != "defg" {
		t.Errorf("%s", a)
	}
	if a := ask(originalGet("/record?offset=4&topic-name=haps") + "\r\n"); a.status != 404 {
		t.Errorf("%s", a)
	}
	a := ask(originalGet("/records?max-bytes=1048576&max-records=10&offset=0&timeout=10s&topic-name=haps") + "Accept: multipart/form-data\r\n\r\n")
	if got := a.unform(t); a.status != 200 || strings.Join(got, "|") != "abc|defg||z" {
		t.Errorf("%q", got)
	}
	a = ask(originalGet("/records?max-bytes=1048576&max-records=10&offset=4&timeout=20ms&topic-name=haps") + "Accept: multipart/form-data\r\n\r\n")
	if boundary := strings.TrimPrefix(a.header.Get("Content-Type"), "multipart/form-data; boundary="); a.status != 206 || string(a.body) != "\r\n--"+boundary+"--\r\n" {
		t.Errorf("%s", a)
	}
	a = ask(originalGet("/topic?topic-name=haps") + "\r\n")
	if a.status != 200 || !strings.Contains(string(a.body), `"next_offset":4`) || !strings.Contains(string(a.body), `"latest_commit_at":"20`) {
		t.Errorf("%s", a)
	}
	if a := ask(strings.ReplaceAll(originalGet("/topic?topic-name=haps")+"\r\n", canary, "wrong")); a.status != 401 {
		t.Errorf("%s", a)
	}
}

func TestRequestsInPieces(t *testing.T) {
	s := start(t)
	conn := s.dial()
	_ = conn.SetDeadline(time.Now().Add(sebtest.Limit))
	for _, c := range []byte(originalPost("t", "[3,4]", "abcdefg")) {
		must.Get(conn.Write([]byte{c}))(t)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || resp.StatusCode != 201 {
		t.Fatalf("%v %v", resp, err)
	}
}

func TestSlowBodyIsAborted(t *testing.T) {
	t.Parallel()
	s := start(t, func(c *setup) { c.http.StepTimeout = time.Second })
	for _, head := range []string{
		"Content-Type: application/octet-stream\r\nAccept: application/problem+json\r\nContent-Length: 100\r\n\r\nabc",
		"Content-Type: text/plain\r\nContent-Length: 100\r\n\r\nabc",
		"Content-Type: application/vnd.seb.recordbatch\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
	} {
		resp, err := s.raw("POST /records?topic-name=t HTTP/1.1\r\nHost: x\r\nAuthorization: " + canary + "\r\n" + head)
		if err != nil || resp.StatusCode != http.StatusRequestTimeout || !resp.Close {
			t.Errorf("%s: %v %v", head, resp, err)
		}
	}
	// The original's client must not take that for success.
	text := originalPost("t", "[3,4]", "abcdefg")
	if resp, err := s.raw(text[:len(text)-20]); err == nil {
		t.Errorf("%v", resp)
	}
	// A body that stays unread, because the head is refused, does not occupy the connection either.
	resp, err := s.raw("POST /records?topic-name=.. HTTP/1.1\r\nHost: x\r\nAuthorization: " + canary + "\r\nContent-Length: 1000\r\n\r\nabc")
	if err != nil || resp.StatusCode != 400 {
		t.Errorf("%v %v", resp, err)
	}
	resp, err = s.raw("PUT /topic?topic-name=t HTTP/1.1\r\nHost: x\r\nAuthorization: " + canary + "\r\nContent-Length: 1000\r\n\r\n{")
	if err != nil || resp.StatusCode != http.StatusRequestTimeout {
		t.Errorf("%v %v", resp, err)
	}
	sebtest.Eventually(t, "the memory is released", func() bool { return s.budget.Class(budget.Produce).Used() == 0 })
}

// TestWaitsOutliveTheBodysDeadline: a wait that is longer than the body's timeout must not look
// like a disconnected client.
func TestWaitsOutliveTheBodysDeadline(t *testing.T) {
	t.Parallel()
	s := start(t, func(c *setup) {
		c.http.StepTimeout = 50 * time.Millisecond
		c.broker.NoWait = false
		c.broker.Batch.Wait = 300 * time.Millisecond
	})
	mp, kind := form("a")
	for kind, text := range map[string]string{kind: mp, api.TextPlain: "a", api.OctetStream: "a", api.NDJSON: `{"value":"a"}`} {
		s.mustPost("topic-name=t", kind, text)
	}
	a := s.do(call{method: "GET", path: "/records?topic-name=t&offset=4&timeout=300ms"})
	check.Equalf(t, a.status, 206, "%s", a)
}

func TestSlowHeadersAndLongOnes(t *testing.T) {
	t.Parallel()
	s := start(t, func(c *setup) { c.http.HeaderTimeout, c.http.IdleTimeout = 50*time.Millisecond, 50*time.Millisecond })
	for _, text := range []string{"", "GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: "} {
		if resp, err := s.raw(text); err == nil && resp.StatusCode != http.StatusRequestTimeout {
			t.Errorf("%q: %v", text, resp)
		}
	}
	resp, err := s.raw("GET /healthz HTTP/1.1\r\nHost: x\r\nX-Long: " + strings.Repeat("x", 64<<10) + "\r\n\r\n")
	if err != nil || resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("%v %v", resp, err)
	}
}

// TestShutdownWithQueuedConnection: a server with all slots in use stops, and a queued connection
// gets no answer.
func TestShutdownWithQueuedConnection(t *testing.T) {
	t.Parallel()
	s := start(t, func(c *setup) { c.http.Connections, c.http.QueueWait, c.http.KeepIdle = 1, time.Hour, time.Hour })
	s.keep(1)
	held := s.dial()
	fmt.Fprint(held, originalPost("t", "[1]", "a"))
	sebtest.Eventually(t, "the connection is queued", func() bool { return s.api.connections.HasQueued() })
	ctx, cancel := context.WithTimeout(t.Context(), sebtest.Limit)
	defer cancel()
	must.NoError(t, s.http.Shutdown(ctx))
	_ = held.SetReadDeadline(time.Now().Add(sebtest.Limit))
	if resp, err := http.ReadResponse(bufio.NewReader(held), nil); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%v %v", resp, err)
	}
}

func TestDisconnectReleasesMemory(t *testing.T) {
	s := start(t)
	for _, text := range []string{
		"Content-Type: application/octet-stream\r\nContent-Length: 1000000\r\n\r\nabc",
		"Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 1000000\r\n\r\n" + body("b", "[900000]", "abc"),
		"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n[{\"\r\n",
	} {
		conn := s.dial()
		fmt.Fprintf(conn, "POST /records?topic-name=t HTTP/1.1\r\nHost: x\r\nAuthorization: %s\r\n%s", canary, text)
		sebtest.Eventually(t, "the body is being read", func() bool { return s.budget.Class(budget.Produce).Used() > 0 })
		conn.Close()
		sebtest.Eventually(t, "the memory is released", func() bool { return s.budget.Class(budget.Produce).Used() == 0 })
	}
	if a := s.get("/topics"); string(a.body) != `{"topics":[]}` {
		t.Errorf("%s", a)
	}
}
