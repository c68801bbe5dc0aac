package httpapi

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// Requests whose end or target a proxy and the broker may interpret differently.

const (
	postLine = "POST /records?topic-name=t HTTP/1.1\r\n"
	// validHead is the head of a valid request without its length.
	validHead = "Host: x\r\nAuthorization: " + canary + "\r\nAccept: */*\r\nContent-Type: text/plain\r\n"
	// hidden is a request that an attacker tries to smuggle past a proxy.
	hidden = "DELETE /topic?topic-name=t HTTP/1.1\r\nHost: x\r\nAuthorization: " + canary + "\r\n\r\n"
	// chunks is a body of one byte.
	chunks = "1\r\nx\r\n0\r\n\r\n"
)

// ambiguous requests get 400, or the given status, and their connection is closed.
var ambiguous = []struct{ name, text, status string }{
	// Both lengths, in either order.
	{"length and coding", postLine + validHead + "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + hidden, ""},
	{"coding and length", postLine + validHead + "Transfer-Encoding: chunked\r\nContent-Length: 6\r\n\r\n" + chunks + hidden, ""},
	{"coding and length of all", postLine + validHead + fmt.Sprintf("Transfer-Encoding: chunked\r\nContent-Length: %d\r\n\r\n", len(chunks)+len(hidden)) + chunks + hidden, ""},
	{"coding and length 0", postLine + validHead + "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n" + chunks + hidden, ""},
	{"names in other case", postLine + validHead + "content-LENGTH: 6\r\ntransfer-ENCODING: chunked\r\n\r\n" + chunks + hidden, ""},
	// More than one length.
	{"two lengths", postLine + validHead + "Content-Length: 1\r\nContent-Length: 60\r\n\r\nx" + hidden, ""},
	{"two equal lengths", postLine + validHead + "Content-Length: 1\r\nContent-Length: 1\r\n\r\nx" + hidden, ""},
	{"a list of lengths", postLine + validHead + "Content-Length: 1, 1\r\n\r\nx" + hidden, ""},
	{"a list of two", postLine + validHead + "Content-Length: 1, 60\r\n\r\nx" + hidden, ""},
	{"negative length", postLine + validHead + "Content-Length: -1\r\n\r\n" + hidden, ""},
	{"plus sign", postLine + validHead + "Content-Length: +1\r\n\r\nx" + hidden, ""},
	{"hexadecimal length", postLine + validHead + "Content-Length: 0x1\r\n\r\nx" + hidden, ""},
	{"underscore in the length", postLine + validHead + "Content-Length: 1_0\r\n\r\nx" + hidden, ""},
	{"length with a space", postLine + validHead + "Content-Length: 1 0\r\n\r\nx" + hidden, ""},
	{"empty length", postLine + validHead + "Content-Length:\r\n\r\n" + hidden, ""},
	{"length beyond 64 bits", postLine + validHead + "Content-Length: 18446744073709551617\r\n\r\nx" + hidden, ""},
	// Codings.
	{"unknown coding", postLine + validHead + "Transfer-Encoding: xchunked\r\n\r\n" + chunks + hidden, "501"},
	{"coding after a vertical tab", postLine + validHead + "Transfer-Encoding: \x0bchunked\r\n\r\n" + chunks + hidden, ""},
	{"identity", postLine + validHead + "Transfer-Encoding: identity\r\n\r\n" + chunks + hidden, "501"},
	{"two codings", postLine + validHead + "Transfer-Encoding: gzip, chunked\r\n\r\n" + chunks + hidden, "501"},
	{"coding twice", postLine + validHead + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + hidden, "501"},
	{"coding twice, one is unknown", postLine + validHead + "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n" + chunks + hidden, "501"},
	{"coding in quotes", postLine + validHead + "Transfer-Encoding: \"chunked\"\r\n\r\n" + chunks + hidden, "501"},
	{"coding in HTTP/1.0", "POST /records?topic-name=t HTTP/1.0\r\nConnection: keep-alive\r\n" + validHead + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + hidden, ""},
	{"only a coding in HTTP/1.0", "POST /records?topic-name=t HTTP/1.0\r\nConnection: keep-alive\r\n" + validHead + "Transfer-Encoding: chunked\r\n\r\n" + chunks + hidden, ""},
	// Lines.
	{"space before the colon", postLine + validHead + "Content-Length : 1\r\n\r\nx" + hidden, ""},
	{"tab before the colon", postLine + validHead + "Transfer-Encoding\t: chunked\r\n\r\n" + chunks + hidden, ""},
	{"folded coding", postLine + validHead + "Transfer-Encoding:\r\n chunked\r\n\r\n" + chunks + hidden, ""},
	{"folded header", postLine + validHead + "X-Y: a\r\n\tb\r\nContent-Length: 1\r\n\r\nx" + hidden, ""},
	{"first header begins with a space", postLine + " X-Y: a\r\n" + validHead + "Content-Length: 1\r\n\r\nx" + hidden, ""},
	{"length hidden in a fold", postLine + validHead + "X-Y: a\r\n Content-Length: 60\r\nContent-Length: 1\r\n\r\nx" + hidden, ""},
	{"bare LF", postLine + validHead + "X-Y: a\nContent-Length: 1\r\n\r\nx" + hidden, ""},
	{"bare LF only", strings.ReplaceAll(postLine+validHead+"Content-Length: 1\r\n\r\n", "\r\n", "\n") + "x" + hidden, ""},
	{"bare LF at the end", postLine + validHead + "Content-Length: 1\r\n\nx" + hidden, ""},
	{"bare CR", postLine + validHead + "X-Y: a\rContent-Length: 60\r\nContent-Length: 1\r\n\r\nx" + hidden, ""},
	{"zero byte in a name", postLine + validHead + "Content-Length\x00: 60\r\nContent-Length: 1\r\n\r\nx" + hidden, ""},
	{"zero byte in a value", postLine + validHead + "X-Y: a\x00b\r\nContent-Length: 1\r\n\r\nx" + hidden, ""},
	{"no colon", postLine + validHead + "Content-Length 1\r\n\r\nx" + hidden, ""},
	{"no name", postLine + validHead + ": 1\r\nContent-Length: 1\r\n\r\nx" + hidden, ""},
	{"letters outside of ASCII in a name", postLine + validHead + "Content-Lengt\u0127: 60\r\nContent-Length: 1\r\n\r\nx" + hidden, ""},
	// The target.
	{"two hosts", postLine + "Host: y\r\n" + validHead + "Content-Length: 1\r\n\r\nx" + hidden, ""},
	{"two equal hosts", postLine + "Host: x\r\n" + validHead + "Content-Length: 1\r\n\r\nx" + hidden, ""},
	{"no host", postLine + strings.TrimPrefix(validHead, "Host: x\r\n") + "Content-Length: 1\r\n\r\nx" + hidden, ""},
	{"host with a path", postLine + strings.Replace(validHead, "Host: x", "Host: x/y", 1) + "Content-Length: 1\r\n\r\nx" + hidden, ""},
	{"absolute form", "POST http://x/records?topic-name=t HTTP/1.1\r\n" + validHead + "Content-Length: 1\r\n\r\nx" + hidden, ""},
	{"absolute form of another host", "POST http://y/records?topic-name=t HTTP/1.1\r\n" + validHead + "Content-Length: 1\r\n\r\nx" + hidden, ""},
	{"absolute form with a user", "POST http://a:b@x/records?topic-name=t HTTP/1.1\r\n" + validHead + "Content-Length: 1\r\n\r\nx" + hidden, ""},
	{"authority form", "CONNECT x:80 HTTP/1.1\r\n" + validHead + "\r\n" + hidden, ""},
	{"no path", "GET topics HTTP/1.1\r\n" + validHead + "\r\n" + hidden, ""},
	{"space in the target", "GET /topics x HTTP/1.1\r\n" + validHead + "\r\n" + hidden, ""},
	{"tab in the line", "GET\t/topics HTTP/1.1\r\n" + validHead + "\r\n" + hidden, ""},
	{"no version", "GET /topics\r\n" + validHead + "\r\n" + hidden, ""},
	{"version 0.9", "GET /topics HTTP/0.9\r\n" + validHead + "\r\n" + hidden, "505"},
	{"version 2", "GET /topics HTTP/2.0\r\n" + validHead + "\r\n" + hidden, "505"},
	{"version 1.10", "GET /topics HTTP/1.10\r\n" + validHead + "\r\n" + hidden, ""},
	{"the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + hidden, ""},
	{"empty line first", "\r\n" + postLine + validHead + "Content-Length: 1\r\n\r\nx" + hidden, ""},
	{"space in the method", "PO ST /records?topic-name=t HTTP/1.1\r\n" + validHead + "Content-Length: 1\r\n\r\nx" + hidden, ""},
	// Chunks.
	{"bare LF after a size", postLine + validHead + "Transfer-Encoding: chunked\r\n\r\n1\nx\r\n0\r\n\r\n" + hidden, ""},
	{"bare LF after a chunk", postLine + validHead + "Transfer-Encoding: chunked\r\n\r\n1\r\nx\n0\r\n\r\n" + hidden, ""},
	{"bare CR in an extension", postLine + validHead + "Transfer-Encoding: chunked\r\n\r\n1;a\rb\r\nx\r\n0\r\n\r\n" + hidden, ""},
	{"bare LF in an extension", postLine + validHead + "Transfer-Encoding: chunked\r\n\r\n1;a\nx\r\n0\r\n\r\n" + hidden, ""},
	{"size beyond 64 bits", postLine + validHead + "Transfer-Encoding: chunked\r\n\r\n10000000000000001\r\nx\r\n0\r\n\r\n" + hidden, ""},
	{"size with a sign", postLine + validHead + "Transfer-Encoding: chunked\r\n\r\n+1\r\nx\r\n0\r\n\r\n" + hidden, ""},
	{"size 0x1", postLine + validHead + "Transfer-Encoding: chunked\r\n\r\n0x1\r\nx\r\n0\r\n\r\n" + hidden, ""},
	{"space before a size", postLine + validHead + "Transfer-Encoding: chunked\r\n\r\n 1\r\nx\r\n0\r\n\r\n" + hidden, ""},
	{"no size", postLine + validHead + "Transfer-Encoding: chunked\r\n\r\n\r\nx\r\n0\r\n\r\n" + hidden, ""},
	{"chunk longer than its size", postLine + validHead + "Transfer-Encoding: chunked\r\n\r\n1\r\nxyz\r\n0\r\n\r\n" + hidden, ""},
	{"extensions without end", postLine + validHead + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("1;"+strings.Repeat("a", 3000)+"\r\nx\r\n", 40) + "0\r\n\r\n" + hidden, ""},
}

// alone sends text on a separate connection, and returns the only answer before the connection
// ends.
func (s *server) alone(text string) (*http.Response, []byte, error) {
	conn := s.dial()
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(sebtest.Limit))
	_, _ = io.WriteString(conn, text)
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		return nil, nil, err
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, nil, err
	}
	if rest, err := io.ReadAll(in); len(rest) > 0 {
		return resp, body, fmt.Errorf("a second answer: %.100q, %w", rest, err)
	} else if err != nil && !strings.Contains(err.Error(), "reset") {
		return resp, body, fmt.Errorf("the connection did not end: %w", err)
	}
	return resp, body, nil
}

