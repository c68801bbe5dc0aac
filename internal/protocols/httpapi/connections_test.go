package httpapi

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/sebtest"
)

// Which connections are served when there are not enough slots.

const health = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"

// ask sends text on a connection and checks the status of the answer.
func ask(t *testing.T, conn net.Conn, text string, status int) *http.Response {
	t.Helper()
	_ = conn.SetDeadline(time.Now().Add(sebtest.Limit))
	if _, err := io.WriteString(conn, text); err != nil {
		t.Error(err)
		return nil
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Errorf("%.40q: %v", text, err)
		return nil
	}
	if _, err = io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != status {
		t.Errorf("%.40q: %d %v, want %d", text, resp.StatusCode, err, status)
	}
	return resp
}

// endedSome waits for the end of n of the connections without an answer. It accepts any of them: an
// answer arrives before its connection counts as idle, so the order in which they became idle is
// unknown.
func endedSome(t *testing.T, conns []net.Conn, n int) {
	t.Helper()
	results := make(chan error, len(conns))
	for _, conn := range conns {
		_ = conn.SetDeadline(time.Now().Add(sebtest.Limit))
		go func() {
			got, err := io.Copy(io.Discard, conn)
			if got > 0 {
				err = fmt.Errorf("%d bytes", got)
			} else if !errors.Is(err, os.ErrDeadlineExceeded) {
				err = nil // closed or reset
			}
			results <- err
		}()
	}
	for range n {
		check.NoError(t, <-results)
	}
}

// busy occupies n slots with readers that wait for a record of topic t.
func (s *server) busy(n int) []net.Conn {
	s.t.Helper()
	var conns []net.Conn
	for range n {
		conn := s.dial()
		fmt.Fprintf(conn, "GET /records?topic-name=t&offset=1&timeout=5m HTTP/1.1\r\nHost: x\r\nAccept: */*\r\nAuthorization: %s\r\n\r\n", canary)
		conns = append(conns, conn)
	}
	t := s.t.(*testing.T)
	sebtest.Eventually(t, "the readers wait", func() bool { return s.api.stops.Waits() == n })
	return conns
}

// keep occupies n slots with connections that had an authorized request.
func (s *server) keep(n int) (kept []net.Conn) {
	for range n {
		conn := s.dial()
		ask(s.t.(*testing.T), conn, "GET /topics HTTP/1.1\r\nHost: x\r\nAccept: */*\r\nAuthorization: "+canary+"\r\n\r\n", http.StatusOK)
		kept = append(kept, conn)
	}
	return kept
}

func TestIdleConnectionsAreEvicted(t *testing.T) {
	for name, text := range map[string]string{
		"silent":      "",
		"half a head": "GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ",
		"idle":        health,
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, func(c *setup) { c.http.Connections = 3 })
			var quiet []net.Conn
			for range 30 {
				conn := s.dial()
				if text == health {
					ask(t, conn, text, 200)
				} else {
					_, _ = io.WriteString(conn, text)
				}
				quiet = append(quiet, conn)
			}
			ask(t, s.dial(), health, 200)
			if n := s.api.connections.Slots.Open(); n > 3 {
				t.Errorf("%d connections", n)
			}
			if text == "" {
				return // the kernel still holds most of them
			}
			endedSome(t, quiet, 27)
			if n := s.api.metrics.evicted.Get(); n < 27 {
				t.Errorf("%d connections were counted as evicted", n)
			}
		})
	}
}

