package httpapi

import (
	"bytes"
	"crypto/tls"
	"flag"
	"log/slog"
	"net"
	"testing"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/protocols/tlsport"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

var tlsFlag = flag.Bool("tls", false, "run all tests over TLS: go test ./internal/protocols/httpapi -args -tls")

// tlsPort returns a TLS port and the configuration of a client that trusts it; nil without the
// flag, unless wanted.
func tlsPort(t testing.TB, log *slog.Logger, wanted bool) (*tlsport.Port, *tls.Config) {
	if !*tlsFlag && !wanted {
		return nil, nil
	}
	return secure(t, log)
}

func secure(t testing.TB, log *slog.Logger) (*tlsport.Port, *tls.Config) {
	t.Helper()
	authority, set := testenv.NewAuthority(t), metrics.NewSet()
	cert := must.Get(tlsport.Load(authority.Files(t, t.TempDir(), testenv.Leaf{}), log, set))(t)
	return tlsport.NewPort(tlsport.Options{Name: "http", Certificate: cert, Protocols: []string{"http/1.1"}, Logger: log, Metrics: set}), authority.Trusted()
}

// connect opens a connection to the server.
func (s *server) connect() (net.Conn, error) {
	conn, err := net.Dial("tcp", s.addr)
	if err != nil || s.tls == nil {
		return conn, err
	}
	config := s.tls.Clone()
	config.ServerName = "127.0.0.1"
	return &backgroundConn{Conn: tls.Client(conn, config)}, nil
}

// backgroundConn sends its first bytes, with the handshake, in the background, because the
// connection may be queued. Without TLS the kernel accepts the first bytes.
type backgroundConn struct {
	*tls.Conn
	first chan struct{} // nil: not started
}

// socketOf returns the TCP connection below one of connect.
func socketOf(conn net.Conn) *net.TCPConn {
	if p, ok := conn.(*backgroundConn); ok {
		conn = p.NetConn()
	}
	return conn.(*net.TCPConn)
}

func (p *backgroundConn) Write(b []byte) (int, error) {
	if p.first != nil {
		<-p.first
		return p.Conn.Write(b)
	}
	p.first = make(chan struct{})
	sent := bytes.Clone(b)
	go func() {
		defer close(p.first)
		_, _ = p.Conn.Write(sent) // an error shows when the answer is read
	}()
	return len(b), nil
}
