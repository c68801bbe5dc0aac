package httpconn

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/protocols/connlimit"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// TestBodyReceived checks that BodyReceived is true only after every byte has arrived.
func TestBodyReceived(t *testing.T) {
	began := make(chan struct{}, 1)
	c := Connections{Drain: NewDrainGroup(), Queued: new(metrics.Counter), Evicted: new(metrics.Counter)}
	c.Slots = connlimit.New(connlimit.Options{}).Listen(connlimit.ListenerOptions{Name: "http", Bytes: IdleBytes, Evict: c.Evict})
	s := c.Server(ServerOptions{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			p := SlotOf(r.Context())
			fault := p.Begin(r)
			whole := p.BodyReceived()
			began <- struct{}{}
			body, err := io.ReadAll(r.Body)
			fmt.Fprint(w, fault == nil, whole, len(body), err)
		}),
		Logger: slog.New(slog.DiscardHandler), HeaderTimeout: time.Minute, IdleTimeout: time.Minute, QueueWait: time.Minute,
	})
	l := must.Get(Listen("127.0.0.1:0", nil))(t)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	conn := must.Get(net.Dial("tcp", l.Addr().String()))(t)
	in := bufio.NewReader(conn)
	for _, c := range []struct{ first, later, want string }{
		{"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", "", "true true 3 <nil>"},
		{"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n", "abc", "true false 3 <nil>"},
		{"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nab", "c", "true false 3 <nil>"},
		{"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", "", "true false 1 <nil>"},
		{"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "", "true false 0 <nil>"},
		{"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", "", "true true 3 <nil>"},
	} {
		for _, text := range []string{c.first, c.later} {
			must.Get(conn.Write([]byte(text)))(t)
			if text == c.first {
				<-began
			}
		}
		resp := must.Get(http.ReadResponse(in, nil))(t)
		if got, err := io.ReadAll(resp.Body); err != nil || string(got) != c.want {
			t.Errorf("%q, then %q: %s (%v), want %s", c.first, c.later, got, err, c.want)
		}
		_ = resp.Body.Close()
	}
	_ = conn.Close()
	check.NoError(t, s.Shutdown(context.Background()))
	<-served
}
