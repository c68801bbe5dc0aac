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
	"github.com/sebbroker/seb/internal/problem"
	"github.com/sebbroker/seb/internal/tlsport"
)

// guarded is a connection that looks at the heads of requests as they come in: what net/http puts right, or hides, others on
// the way may have read in another way, and then the two disagree on where a request ends. All else is the connection's
// own, sendfile included. Reads and heads are of one goroutine at a time, as net/http has them.
type guarded struct {
	*net.TCPConn
	guard
	port *tlsport.Port
	read bool // something has come
}

// secured is such a connection with TLS. To net/http it is a connection like others, so there is no HTTP/2: its many requests on one
// connection would go past what is limited for each connection here.
type secured struct {
	*tlsport.Conn
	guard
	begun bool        // the handshake is over
	heard atomic.Bool // something has come since
}

// guard is what is seen of a connection.
type guard struct {
	head  head
	inner bool  // the head of a request is neither expected nor coming in
	ahead int64 // bytes that came in then
}

// guardedListener makes its connections guarded.
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
			g.port.FoundTLS(g.RemoteAddr()) // and net/http answers that this is no HTTP
		}
	}
	g.see(p[:n])
	return n, err
}

// noTLS is what a client hears that sends plain text to a port with TLS.
const noTLS = "HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nThis port speaks TLS: want https://\n"

// Read implements net.Conn.
func (s *secured) Read(p []byte) (int, error) {
	if !s.begun {
		if err := s.Handshake(); err != nil {
			if errors.Is(err, tlsport.ErrPlain) {
				s.refuse()
			}
			return 0, io.EOF // it was logged, and there is nobody to answer to
		}
		s.begun = true
	}
	n, err := s.Conn.Read(p)
	if n > 0 {
		s.heard.Store(true)
	}
	s.see(p[:n])
	return n, err
}

// refuseTime and refuseBytes bound the wait for a client to take noTLS: what it has sent and nobody has read would have the kernel
// reset the connection.
const (
	refuseTime  = 250 * time.Millisecond
	refuseBytes = 64 << 10
)

func (s *secured) refuse() {
	c := s.Plain()
	_, _ = c.Write([]byte(noTLS)) // into the empty buffer of the socket
	_ = c.CloseWrite()
	_ = c.SetReadDeadline(time.Now().Add(refuseTime))
	_, _ = io.CopyN(io.Discard, c, refuseBytes)
}

// see looks at what has come in.
func (g *guard) see(b []byte) {
	if !g.inner {
		b = g.head.take(b)
		g.inner = g.head.whole
	}
	g.ahead += int64(len(b))
}

func (g *guard) seen() *guard { return g }

// seenConn is a connection with a guard.
type seenConn interface{ seen() *guard }

// cut ends a connection at once, whatever it is doing.
func cut(conn net.Conn) {
	if s, ok := conn.(*secured); ok {
		_ = s.Cut()
		return
	}
	_ = conn.Close()
}

// mute says whether a connection has never sent anything of a request.
func mute(conn net.Conn) bool {
	if s, ok := conn.(*secured); ok {
		return !s.heard.Load()
	}
	return silent(conn)
}

// next expects the head of the next request. body is the length of the body of the one before, -1 if it was not said.
func (g *guard) next(body int64) {
	// net/http reads one byte ahead to see the end of the connection; a client that has its answer may have sent it.
	early := body >= 0 && g.ahead > body+1
	g.head, g.inner, g.ahead = head{early: early || g.head.early}, false, 0
}

// head is what is seen of a request's head.
type head struct {
	whole bool // its end was seen
	early bool // it, or one before it on this connection, came before its time

	lengths, codings int // headers Content-Length and Transfer-Encoding
	folded, bare     bool

	line  [nameMax]byte // the beginning of the line
	n     int           // bytes of the line so far
	lines int           // before this one
	last  byte
}

// nameMax is enough of a line to tell its name.
const nameMax = 20

// take looks at bytes up to the end of the head and returns the others.
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

// add looks at bytes of a line without its LF. A line may have one CR, before that.
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

// endLine looks at a line and says whether it was the last.
func (h *head) endLine() bool {
	line := h.line[:min(h.n, nameMax)]
	h.n = 0
	if h.lines++; h.lines == 1 {
		return false // the request's own
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

// fault says what is wrong with the head of a request that net/http has accepted.
func (h *head) fault(r *http.Request) *api.Problem {
	switch {
	case h.early || !h.whole:
		return problem.BadField("request", "sent before the answer to the one before it")
	case h.lengths > 1 || h.codings > 1 || h.lengths > 0 && h.codings > 0:
		return problem.BadField("Content-Length", "the length of the body is said more than once")
	case h.codings > 0 && !r.ProtoAtLeast(1, 1):
		return problem.BadField("Transfer-Encoding", "not in HTTP/1.0")
	case h.folded:
		return problem.BadField("header", "goes on in a second line")
	case h.bare:
		return problem.BadField("header", "a line does not end in CR LF")
	case r.ProtoMajor != 1:
		return problem.BadField("request", "want HTTP/1.1")
	case r.URL.Host != "":
		return problem.BadField("request", "this is no proxy: want a path, not a URL")
	}
	return nil
}
