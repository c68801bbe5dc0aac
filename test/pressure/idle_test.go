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
)

// heldMax is above what 64 MiB hold: 276 connections.
const heldMax = 280

// TestIdleConnections: connections that have sent nothing are the kernel's. Of those that have had a request a broker holds
// as many as it has places for, and ends the one that has been idle for longest for the next, without a word. Neither are
// in the way of who asks for something.
func TestIdleConnections(t *testing.T) {
	b := start(t, "--batch-wait-time", "0")
	quiet := b.crowd(func(net.Conn) error { return nil })
	longest := b.visitor()
	t.Logf("%d connections that have sent nothing: the broker holds %.0f; a client that came then waited %s at most for an acknowledgement",
		len(quiet), b.metric("seb_http_connections"), longest.Round(time.Millisecond))
	for _, conn := range quiet {
		conn.Close()
	}

	quiet = b.crowd(func(conn net.Conn) error {
		if _, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
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
	t.Logf("%d idle connections: %d are held, the others were ended; a client that came then waited %s at most for an acknowledgement",
		len(quiet), open, longest.Round(time.Millisecond))
	if open == 0 || open > heldMax {
		t.Errorf("%d are open", open)
	}
	b.within(limit)
}

// crowd makes connections that begin with something and then say nothing. They are closed when the test ends.
func (b *broker) crowd(begin func(net.Conn) error) []net.Conn {
	b.t.Helper()
	var mu sync.Mutex // guards conns
	var conns []net.Conn
	var wg sync.WaitGroup
	const lanes = 50
	for lane := range lanes {
		wg.Go(func() {
			for i := lane; i < *idle; i += lanes {
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

// visitor produces a few records, each on a connection of its own, and wants them acknowledged. It returns the longest time
// that took.
func (b *broker) visitor() (longest time.Duration) {
	b.t.Helper()
	const n = 4
	topic := fmt.Sprintf("visitor-%d", time.Now().UnixNano())
	for i := range n {
		begin := time.Now()
		b.produce(topic, i)
		longest = max(longest, time.Since(begin))
	}
	if got := len(b.read(topic, 0)); got != n {
		b.t.Errorf("%d records", got)
	}
	if open := b.metric("seb_http_connections"); open > heldMax {
		b.t.Errorf("the broker holds %.0f connections", open)
	}
	return longest
}

// countOpen says how many connections were not ended; none must have been told anything.
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
				t.Errorf("one was told %d bytes", n)
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
