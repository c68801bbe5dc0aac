package riemann

import (
	"bufio"
	"context"
	"crypto/sha1" //nolint:gosec // RFC 6455 demands it, not for security
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// keySuffix is appended to the client's key in the handshake (RFC 6455, section 1.3).
const keySuffix = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

// Opcodes of frames (RFC 6455, section 5.2).
const (
	opText  = 1
	opClose = 8
	opPing  = 9
	opPong  = 10

	finBit  = 0x80
	maskBit = 0x80
)

// Status codes of a close (RFC 6455, section 7.4).
const (
	statusNormal   = 1000
	statusAway     = 1001
	statusProtocol = 1002
	statusTooLarge = 1009
)

const (
	controlMax = 125     // bytes of a control frame
	dataMax    = 4 << 10 // bytes of a frame from the client, which has nothing to say
)

// upgrading reports whether a request asks for a WebSocket, or why it is refused.
func upgrading(r *http.Request) (bool, *refusal) {
	if !hasToken(r.Header.Values("Upgrade"), "websocket") {
		return false, nil
	}
	key, err := base64.StdEncoding.DecodeString(r.Header.Get("Sec-WebSocket-Key"))
	switch {
	case !hasToken(r.Header.Values("Connection"), "upgrade"), err != nil, len(key) != 16:
		return false, &refusal{http.StatusBadRequest, "invalid WebSocket handshake"}
	case r.Header.Get("Sec-WebSocket-Version") != "13":
		return false, &refusal{http.StatusUpgradeRequired, "want Sec-WebSocket-Version 13"}
	}
	return true, nil
}

// hasToken reports whether a list of tokens in headers has one, in any case.
func hasToken(values []string, token string) bool {
	for _, v := range values {
		for one := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.TrimSpace(one), token) {
				return true
			}
		}
	}
	return false
}

// socket serves a WebSocket.
func (f *feed) socket(w http.ResponseWriter, r *http.Request) *refusal {
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return &refusal{http.StatusHTTPVersionNotSupported, "a WebSocket needs HTTP/1.1"}
	}
	defer conn.Close()
	sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + keySuffix)) //nolint:gosec // see the import
	s := &socket{conn: conn, step: f.o.Step}
	err = s.write(fmt.Appendf(nil, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n",
		base64.StdEncoding.EncodeToString(sum[:])))
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	var reading sync.WaitGroup
	reading.Go(func() {
		defer cancel()
		s.read(rw.Reader, 2*f.o.Heartbeat+f.o.Step)
	})
	if r.URL.Query().Get("subscribe") != "true" {
		err = s.send(f.first)
	} else if err = f.run(ctx, s); err == nil && r.Context().Err() != nil {
		s.close(statusAway)
	}
	if err == nil {
		s.close(statusNormal)
	}
	conn.Close() // ends the reader
	reading.Wait()
	return nil
}

// socket is a WebSocket, and the sink of its feed.
type socket struct {
	conn net.Conn
	step time.Duration

	mu     sync.Mutex // guards the writes, and closed
	closed bool       // a close frame was sent
}

func (s *socket) write(b []byte) error {
	if err := s.conn.SetWriteDeadline(time.Now().Add(s.step)); err != nil {
		return err
	}
	_, err := s.conn.Write(b)
	return err
}

// frame sends a frame.
func (s *socket) frame(op byte, payload []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = op == opClose
	head := []byte{finBit | op}
	switch n := len(payload); {
	case n <= controlMax:
		head = append(head, byte(n))
	case n < 1<<16:
		head = binary.BigEndian.AppendUint16(append(head, 126), uint16(n))
	default:
		head = binary.BigEndian.AppendUint64(append(head, 127), uint64(n))
	}
	return s.write(append(head, payload...))
}

func (s *socket) send(events [][]byte) error {
	for _, e := range events {
		if err := s.frame(opText, e); err != nil {
			return err
		}
	}
	return nil
}

func (s *socket) beat() error { return s.frame(opPing, nil) }

// close sends a close frame with a status, once.
func (s *socket) close(status uint16) {
	_ = s.frame(opClose, binary.BigEndian.AppendUint16(nil, status))
}

// errClosed: the client has closed the WebSocket.
var errClosed = errors.New("closed by the client")

// read reads the frames of the client until one ends the WebSocket, or none arrives for a time. It
// answers pings, and ignores messages.
func (s *socket) read(r *bufio.Reader, silence time.Duration) {
	for {
		if err := s.conn.SetReadDeadline(time.Now().Add(silence)); err != nil {
			return
		}
		status, err := s.readFrame(r)
		if err != nil {
			if status != 0 {
				s.close(status)
			}
			return
		}
	}
}

// readFrame reads one frame. After an error the WebSocket ends with the status, if it is not 0.
func (s *socket) readFrame(r *bufio.Reader) (status uint16, err error) {
	var head [2]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, err
	}
	op, length := head[0]&0x0f, uint64(head[1]&^maskBit)
	control := op >= opClose
	switch {
	case head[1]&maskBit == 0, head[0]&0x70 != 0, control && (head[0]&finBit == 0 || length > controlMax), op > opPong, op > 2 && op < opClose:
		return statusProtocol, fmt.Errorf("invalid frame %x", head)
	case length == 126:
		var more [2]byte
		_, err = io.ReadFull(r, more[:])
		length = uint64(binary.BigEndian.Uint16(more[:]))
	case length == 127:
		var more [8]byte
		_, err = io.ReadFull(r, more[:])
		length = binary.BigEndian.Uint64(more[:])
	}
	switch {
	case err != nil:
		return 0, err
	case length > dataMax:
		return statusTooLarge, fmt.Errorf("frame of %d bytes", length)
	}
	body := make([]byte, 4+length)
	if _, err := io.ReadFull(r, body); err != nil {
		return 0, err
	}
	mask, payload := body[:4], body[4:]
	for i := range payload {
		payload[i] ^= mask[i%4]
	}
	switch op {
	case opPing:
		return 0, s.frame(opPong, payload)
	case opClose:
		return statusNormal, errClosed
	}
	return 0, nil
}

// limited is a listener that closes connections beyond a number at once.
type limited struct {
	net.Listener
	slots chan struct{}
}

// Accept implements net.Listener.
func (l *limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case l.slots <- struct{}{}:
			return &counted{Conn: c, free: sync.OnceFunc(func() { <-l.slots })}, nil
		default:
			c.Close()
		}
	}
}

// counted is an accepted connection.
type counted struct {
	net.Conn
	free func()
}

// Close implements net.Conn.
func (c *counted) Close() error {
	defer c.free()
	return c.Conn.Close()
}
