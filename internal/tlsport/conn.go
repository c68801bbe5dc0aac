package tlsport

import (
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

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
