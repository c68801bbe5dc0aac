package httpconn

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/protocols/problem"
	"github.com/sebbroker/seb/internal/protocols/tlsport"
)

// guarded is a connection that checks the heads of its requests. net/http repairs or hides
// malformed heads. A proxy may have read such a head differently, and then the two disagree about
// where a request ends. All other methods are those of the TCP connection, including sendfile.
// net/http reads from one goroutine at a time.
type guarded struct {
	*net.TCPConn
	guard
	port *tlsport.Port
	read bool // bytes have arrived

	writeUntil atomic.Int64 // the last write deadline, ns since 1970; 0: unknown
}

// secured is a guarded connection with TLS. net/http does not know about the TLS, so there is no
// HTTP/2: many requests on one connection would bypass the limits for each connection.
type secured struct {
	*tlsport.Conn
	guard
	begun bool        // the handshake is complete
	heard atomic.Bool // bytes have arrived since
}

// guard tracks the requests of a connection.
type guard struct {
	slot  *ConnSlot // set by Connections before the first read
	head  head
	inner bool  // no head is expected: the body of a request is arriving
	ahead int64 // bytes received after the head
}

// guardedListener accepts guarded connections.
type guardedListener struct {
	*net.TCPListener
	port *tlsport.Port
}

// Accept implements net.Listener.
func (l guardedListener) Accept() (net.Conn, error) {
	conn, err := l.AcceptTCP()
	if err != nil {
		return nil, err
	}
	if l.port.Secure() {
		return &secured{Conn: l.port.Server(conn)}, nil
	}
	return &guarded{TCPConn: conn, port: l.port}, nil
}

// Read implements net.Conn.
func (g *guarded) Read(p []byte) (int, error) {
	n, err := g.TCPConn.Read(p)
	if n > 0 && !g.read {
		g.read = true
		if tlsport.IsTLS(p[:n]) {
			g.port.FoundTLS(g.RemoteAddr()) // net/http answers that this is not HTTP
		}
	}
	g.observe(p[:n])
	return n, err
}

// SetWriteDeadline implements net.Conn. It skips the deadline that is set already, because a timer
// of the runtime costs as much as the rest of a small answer.
func (g *guarded) SetWriteDeadline(t time.Time) error {
	if at := t.UnixNano(); g.writeUntil.Swap(at) == at && at != 0 {
		return nil
	}
	return g.TCPConn.SetWriteDeadline(t)
}

// SetDeadline implements net.Conn.
func (g *guarded) SetDeadline(t time.Time) error {
	g.writeUntil.Store(0)
	return g.TCPConn.SetDeadline(t)
}

// noTLS is the answer to plain text on a port with TLS.
const noTLS = "HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nThis port speaks TLS: want https://\n"

// Read implements net.Conn.
func (s *secured) Read(p []byte) (int, error) {
	if !s.begun {
		if err := s.Handshake(); err != nil {
			switch {
			case errors.Is(err, tlsport.ErrPlain):
				_, _ = s.Plain().Write([]byte(noTLS)) // fits the empty buffer of the socket
				s.settle()
			case errors.Is(err, tlsport.ErrCertificate):
				s.settle()
			}
			return 0, io.EOF // already logged; no HTTP response is possible
		}
		s.begun = true
	}
	n, err := s.Conn.Read(p)
	if n > 0 {
		s.heard.Store(true)
	}
	s.observe(p[:n])
	return n, err
}

// settleTime and settleBytes bound the read of what the client has already sent. Without that read
// the kernel resets the connection, and the client does not receive noTLS, or the alert that tells
// why its certificate is refused.
const (
	settleTime  = 250 * time.Millisecond
	settleBytes = 64 << 10
)

func (s *secured) settle() {
	c := s.Plain()
	_ = c.CloseWrite()
	_ = c.SetReadDeadline(time.Now().Add(settleTime))
	_, _ = io.CopyN(io.Discard, c, settleBytes)
}

// observe checks bytes that have arrived.
func (g *guard) observe(b []byte) {
	if !g.inner {
		b = g.head.take(b)
		g.inner = g.head.whole
	}
	g.ahead += int64(len(b))
}

