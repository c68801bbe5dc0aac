package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// serveRaw answers each connection with a function of its own, in the order of the connections.
func serveRaw(t *testing.T, conns ...func(net.Conn)) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, serve := range conns {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serve(c)
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return "http://" + l.Addr().String()
}

// answerRaw reads requests and sends an answer to each.
func answerRaw(answers ...string) func(net.Conn) {
	return func(c net.Conn) {
		in := bufio.NewReader(c)
		for _, a := range answers {
			req, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, req.Body)
			_, _ = io.WriteString(c, a)
		}
	}
}

const okAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

func newTransport(t *testing.T) *transport {
	tr := &transport{Transport: http.DefaultTransport.(*http.Transport).Clone()}
	tr.MaxIdleConnsPerHost = 4
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// send sends a request with a body ("": a GET) and returns the body of the answer.
func send(ctx context.Context, tr *transport, url, body string) (string, error) {
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return "", err
	}
	(&sentBody{data: []byte(body)}).attach(req)
	resp, err := tr.RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

func TestTransportSendsASmallRequestAtOnce(t *testing.T) {
	got := make(chan string, 1)
	url := serveRaw(t, func(c net.Conn) {
		b := make([]byte, 256<<10)
		n, _ := c.Read(b)
		got <- string(b[:n])
		_, _ = io.WriteString(c, okAnswer)
	})
	body := strings.Repeat("x", 20<<10)
	if answer, err := send(t.Context(), newTransport(t), url+"/a?b=c", body); err != nil || answer != "ok" {
		t.Fatalf("answer %q, %v", answer, err)
	}
	want := fmt.Sprintf("POST /a?b=c HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n%s", strings.TrimPrefix(url, "http://"), len(body), body)
	if request := <-got; request != want {
		t.Errorf("the first read has %d bytes: %.200q, want %d", len(request), request, len(want))
	}
}

func TestTransportUsesAConnectionAgain(t *testing.T) {
	chunked := "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
	empty := "HTTP/1.1 204 No Content\r\n\r\n"
	tr := newTransport(t)
	url := serveRaw(t, answerRaw(okAnswer, chunked, empty, okAnswer)) // it accepts no other connection
	for i, want := range []string{"ok", "ok", "", "ok"} {
		body := ""
		if i%2 == 1 {
			body = "x"
		}
		if answer, err := send(t.Context(), tr, url, body); err != nil || answer != want {
			t.Errorf("request %d: answer %q, %v; want %q", i, answer, err, want)
		}
	}
}

func TestTransportNoticesAClosedConnection(t *testing.T) {
	tr := newTransport(t)
	url := serveRaw(t, answerRaw(okAnswer), answerRaw(okAnswer))
	if _, err := send(t.Context(), tr, url, "x"); err != nil {
		t.Fatal(err)
	}
	tr.mu.Lock()
	for _, list := range tr.idle {
		if _, err := list[0].in.Peek(1); err != io.EOF { // it waits for the end of the connection
			t.Errorf("read of an idle connection: %v", err)
		}
		list[0].since = time.Now().Add(-checkAfter)
	}
	tr.mu.Unlock()
	if _, err := send(t.Context(), tr, url, "x"); err != nil {
		t.Errorf("POST after the broker has closed the connection: %v", err)
	}
}

func TestTransportRepeatsOnlyReads(t *testing.T) {
	noAnswer := func(c net.Conn) { answerRaw(okAnswer, "")(c) }
	for _, c := range []struct {
		body string
		ok   bool
	}{{"", true}, {"x", false}} {
		tr := newTransport(t)
		url := serveRaw(t, noAnswer, answerRaw(okAnswer))
		if _, err := send(t.Context(), tr, url, c.body); err != nil {
			t.Fatal(err)
		}
		if _, err := send(t.Context(), tr, url, c.body); (err == nil) != c.ok {
			t.Errorf("body %q, connection closed instead of an answer: %v", c.body, err)
		}
	}
}

func TestTransportEndsWithTheContext(t *testing.T) {
	why := errors.New("enough")
	tr := newTransport(t)
	for name, part := range map[string]string{"no answer": "", "a part of the body": "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no"} {
		ctx, cancel := context.WithCancelCause(t.Context())
		url := serveRaw(t, func(c net.Conn) {
			answerRaw(part)(c)
			cancel(why)
			_, _ = c.Read(make([]byte, 1)) // until the client has closed the connection
		})
		if _, err := send(ctx, tr, url, "x"); !errors.Is(err, why) {
			t.Errorf("%s: %v, want %v", name, err, why)
		}
	}
	if tr.count != 0 {
		t.Errorf("%d idle connections, want none", tr.count)
	}
}

func TestTransportLeavesOtherRequestsToNetHTTP(t *testing.T) {
	for name, change := range map[string]func(*http.Request){
		"TLS":               func(r *http.Request) { r.URL.Scheme = "https" },
		"a large body":      func(r *http.Request) { (&sentBody{data: make([]byte, directBytesMax+1)}).attach(r) },
		"an unknown length": func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader("x")) },
		"an invalid header": func(r *http.Request) { r.Header.Set("A", "b\r\nC: d") },
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1/", nil)
		if err != nil {
			t.Fatal(err)
		}
		tr := newTransport(t)
		if !tr.direct(req) {
			t.Fatal("a small request is not sent directly")
		}
		if change(req); tr.direct(req) {
			t.Errorf("%s: sent directly", name)
		}
	}
}

func TestTransportClosesIdleConnections(t *testing.T) {
	tr := newTransport(t)
	closed := make(chan error, 1)
	url := serveRaw(t, func(c net.Conn) {
		answerRaw(okAnswer)(c)
		_, err := c.Read(make([]byte, 1))
		closed <- err
	})
	if _, err := send(t.Context(), tr, url, ""); err != nil {
		t.Fatal(err)
	}
	tr.close(time.Now().Add(-time.Minute))
	if tr.count != 1 {
		t.Errorf("%d idle connections, want the new one", tr.count)
	}
	tr.CloseIdleConnections()
	if err := <-closed; err != io.EOF || tr.count != 0 || tr.sweep != nil {
		t.Errorf("read of the broker: %v; %d idle connections", err, tr.count)
	}
}
