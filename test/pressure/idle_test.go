package pressure

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/check"
)

// openMax returns the largest number of open connections of a listener: those within the limit, and those
// beyond it that wait for their first request.
func (b *broker) openMax(listener string) int {
	return int(b.metric("seb_"+listener+"_connections_limit")) + 32
}

// TestIdleConnections: the kernel holds connections that have sent nothing. Of connections that had
// a request, the broker holds as many as it has slots, and closes the longest idle one for the
// next. Neither delays other clients.
func TestIdleConnections(t *testing.T) {
	beside(t)
	b := start(t, "--batch-wait-time", "0")
	quiet := b.openIdle(func(net.Conn) error { return nil })
	longest := b.visitor()
	t.Logf("%d silent connections: the broker holds %.0f; acknowledgements of another client took at most %s",
		len(quiet), b.metric("seb_http_connections"), longest.Round(time.Millisecond))
	for _, conn := range quiet {
		conn.Close()
	}

	quiet = b.openIdle(func(conn net.Conn) error {
		if _, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			return err
		}
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	})
	longest = b.visitor()
	open := countOpen(t, quiet)
	t.Logf("%d idle connections: %d held, the others closed; acknowledgements of another client took at most %s",
		len(quiet), open, longest.Round(time.Millisecond))
	if open == 0 || open > b.openMax("http") {
		t.Errorf("%d are open", open)
	}
	b.within(limit)
}

// openIdle opens connections that send something and then stay idle. They are closed when the test
// ends.
func (b *broker) openIdle(begin func(net.Conn) error) []net.Conn {
	b.t.Helper()
	var mu sync.Mutex // guards conns
	var conns []net.Conn
	var wg sync.WaitGroup
	const parallel = 50
	for worker := range parallel {
		wg.Go(func() {
			for i := worker; i < *idle; i += parallel {
				conn, err := net.DialTimeout("tcp", b.addr, time.Minute)
				if err == nil {
					err = begin(conn)
				}
				if err != nil {
					b.t.Errorf("connection %d: %v", i, err)
					return
				}
				mu.Lock()
				conns = append(conns, conn)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	b.t.Cleanup(func() {
		for _, conn := range conns {
			conn.Close()
		}
	})
	return conns
}

// visitor produces a few records, each on a separate connection, and returns the longest time to an
// acknowledgement.
func (b *broker) visitor() (longest time.Duration) {
	b.t.Helper()
	const n = 4
	topic := fmt.Sprintf("visitor-%d", time.Now().UnixNano())
	for i := range n {
		begin := time.Now()
		b.produce(topic, i)
		longest = max(longest, time.Since(begin))
	}
	check.Equalf(b.t, len(b.read(topic, 0)), n, "records")
	if open := b.metric("seb_http_connections"); open > float64(b.openMax("http")) {
		b.t.Errorf("the broker holds %.0f connections", open)
	}
	return longest
}

// countOpen returns the number of open connections and checks that none received data.
func countOpen(t *testing.T, conns []net.Conn) (open int) {
	t.Helper()
	var wg sync.WaitGroup
	var mu sync.Mutex // guards open
	until := time.Now().Add(2 * time.Second)
	for _, conn := range conns {
		wg.Go(func() {
			_ = conn.SetReadDeadline(until)
			n, err := io.Copy(io.Discard, conn)
			if n > 0 {
				t.Errorf("a connection received %d bytes", n)
			}
			if errors.Is(err, os.ErrDeadlineExceeded) {
				mu.Lock()
				open++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return open
}