func (g *guard) seen() *guard { return g }

// seenConn is a connection with a guard.
type seenConn interface{ seen() *guard }

// cut closes a connection immediately, without the end of TLS.
func cut(conn net.Conn) {
	if s, ok := conn.(*secured); ok {
		_ = s.Cut()
		return
	}
	_ = conn.Close()
}

// mute reports whether a connection has never sent any part of a request.
func mute(conn net.Conn) bool {
	if s, ok := conn.(*secured); ok {
		return !s.heard.Load()
	}
	return silent(conn)
}

// next prepares for the head of the next request. body is the length of the previous request's
// body, -1 if unknown.
func (g *guard) next(body int64) {
	// net/http reads one byte ahead to detect the end of the connection. A client that has its
	// answer may have sent it.
	early := body >= 0 && g.ahead > body+1
	g.head, g.inner, g.ahead = head{early: early || g.head.early}, false, 0
}

// head is the state of checking a request's head.
type head struct {
	whole bool // its end has arrived
	early bool // it, or an earlier one on this connection, arrived early

	lengths, codings int // numbers of the headers Content-Length and Transfer-Encoding
	folded, bare     bool

	line  [nameMax]byte // start of the current line
	n     int           // length of the current line so far
	lines int           // complete lines
	last  byte
}

// nameMax bytes of a line are enough to recognize its name.
const nameMax = 20

// take checks bytes up to the end of the head and returns the rest.
func (h *head) take(b []byte) []byte {
	for len(b) > 0 {
		end := bytes.IndexByte(b, '\n')
		if end < 0 {
			h.add(b)
			return nil
		}
		h.add(b[:end])
		b = b[end+1:]
		h.bare = h.bare || h.last != '\r'
		if h.endLine() {
			return b
		}
		h.last = '\n'
	}
	return nil
}

// add checks bytes of a line without its LF. A line may have one CR, directly before the LF.
func (h *head) add(b []byte) {
	if len(b) == 0 {
		return
	}
	h.bare = h.bare || h.last == '\r'
	h.last = b[len(b)-1]
	for len(b) > 0 {
		text, rest, found := bytes.Cut(b, []byte("\r"))
		h.bare = h.bare || found && len(rest) > 0
		if h.n < nameMax {
			copy(h.line[h.n:], text)
		}
		h.n += len(text)
		b = rest
	}
}

// endLine checks a complete line and reports whether it ends the head.
func (h *head) endLine() bool {
	line := h.line[:min(h.n, nameMax)]
	h.n = 0
	if h.lines++; h.lines == 1 {
		return false // an empty line before the request line
	}
	if len(line) == 0 {
		h.whole = true
		return true
	}
	name, _, _ := bytes.Cut(line, []byte(":"))
	switch {
	case line[0] == ' ' || line[0] == '\t':
		h.folded = true
	case bytes.EqualFold(name, []byte("Content-Length")):
		h.lengths++
	case bytes.EqualFold(name, []byte("Transfer-Encoding")):
		h.codings++
	}
	return false
}

// fault returns what is wrong with the head of a request that net/http has accepted, or nil.
func (h *head) fault(r *http.Request) *api.Problem {
	switch {
	case h.early || !h.whole:
		return problem.BadField("request", "sent before the answer to the one before it")
	case h.lengths > 1 || h.codings > 1 || h.lengths > 0 && h.codings > 0:
		return problem.BadField("Content-Length", "the length of the body is given more than once")
	case h.codings > 0 && !r.ProtoAtLeast(1, 1):
		return problem.BadField("Transfer-Encoding", "not in HTTP/1.0")
	case h.folded:
		return problem.BadField("header", "continued on a second line")
	case h.bare:
		return problem.BadField("header", "a line does not end in CR LF")
	case r.ProtoMajor != 1:
		return problem.BadField("request", "want HTTP/1.1")
	case r.URL.Host != "":
		return problem.BadField("request", "this is no proxy: want a path, not a URL")
	}
	return nil
}
