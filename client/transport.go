package client

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// directBytesMax is the largest request body that transport sends itself. A broker that refuses a
	// larger one may answer before it has read all of it.
	directBytesMax = 64 << 10
	readerBytes    = 64 << 10
	// An idle connection is checked before its next request if it has been idle for checkAfter, and
	// closed after idleMax.
	checkAfter = 10 * time.Millisecond
	idleMax    = 90 * time.Second
)

// transport sends small requests in plain text in the goroutine of their caller. net/http has two
// goroutines for each connection, and the handovers to them and back take longer than the rest of a
// small request. All other requests go to net/http.
type transport struct {
	*http.Transport

	mu    sync.Mutex         // guards the fields below
	idle  map[string][]*conn // by address; the last used one is last
	count int                // of idle
	sweep *time.Timer        // closes connections after idleMax; nil: there is no idle one
}

// conn is a connection of a transport. A request and its answer use it alone.
type conn struct {
	net.Conn
	address string
	in      *bufio.Reader
	out     []byte
	since   time.Time // of being idle
	used    bool      // a request was answered
}

// past is a deadline that ends reads and writes at once.
var past = time.Unix(1, 0)

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if !t.direct(req) {
		return t.Transport.RoundTrip(req)
	}
	ctx := req.Context()
	address := req.URL.Host
	if req.URL.Port() == "" {
		address = net.JoinHostPort(req.URL.Hostname(), "80")
	}
	for {
		c := t.take(address)
		if c == nil {
			to, err := t.DialContext(ctx, "tcp", address)
			if err != nil {
				closeBody(req.Body)
				return nil, err
			}
			c = &conn{Conn: to, address: address, in: bufio.NewReaderSize(to, readerBytes)}
		}
		resp, begun, err := t.exchange(ctx, c, req)
		if err == nil {
			return resp, nil
		}
		_ = c.Close()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		// The broker may have closed an idle connection in the moment in which the request was sent.
		// Only a read may be sent again, because the broker may have got the request.
		if !c.used || begun || req.Method != http.MethodGet {
			return nil, err
		}
	}
}

// direct reports whether transport sends a request itself.
func (t *transport) direct(req *http.Request) bool {
	if req.URL.Scheme != "http" || req.ContentLength < 0 || req.ContentLength > directBytesMax || req.Body != nil && req.ContentLength == 0 ||
		req.Close || req.Host != "" && req.Host != req.URL.Host {
		return false
	}
	if proxy, err := t.Proxy(req); proxy != nil || err != nil {
		return false
	}
	for _, values := range req.Header {
		for _, v := range values {
			if strings.ContainsFunc(v, func(r rune) bool { return r < ' ' || r == 0x7f }) {
				return false // net/http says what is wrong
			}
		}
	}
	return true
}

// exchange sends a request and reads the head of its answer. begun: a byte of the answer has come.
func (t *transport) exchange(ctx context.Context, c *conn, req *http.Request) (resp *http.Response, begun bool, err error) {
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(past) })
	defer func() {
		if err != nil {
			stop()
		}
	}()
	if err := c.send(req); err != nil {
		return nil, false, err
	}
	for resp == nil || resp.StatusCode < http.StatusOK { // interim answers have no body
		if _, err := c.in.Peek(1); err != nil {
			return nil, false, unexpected(err)
		}
		if resp, err = http.ReadResponse(c.in, req); err != nil {
			return nil, true, unexpected(err)
		}
		if resp.StatusCode == http.StatusSwitchingProtocols {
			return nil, true, errors.New("the broker answers with another protocol")
		}
	}
	body := &answerBody{in: resp.Body, t: t, c: c, ctx: ctx, stop: stop, reusable: !resp.Close}
	if resp.Body == http.NoBody {
		body.end(true)
	}
	resp.Body = body
	return resp, true, nil
}

