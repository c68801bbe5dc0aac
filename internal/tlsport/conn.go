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
	// ErrPlain says that a client does not speak TLS.
	ErrPlain = errors.New("plain text where TLS is wanted")
	errLong  = errors.New("a handshake of more than 16 KiB")
)

const (
	// handshakeBytes is what a client may send before the connection is secure: it takes memory that nobody has asked the budget for.
	// Certificates of clients are not asked for, so two KiB are usual.
	handshakeBytes = 16 << 10
	// writeTime is how long a client may take to take the server's part of a handshake, lastTime the end of TLS when there is
	// time, closeTime when there is none.
	writeTime = 5 * time.Second
	lastTime  = time.Second
	closeTime = 10 * time.Millisecond
)

// Conn is a connection with TLS. Handshake has to come before all else; it and Read are of one goroutine at a time. The other methods
// are those of a net.Conn.
type Conn struct {
	*tls.Conn
	port   *Port
	socket *socket
}

// Server is a client's connection with TLS, of a port that is Secure. Its handshake has not begun.
func (p *Port) Server(tcp *net.TCPConn) *Conn {
	s := &socket{TCPConn: tcp, left: handshakeBytes}
	return &Conn{Conn: tls.Server(s, p.config), port: p, socket: s}
}

// Handshake makes the connection secure, within the deadline for reading. What fails is logged; then Plain is the socket, to say
// goodbye.
func (c *Conn) Handshake() error {
	_ = c.SetWriteDeadline(time.Now().Add(writeTime))
	if err := c.Conn.Handshake(); err != nil {
		if c.socket.fault != nil {
			err = c.socket.fault
		}
		c.port.fail(c.RemoteAddr(), err)
		return err
	}
	_ = c.SetWriteDeadline(time.Time{})
	c.socket.left = -1
	return nil
}

// Plain is the connection below.
func (c *Conn) Plain() *net.TCPConn { return c.socket.TCPConn }

// SyscallConn implements syscall.Conn.
func (c *Conn) SyscallConn() (syscall.RawConn, error) { return c.socket.TCPConn.SyscallConn() }

// CloseWrite tells the client that nothing more comes.
func (c *Conn) CloseWrite() error {
	c.socket.last.Store(int64(lastTime))
	_ = c.Conn.CloseWrite() // not before the handshake; and who does not hear it sees the end of the connection
	return c.socket.CloseWrite()
}

// Close ends the connection, hardly waiting for a client that takes nothing.
func (c *Conn) Close() error {
	c.socket.last.Store(int64(closeTime))
	return c.Conn.Close()
}

// Cut ends the connection at once: the client is told nothing.
func (c *Conn) Cut() error { return c.socket.Close() }

// socket is what TLS reads and writes.
type socket struct {
	*net.TCPConn
	left  int // bytes that may still come, until the connection is secure; then -1
	began bool
	fault error
	last  atomic.Int64 // nanoseconds that a write may take from now on, as the last thing; 0: as the caller says
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

// SetWriteDeadline implements net.Conn. Package tls calls it too, to tell a client of the end within five seconds, in which locks
// may be held.
func (s *socket) SetWriteDeadline(t time.Time) error {
	if d := time.Duration(s.last.Load()); d > 0 {
		if most := time.Now().Add(d); t.IsZero() || t.After(most) {
			t = most
		}
	}
	return s.TCPConn.SetWriteDeadline(t)
}
