package httpconn

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/test/must"
)

// TestWatch checks that the context of a request whose body has arrived ends when its client leaves,
// and not before, on a connection that had such requests before.
func TestWatch(t *testing.T) {
	if !watches {
		t.Skip("net/http watches here")
	}
	c := Connections{Drain: NewDrainGroup(), Open: new(metrics.Gauge), Queued: new(metrics.Counter), Evicted: new(metrics.Counter), Refused: new(metrics.Counter)}
	requests, end := make(chan *http.Request), make(chan struct{})
	s := c.Server(ServerOptions{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_ = SlotOf(r.Context()).Begin(r)
			_, _ = io.ReadAll(r.Body)
			requests <- r
			select {
			case <-r.Context().Done():
			case <-end:
			}
			w.WriteHeader(http.StatusNoContent)
		}),
		Logger: slog.New(slog.DiscardHandler), Max: 10, HeaderTimeout: time.Minute, IdleTimeout: time.Minute, QueueWait: time.Minute,
	})
	l, err := Listen("127.0.0.1:0", nil)
	must.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	conn, err := net.Dial("tcp", l.Addr().String())
	must.NoError(t, err)
	in := bufio.NewReader(conn)
	for range 3 {
		_, err := conn.Write([]byte("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"))
		must.NoError(t, err)
		r := <-requests
		slot := SlotOf(r.Context())
		if !slot.conn.(*guarded).watched.Load() {
			t.Error("the request is not watched")
		}
		c.watch() // the first look, and the one that would find the client gone
		c.watch()
		must.NoError(t, r.Context().Err())
		end <- struct{}{}
		resp, err := http.ReadResponse(in, nil)
		must.NoError(t, err)
		_ = resp.Body.Close()
	}
	_, err = conn.Write([]byte("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"))
	must.NoError(t, err)
	r := <-requests
	must.NoError(t, conn.Close())
	<-r.Context().Done()
	must.NoError(t, s.Shutdown(context.Background()))
	<-served
}
