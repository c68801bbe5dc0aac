package pressure

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// TestReadersLeaveRoomForWrites: 400 event streams stay open beside a producer, and more get 429. The
// producer and an operator, each on new connections, are never refused.
func TestReadersLeaveRoomForWrites(t *testing.T) {
	beside(t)
	b := start(t, "--batch-wait-time", "0")
	const readers, more = 400, 200
	open, refused := 0, 0
	for range readers + more {
		conn := must.Get(net.Dial("tcp", b.addr))(t)
		t.Cleanup(func() { conn.Close() })
		fmt.Fprintf(conn, "GET /records?topic-name=first&offset=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nAccept: text/event-stream\r\n\r\n", key)
		line := must.Get(bufio.NewReaderSize(conn, 256).ReadString('\n'))(t)
		switch {
		case strings.Contains(line, "200"):
			open++
		case strings.Contains(line, "429"):
			refused++
		default:
			t.Fatalf("a reader got %q", line)
		}
	}
	if open < readers || refused == 0 {
		t.Errorf("%d readers are open, %d were refused; want %d or more, and some", open, refused, readers)
	}
	for i := range 50 {
		b.produce("first", i+1)
		b.get(b.url + "/topics")
	}
	resp, _, err := b.ask(t.Context(), b.url+"/status", request{})
	check.NoError(t, err)
	check.Equalf(t, resp.StatusCode, http.StatusOK, "status")
	check.Containsf(t, b.Log(), "new ones are refused", "no line about refused readers")
	b.within(limit)
}