func TestNoSecondRequestIsSmuggled(t *testing.T) {
	s := start(t)
	s.mustPost("topic-name=t", api.TextPlain, "a")
	for _, c := range ambiguous {
		resp, body, err := s.alone(c.text)
		if c.status == "" {
			c.status = "400"
		}
		switch {
		case err != nil:
			t.Errorf("%s: %v", c.name, err)
		case fmt.Sprint(resp.StatusCode) != c.status:
			t.Errorf("%s: %d %s", c.name, resp.StatusCode, body)
		}
	}
	if a := s.get("/topic?topic-name=t"); a.status != 200 {
		t.Errorf("a hidden request was served: %s", a)
	}
	if got := s.values("t", 0); len(got) != 1 {
		t.Errorf("an invalid request was served: %q", got)
	}
}

// TestEarlyRequests are not served: they may be the end of another request, as a proxy sees it.
func TestEarlyRequests(t *testing.T) {
	s := start(t)
	s.mustPost("topic-name=t", api.TextPlain, "a")
	for name, text := range map[string]string{
		"after a body":                   postLine + validHead + "Content-Length: 1\r\n\r\nx" + hidden,
		"after a body in chunks":         postLine + validHead + "Transfer-Encoding: chunked\r\n\r\n" + chunks + hidden,
		"after chunks with trailers":     postLine + validHead + "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nContent-Length: 5\r\n\r\n" + hidden,
		"after chunks with an extension": postLine + validHead + "Transfer-Encoding: chunked\r\n\r\n1;a=b\r\nx\r\n0\r\n\r\n" + hidden,
		"after none":                     "GET /topics HTTP/1.1\r\n" + validHead + "\r\n" + hidden,
		"after a body of a GET":          "GET /topics HTTP/1.1\r\n" + validHead + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(hidden)) + hidden + hidden,
		"after a refused request":        strings.Replace(postLine, "=t", "=..", 1) + validHead + "Content-Length: 1\r\n\r\nx" + hidden,
		"after one without key":          postLine + strings.Replace(validHead, canary, "no", 1) + "Content-Length: 1\r\n\r\nx" + hidden,
		"in two pieces":                  postLine + validHead + "Content-Length: 1\r\n\r\nx" + hidden[:30] + "|" + hidden[30:],
	} {
		conn := s.dial()
		_ = conn.SetDeadline(time.Now().Add(sebtest.Limit))
		first, second, split := strings.Cut(text, "|")
		_, _ = io.WriteString(conn, first)
		in := bufio.NewReader(conn)
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		if split {
			_, _ = io.WriteString(conn, second)
		}
		if resp, err = http.ReadResponse(in, nil); err == nil {
			body, _ := io.ReadAll(resp.Body)
			if resp.StatusCode != http.StatusBadRequest || !resp.Close {
				t.Errorf("%s: a second answer: %d %s", name, resp.StatusCode, body)
			}
		}
		conn.Close()
	}
	if a := s.get("/topic?topic-name=t"); a.status != 200 {
		t.Errorf("a hidden request was served: %s", a)
	}
}

