// Package tlsport implements TLS on the broker's ports: a certificate that is reloaded when its
// files change, handshakes with bounded memory, and log lines about connections that fail. It does
// not know the protocol above TLS.
package tlsport

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/VictoriaMetrics/metrics"
)

// Port is the TLS configuration of a listener, which may be plain text. Its methods may be called
// concurrently.
type Port struct {
	config  *tls.Config // nil: plain text
	clients *Clients    // nil: no certificates of clients
	trusted atomic.Pointer[trusted]
	name    string
	log     *slog.Logger
	failed  *metrics.Counter

	mu    sync.Mutex // guards the fields below
	lines map[string]*line
}

// line is the state of one kind of log line.
type line struct {
	at     time.Time
	hidden int // suppressed since the last line
}

// lineEvery is the shortest time between log lines of a kind, so that a client cannot fill the log.
const lineEvery = time.Minute

// Options configure NewPort; Name, Logger and Metrics are required.
type Options struct {
	Name        string       // of the listener, in logs and metrics
	Certificate *Certificate // nil: plain text
	Clients     *Clients     // nil: no certificates of clients
	Protocols   []string     // offered by ALPN
	Logger      *slog.Logger
	Metrics     *metrics.Set
}

// suites are those of TLS 1.2 with forward secrecy and authenticated encryption, without CBC. TLS
// 1.3 has no others.
var suites = []uint16{
	tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
	tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
}

// NewPort returns the TLS configuration of a listener.
func NewPort(o Options) *Port {
	p := &Port{name: o.Name, log: o.Logger, lines: map[string]*line{}}
	p.failed = o.Metrics.NewCounter(fmt.Sprintf("seb_tls_failures_total{listener=%q}", o.Name))
	if o.Certificate != nil {
		p.config = &tls.Config{
			MinVersion: tls.VersionTLS12, CipherSuites: suites, GetCertificate: o.Certificate.get, NextProtos: o.Protocols,
		}
		p.verifyClients(o.Clients)
	}
	return p
}

// trusted is the configuration for the authorities of a trust.
type trusted struct {
	of     *trust
	config *tls.Config
}

// verifyClients makes handshakes ask for certificates. Sessions resume with the certificates of their
// first handshake, so package tls calls verify for them too.
func (p *Port) verifyClients(c *Clients) {
	if c == nil {
		return
	}
	p.clients, p.config.VerifyPeerCertificate, p.config.VerifyConnection = c, c.limit, c.verify
	p.config.ClientAuth = tls.VerifyClientCertIfGiven
	if c.o.Require {
		p.config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	base := p.config.Clone()
	p.config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		t, now := c.trust.Load(), p.trusted.Load()
		if now == nil || now.of != t {
			now = &trusted{t, base.Clone()}
			now.config.ClientCAs = t.pool
			p.trusted.Store(now)
		}
		return now.config, nil // tickets use the keys of p.config
	}
}

// Secure reports whether the port uses TLS. A nil Port does not.
func (p *Port) Secure() bool { return p != nil && p.config != nil }

// IsTLS reports whether the first bytes of a connection are a TLS handshake.
func IsTLS(b []byte) bool { return len(b) >= 2 && b[0] == handshakeRecord && b[1] == 3 }

// handshakeRecord is the first byte that a TLS client sends.
const handshakeRecord = 22

// FoundTLS records that a client started TLS on a port without it.
func (p *Port) FoundTLS(remote net.Addr) {
	if p != nil {
		p.failed.Inc()
		p.note(p.log.Warn, "TLS on a port without TLS, connection closed", remote, nil)
	}
}

// fail logs why a connection did not become secure. The result is err, also as ErrCertificate if that
// is the reason.
func (p *Port) fail(remote net.Addr, err error) error {
	p.failed.Inc()
	var op *net.OpError
	switch reason := reasonOf(err); {
	case reason != "" && p.clients != nil:
		p.refuse(reason, remote, err)
		return fmt.Errorf("%w: %w", ErrCertificate, err)
	case errors.Is(err, ErrPlain):
		p.note(p.log.Warn, "plain text on a port with TLS, connection closed", remote, nil)
	// Package tls reports a client's alert like this.
	case errors.As(err, &op) && op.Op == "remote error":
		p.note(p.log.Warn, "TLS: the client refused the connection", remote, err)
	default: // the client disconnected or is too slow
		p.note(p.log.Debug, "TLS: handshake failed", remote, err)
	}
	return err
}

// note logs through write, a method of the logger, at most once per lineEvery and kind: what, and the
// value of the first attribute in more.
func (p *Port) note(write func(string, ...any), what string, remote net.Addr, err error, more ...any) {
	p.mu.Lock()
	kind := what
	if len(more) > 0 {
		kind += more[1].(string)
	}
	l := p.lines[kind]
	if l == nil {
		l = &line{}
		p.lines[kind] = l
	}
	now := time.Now()
	if now.Sub(l.at) < lineEvery {
		l.hidden++
		p.mu.Unlock()
		return
	}
	hidden := l.hidden
	l.at, l.hidden = now, 0
	p.mu.Unlock()
	args := append([]any{"listener", p.name, "remote", remote.String()}, more...)
	if err != nil {
		args = append(args, "err", err)
	}
	if hidden > 0 {
		args = append(args, "more_before", hidden)
	}
	write(what, args...)
}

// watched are two files that are read again when they change. The name of the second may be "".
type watched struct {
	names [2]string
	seen  [2]stamp
}