// send writes a request with one system call, so that it arrives at once.
func (c *conn) send(req *http.Request) error {
	b := append(c.out[:0], req.Method...)
	b = append(append(b, ' '), req.URL.RequestURI()...)
	b = append(append(b, " HTTP/1.1\r\nHost: "...), req.URL.Host...)
	for name, values := range req.Header {
		for _, v := range values {
			b = append(append(append(append(b, "\r\n"...), name...), ": "...), v...)
		}
	}
	if req.Body != nil || req.Method != http.MethodGet && req.Method != http.MethodHead {
		b = strconv.AppendInt(append(b, "\r\nContent-Length: "...), req.ContentLength, 10)
	}
	b = append(b, "\r\n\r\n"...)
	if req.Body != nil {
		head := len(b)
		b = append(b, make([]byte, req.ContentLength)...)
		_, err := io.ReadFull(req.Body, b[head:])
		closeBody(req.Body)
		if err != nil {
			return err
		}
	}
	c.out = b
	_, err := c.Write(b)
	return err
}

func closeBody(body io.Closer) {
	if body != nil {
		_ = body.Close() // nothing is lost: it was read
	}
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// answerBody is the body of an answer. The connection is free when it was read to its end.
type answerBody struct {
	in       io.ReadCloser
	t        *transport
	c        *conn // nil: it is free, or closed
	ctx      context.Context
	stop     func() bool
	reusable bool
}

func (b *answerBody) Read(p []byte) (int, error) {
	n, err := b.in.Read(p)
	if err != nil {
		if err != io.EOF && b.ctx.Err() != nil {
			err = context.Cause(b.ctx)
		}
		b.end(err == io.EOF)
	}
	return n, err
}

func (b *answerBody) Close() error {
	b.end(false)
	return nil
}

// end gives the connection back, if all of the answer was read, and closes it otherwise.
func (b *answerBody) end(whole bool) {
	c := b.c
	if b.c = nil; c == nil {
		return
	}
	if !b.stop() || !whole || !b.reusable || c.in.Buffered() > 0 {
		_ = c.Close()
		return
	}
	c.used = true
	b.t.put(c)
}

// take returns an idle connection to an address, or nil.
func (t *transport) take(address string) *conn {
	for {
		t.mu.Lock()
		list := t.idle[address]
		if len(list) == 0 {
			t.mu.Unlock()
			return nil
		}
		c := list[len(list)-1]
		list[len(list)-1] = nil
		t.idle[address] = list[:len(list)-1]
		t.count--
		t.mu.Unlock()
		if time.Since(c.since) < checkAfter || isOpen(c.Conn) {
			return c
		}
		_ = c.Close()
	}
}

func (t *transport) put(c *conn) {
	if cap(c.out) > 2*directBytesMax {
		c.out = nil
	}
	c.since = time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.idle[c.address]) >= t.MaxIdleConnsPerHost {
		_ = c.Close()
		return
	}
	if t.idle == nil {
		t.idle = map[string][]*conn{}
	}
	t.idle[c.address] = append(t.idle[c.address], c)
	t.count++
	if t.sweep == nil {
		t.sweep = time.AfterFunc(idleMax, func() { t.close(time.Now().Add(-idleMax)) })
	}
}

// close closes the connections that are idle since a time before until.
func (t *transport) close(until time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for address, list := range t.idle {
		old := 0
		for old < len(list) && list[old].since.Before(until) {
			_ = list[old].Close()
			old++
		}
		t.count -= old
		if t.idle[address] = append([]*conn(nil), list[old:]...); len(list) == old {
			delete(t.idle, address)
		}
	}
	if t.sweep != nil && t.count == 0 {
		t.sweep.Stop()
		t.sweep = nil
	} else if t.sweep != nil {
		t.sweep.Reset(idleMax)
	}
}

// CloseIdleConnections closes all idle connections.
func (t *transport) CloseIdleConnections() {
	t.close(time.Now().Add(time.Hour))
	t.Transport.CloseIdleConnections()
}