// TestSequentialRequests: a client that waits for its answers may reuse a connection without limit.
func TestSequentialRequests(t *testing.T) {
	s := start(t)
	conn := s.dial()
	in := bufio.NewReader(conn)
	_ = conn.SetDeadline(time.Now().Add(sebtest.Limit))
	for i := range 300 {
		text := postLine + validHead + "Content-Length: 10000\r\n\r\n" + strings.Repeat("x", 10_000)
		want := http.StatusCreated
		switch i % 4 {
		case 1:
			text = postLine + validHead + "Transfer-Encoding: chunked\r\n\r\n" + chunks
		case 2:
			text, want = "GET /topics HTTP/1.1\r\n"+validHead+"\r\n", http.StatusOK
		case 3:
			text, want = strings.Replace("GET /topics HTTP/1.1\r\n"+validHead+"\r\n", canary, "no", 1), http.StatusUnauthorized
		}
		must.Get(io.WriteString(conn, text))(t)
		resp := must.Get(http.ReadResponse(in, nil))(t)
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != want {
			t.Fatalf("request %d: %d %s %v", i, resp.StatusCode, body, err)
		}
	}
}

// TestBrokenConnectionsAreNotErrors checks that interrupted requests are not logged as errors.
func TestBrokenConnectionsAreNotErrors(t *testing.T) {
	s := start(t)
	for _, length := range []string{"Content-Length: 10000", "Transfer-Encoding: chunked"} {
		for _, target := range []string{"POST /records?topic-name=t", "PUT /topic?topic-name=t", "PUT /offsets?group=g&topic-name=t&partition=0"} {
			conn := s.dial()
			fmt.Fprintf(conn, "%s HTTP/1.1\r\n%s%s\r\n\r\n5\r\nabcde\r\n", target, validHead, length)
			sebtest.Eventually(t, "the body is being read", func() bool { return s.budget.Class(budget.Produce).Used() > 0 })
			_ = socketOf(conn).SetLinger(0)
			conn.Close()
			sebtest.Eventually(t, "the body is aborted", func() bool { return s.budget.Class(budget.Produce).Used() == 0 })
		}
	}
	if strings.Contains(s.log.String(), "level=ERROR") {
		t.Errorf("%s", s.log)
	}
}