// stamp identifies the state of a file.
type stamp struct {
	size     int64
	modified time.Time
	file     any // identity of the file in the system: another file may get the same name
}

func watch(first, second string) watched {
	w := watched{names: [2]string{first, second}}
	w.seen = w.stamps()
	return w
}

// changed reports whether the files must be read: they have changed, or may have, because their last
// change is so recent that a further one would not be visible. Then again is true.
func (w *watched) changed(now time.Time) (changed, again bool) {
	found := w.stamps()
	if found != w.seen {
		w.seen = found
		return true, false
	}
	newest := found[0].modified
	if found[1].modified.After(newest) {
		newest = found[1].modified
	}
	return now.Sub(newest) <= settled, true
}

func (w *watched) stamps() (s [2]stamp) {
	for i, name := range w.names {
		if info, err := os.Stat(name); err == nil {
			s[i] = stamp{info.Size(), info.ModTime(), identity(info)}
		}
	}
	return s
}

var (
	// ErrPlain reports a client that does not speak TLS.
	ErrPlain = errors.New("plain text on a port with TLS")
	errLong  = errors.New("TLS handshake of more than 16 KiB")
	// ErrCertificate reports a client whose certificate is missing or refused.
	ErrCertificate = errors.New("client certificate refused")
)

const (
	// handshakeBytes bounds what a client may send before the connection is secure, because the
	// budget does not cover that memory. A handshake usually takes 2 KiB. A chain of three
	// certificates adds 2 to 6 KiB, in the first handshake or in the ticket of a resumed session.
	handshakeBytes = 16 << 10
	// writeTime bounds the server's writes of a handshake, lastTime the end of TLS in CloseWrite,
	// closeTime that in Close.
	writeTime = 5 * time.Second
	lastTime  = time.Second
	closeTime = 10 * time.Millisecond
)

// Conn is a connection with TLS. Call Handshake before any other method, and Close in the end.
// Handshake and Read belong to one goroutine at a time. The other methods are those of net.Conn.
type Conn struct {
	*tls.Conn
	port   *Port
	socket *socket
	peer   *Peer // set by Handshake
}

// Server returns the TLS side of a client's connection, for a port that is Secure. It does not
// start the handshake.
func (p *Port) Server(tcp *net.TCPConn) *Conn {
	s := &socket{TCPConn: tcp, left: handshakeBytes}
	return &Conn{Conn: tls.Server(s, p.config), port: p, socket: s}
}

// Handshake makes the connection secure, within the read deadline. It logs errors. After an error,
// Plain can be used to answer the client.
func (c *Conn) Handshake() error {
	_ = c.SetWriteDeadline(time.Now().Add(writeTime))
	var before *trust
	if c.port.clients != nil {
		before = c.port.clients.trust.Load()
	}
	err := c.Conn.Handshake()
	if err == nil && before != nil {
		err = c.enroll(before)
	}
	if err != nil {
		if c.socket.fault != nil {
			err = c.socket.fault
		}
		return c.port.fail(c.RemoteAddr(), err)
	}
	_ = c.SetWriteDeadline(time.Time{})
	c.socket.left = -1
	return nil
}

// Plain returns the connection below TLS.
func (c *Conn) Plain() *net.TCPConn { return c.socket.TCPConn }

// SyscallConn implements syscall.Conn.
func (c *Conn) SyscallConn() (syscall.RawConn, error) { return c.socket.TCPConn.SyscallConn() }

// CloseWrite sends the end of TLS and closes the writing side.
func (c *Conn) CloseWrite() error {
	c.socket.last.Store(int64(lastTime))
	// CloseWrite of TLS fails before the handshake. A client that misses the alert sees the end of
	// the connection.
	_ = c.Conn.CloseWrite()
	return c.socket.CloseWrite()
}

// Close closes the connection. It waits at most closeTime for a client that reads nothing.
func (c *Conn) Close() error {
	c.withdraw()
	c.socket.last.Store(int64(closeTime))
	return c.Conn.Close()
}

// Cut closes the connection immediately, without an alert.
func (c *Conn) Cut() error {
	c.withdraw()
	return c.socket.Close()
}

// socket is the connection that TLS reads and writes.
type socket struct {
	*net.TCPConn
	left  int // bytes that may arrive before the connection is secure; then -1
	began bool
	fault error
	// last is the timeout in nanoseconds of all writes from now on, while closing; 0 means the
	// caller's deadline.
	last atomic.Int64
}

// Read implements net.Conn.
func (s *socket) Read(b []byte) (int, error) {
	if s.left < 0 {
		return s.TCPConn.Read(b)
	}
	if s.left == 0 {
		s.fault = errLong
		return 0, errLong
	}
	n, err := s.TCPConn.Read(b[:min(len(b), s.left)])
	s.left -= n
	if n > 0 && !s.began {
		s.began = true
		if b[0] != handshakeRecord {
			s.fault = ErrPlain
			return 0, ErrPlain
		}
	}
	return n, err
}

// SetWriteDeadline implements net.Conn. Package tls calls it too, to send an alert within five
// seconds; locks may be held during that time.
func (s *socket) SetWriteDeadline(t time.Time) error {
	if d := time.Duration(s.last.Load()); d > 0 {
		if most := time.Now().Add(d); t.IsZero() || t.After(most) {
			t = most
		}
	}
	return s.TCPConn.SetWriteDeadline(t)
}