// TestAuthenticatedConnectionsAreKept: at the limit a client keeps its connections between requests
// and a new connection is refused, until one of them has been idle for long.
func TestAuthenticatedConnectionsAreKept(t *testing.T) {
	t.Parallel()
	topics := "GET /topics HTTP/1.1\r\nHost: x\r\nAccept: */*\r\nAuthorization: " + canary + "\r\n\r\n"
	trim := "POST /topic/trim?topic-name=t&offset=0 HTTP/1.1\r\nHost: x\r\nAccept: */*\r\nContent-Length: 0\r\nAuthorization: " + canary + "\r\n\r\n"
	s := start(t, func(c *setup) {
		c.http.Connections, c.http.QueueWait, c.http.KeepIdle = 3, 20*time.Millisecond, time.Hour
	})
	kept := []net.Conn{s.dial(), s.dial(), s.dial()}
	for range 20 {
		for _, conn := range kept {
			ask(t, conn, topics, http.StatusOK)
		}
		ask(t, s.dial(), topics, http.StatusOK) // an operator always gets in
		resp := ask(t, s.dial(), trim, http.StatusTooManyRequests)
		if resp == nil || resp.Header.Get("Retry-After") == "" || !resp.Close {
			t.Errorf("connection over the limit: %+v", resp)
		}
	}
	check.Equalf(t, s.api.metrics.evicted.Get(), 0, "connections were evicted")

	s = start(t, func(c *setup) { c.http.Connections, c.http.QueueWait, c.http.KeepIdle = 3, time.Hour, time.Millisecond })
	kept = []net.Conn{s.dial(), s.dial(), s.dial()}
	for _, conn := range kept {
		ask(t, conn, topics, http.StatusOK)
	}
	ask(t, s.dial(), topics, http.StatusOK)
	endedSome(t, kept, 1)
}

// TestNoWholeRequestIsLost checks that many concurrent requests all get an answer, although there
// are few slots.
func TestNoWholeRequestIsLost(t *testing.T) {
	s := start(t, func(c *setup) { c.http.Connections, c.http.QueueWait = 4, time.Hour })
	var wg sync.WaitGroup
	for range 400 {
		conn := s.dial()
		_, _ = io.WriteString(conn, health)
		wg.Go(func() {
			ask(t, conn, "", 200)
			conn.Close()
		})
	}
	wg.Wait()
}

// TestWaitingReadersGiveWay: at the limit a further reader is refused, and a write takes the slot of the
// reader that has waited longest. Monitoring takes none.
func TestWaitingReadersGiveWay(t *testing.T) {
	s := start(t, func(c *setup) {
		c.http.Connections, c.http.QueueWait, c.http.KeepIdle = 3, time.Hour, time.Hour
	})
	s.mustPost("topic-name=t", api.TextPlain, "a")
	s.client.CloseIdleConnections()
	sebtest.Eventually(t, "its connection is closed", func() bool { return s.api.connections.Slots.Open() == 0 })
	poll, stream := s.busy(1)[0], s.dial()
	key := "Authorization: " + canary + "\r\n"
	read := "GET /records?topic-name=t&offset=1&timeout=5m HTTP/1.1\r\nHost: x\r\n" + key
	fmt.Fprint(stream, read+"Accept: text/event-stream\r\n\r\n")
	sebtest.Eventually(t, "both readers wait", func() bool { return s.api.stops.Waits() == 2 })
	third := s.dial()
	fmt.Fprint(third, read+"Accept: */*\r\n\r\n")
	sebtest.Eventually(t, "three readers wait", func() bool { return s.api.stops.Waits() == 3 })
	refused := s.api.connections.Slots.Refused()
	for _, c := range []struct {
		text   string
		status int
	}{
		{read + "Accept: */*\r\n\r\n", http.StatusTooManyRequests},
		{read + "Accept: text/event-stream\r\n\r\n", http.StatusTooManyRequests},
		{health, http.StatusOK},
		{"GET /metrics HTTP/1.1\r\nHost: x\r\n" + key + "\r\n", http.StatusOK},
		{"GET /topics HTTP/1.1\r\nHost: x\r\nAuthorization: wrong\r\n\r\n", http.StatusUnauthorized},
	} {
		resp := ask(t, s.dial(), c.text, c.status)
		if resp != nil && (!resp.Close || c.status == http.StatusTooManyRequests && resp.Header.Get("Retry-After") == "") {
			t.Errorf("%.60q: %+v", c.text, resp)
		}
	}
	check.Equalf(t, s.api.connections.Slots.Refused()-refused, 2, "refused connections")
	check.Equalf(t, s.api.stops.Waits(), 3, "readers")

	post := "POST /records?topic-name=other HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nAccept: */*\r\nContent-Length: 1\r\n" + key + "\r\nx"
	producer := s.dial()
	if resp := ask(t, producer, post, http.StatusCreated); resp != nil && resp.Close {
		t.Error("the connection of a producer that took a slot is closed")
	}
	if resp := ask(t, poll, "", http.StatusPartialContent); resp != nil && !resp.Close {
		t.Error("the connection of a reader that gave way is not closed")
	}
	check.Equalf(t, s.api.stops.Waits(), 2, "readers")
	ask(t, s.dial(), post, http.StatusCreated)
	ended := make(chan error, 2) // either may have waited for longer
	for _, reader := range []net.Conn{stream, third} {
		go func() {
			resp, err := http.ReadResponse(bufio.NewReader(reader), nil)
			if err == nil {
				_, err = io.Copy(io.Discard, resp.Body)
			}
			ended <- err
		}()
	}
	check.NoErrorf(t, <-ended, "the reader that gave way does not end in order")
	ask(t, producer, post, http.StatusCreated)
}

