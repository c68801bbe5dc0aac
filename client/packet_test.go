package client

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/sebbroker/seb/test/must"
)

type countedConn struct {
	net.Conn
	writes *atomic.Int64
}

func (c countedConn) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

// TestOnePacket: the head and the body of a small request leave with one write.
func TestOnePacket(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusNoContent)
	}))
	defer s.Close()
	var writes atomic.Int64
	transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, address)
		return countedConn{c, &writes}, err
	}}
	defer transport.CloseIdleConnections()
	c := must.Get(New(s.URL, Options{HTTPClient: &http.Client{Transport: transport}, RetryTime: -1}))(t)
	defer c.Close()
	for want := int64(1); want <= 3; want++ {
		r := &request{method: http.MethodPost, path: "/topics/demo/records", body: make([]byte, 100), write: true}
		must.NoError(t, c.call(t.Context(), r, nil))
		if n := writes.Load(); n != want {
			t.Fatalf("%d requests took %d writes", want, n)
		}
	}
}

// TestRefusedWithoutABody: a write without a body was not sent if there was no connection.
func TestRefusedWithoutABody(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close() // its address refuses connections
	c, err := New(s.URL, Options{RetryTime: -1})
	must.NoError(t, err)
	defer c.Close()
	_, err = c.HandOver(t.Context())
	if fault, ok := errors.AsType[*Error](err); !ok || fault.Outcome != OutcomeRejected {
		t.Errorf("a refused connection: %v", err)
	}
}