func TestFreeSlotGoesToQueuedConnection(t *testing.T) {
	t.Parallel()
	s := start(t, func(c *setup) { c.http.Connections, c.http.QueueWait, c.http.KeepIdle = 2, time.Hour, time.Hour })
	kept := s.keep(2)
	var wg sync.WaitGroup
	for range 4 {
		conn := s.dial()
		_, _ = io.WriteString(conn, health)
		wg.Go(func() {
			if resp := ask(t, conn, "", 200); resp != nil && !resp.Close {
				conn.Close() // the last of them; no connection is queued any more
			}
		})
	}
	sebtest.Eventually(t, "a connection is queued", func() bool { return s.api.connections.HasQueued() })
	kept[0].Close()
	wg.Wait()
}

// slowPost starts a body that never ends.
func (s *server) slowPost(length int) net.Conn {
	conn := s.dial()
	fmt.Fprintf(conn, "POST /records?topic-name=t HTTP/1.1\r\nHost: x\r\nAuthorization: %s\r\nAccept: */*\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\nx",
		canary, length)
	return conn
}

func TestSlowBodiesAreEvicted(t *testing.T) {
	t.Parallel()
	s := start(t, func(c *setup) {
		c.http.Connections, c.http.QueueWait, c.http.StepTimeout = 3, time.Hour, time.Hour
	})
	var slow []net.Conn
	for range 3 {
		slow = append(slow, s.slowPost(1000))
	}
	sebtest.Eventually(t, "the bodies are being read", func() bool { return s.budget.Class(budget.Produce).Used() > 3000 })
	ask(t, s.dial(), health, 200)
	answers := make(chan bool, len(slow))
	for _, conn := range slow {
		go func() {
			_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			answers <- err == nil && resp.StatusCode == http.StatusRequestTimeout
		}()
	}
	aborted := 0
	for i := range slow {
		if <-answers {
			aborted++
		}
		if i == 0 { // the others get no answer
			for _, conn := range slow {
				conn.Close()
			}
		}
	}
	if aborted == 0 || aborted == 3 {
		t.Errorf("%d of 3 slow bodies were aborted for one new connection", aborted)
	}
}

func TestSlowBodiesReleaseMemory(t *testing.T) {
	t.Parallel()
	s := start(t, func(c *setup) { c.http.StepTimeout, c.limit = time.Hour, 32<<20 })
	for range 8 {
		s.slowPost(1 << 20)
	}
	body := strings.Repeat("x", 1<<20)
	class := s.budget.Class(budget.Produce)
	sebtest.Eventually(t, "slow bodies leave no memory for one more", func() bool { return class.Limit()-class.Used() < int64(len(body))+100<<10 })
	// A request that finds no memory aborts them, once they are slow. It may get the memory itself then.
	sebtest.Eventually(t, "slow bodies are aborted", func() bool {
		s.post("topic-name=t", api.TextPlain, body)
		return s.api.metrics.evicted.Get() > 0
	})
	sebtest.Eventually(t, "the memory is released", func() bool { return s.post("topic-name=t", api.TextPlain, body).status == http.StatusCreated })
}

// TestUnauthenticatedConnectionsAreClosed: the answer 401 does not wait for the body, and then the
// connection ends.
func TestUnauthenticatedConnectionsAreClosed(t *testing.T) {
	s := start(t, func(c *setup) { c.http.Connections, c.http.QueueWait, c.http.StepTimeout = 2, time.Hour, time.Hour })
	for range 20 {
		conn := s.dial()
		text := "POST /records?topic-name=t HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 1000\r\n\r\nx"
		if resp := ask(t, conn, text, http.StatusUnauthorized); resp != nil && !resp.Close {
			t.Error("the connection was not closed")
		}
	}
	ask(t, s.dial(), health, 200)
}
