package conformance

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"sync"

	"github.com/sebbroker/seb/test/testenv"
)

// proxy is between a client and a broker. Unlike package faultproxy it knows requests and answers, and each
// fault meets exactly the requests that a rule names. Its methods may be called concurrently.
type proxy struct {
	address string // stays the same
	tls     *tls.Config
	client  http.Client

	mu      sync.Mutex // guards the fields below
	server  *http.Server
	refuses bool
	target  string // host:port
	rule    *rule
}

// rule is a fault of the requests that match. Several proxies may share it.
type rule struct {
	hits  func(r *http.Request) bool
	times int // requests that meet the fault; 0: all
	act   func(x *exchange)

	mu   sync.Mutex // guards seen
	seen int        // matching requests
}

// meets reports whether a request meets the fault.
func (f *rule) meets(r *http.Request) bool {
	if f == nil || !f.hits(r) {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen++
	return f.times == 0 || f.seen <= f.times
}

// requests returns how many requests have matched.
func (f *rule) requests() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen
}

// exchange is a request that meets a fault.
type exchange struct {
	p    *proxy
	w    http.ResponseWriter
	r    *http.Request
	body []byte
}

// reply is an answer.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// newProxy listens on a free port of 127.0.0.1. The caller calls refuse in the end.
func newProxy(conf *tls.Config) (*proxy, error) {
	address, err := testenv.FreeAddress()
	if err != nil {
		return nil, err
	}
	p := &proxy{address: address, tls: conf, client: http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	return p, p.listen()
}

// secured is a listener with TLS. Like a broker it closes connections without TLS. Package http would answer
// them if it knew that they are connections of package tls.
type secured struct {
	net.Listener
	conf *tls.Config
}

func (s *secured) Accept() (net.Conn, error) {
	c, err := s.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return struct{ net.Conn }{tls.Server(c, s.conf)}, nil
}

// url returns the address for clients.
func (p *proxy) url() string {
	if p.tls != nil {
		return "https://" + p.address
	}
	return "http://" + p.address
}

// listen lets clients connect again, at the same address.
func (p *proxy) listen() error {
	l, err := net.Listen("tcp", p.address)
	if err != nil {
		return fmt.Errorf("proxy: %w", err)
	}
	if p.tls != nil {
		l = &secured{l, p.tls}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuses = false
	p.server = &http.Server{Handler: p, ErrorLog: quiet}
	go func(s *http.Server) { _ = s.Serve(l) }(p.server)
	return nil
}

// refuse refuses connections and cuts all that there are.
func (p *proxy) refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuses = true
	_ = p.server.Close()
}

// admit ends refuse, if it was called.
func (p *proxy) admit() error {
	p.mu.Lock()
	refuses := p.refuses
	p.mu.Unlock()
	if refuses {
		return p.listen()
	}
	return nil
}

// set sets where requests go, and the fault; nil: none.
func (p *proxy) set(target string, r *rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target, p.rule = target, r
}

// ServeHTTP implements http.Handler.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	rule := p.rule
	p.mu.Unlock()
	meets := rule.meets(r)
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	x := &exchange{p: p, w: w, r: r, body: body}
	if !meets {
		x.pass()
		return
	}
	rule.act(x)
}

// ask sends the request to the broker.
func (x *exchange) ask(ctx context.Context) (*http.Response, error) {
	x.p.mu.Lock()
	url := "http://" + x.p.target + x.r.URL.RequestURI()
	x.p.mu.Unlock()
	req, err := http.NewRequestWithContext(ctx, x.r.Method, url, bytes.NewReader(x.body))
	if err != nil {
		return nil, err
	}
	req.Header = x.r.Header.Clone()
	if len(x.body) == 0 {
		req.Body = http.NoBody
	}
	return x.p.client.Do(req)
}

// pass forwards the request and its answer. A broker that is gone cuts the connection.
func (x *exchange) pass() {
	resp, err := x.ask(x.r.Context())
	if err != nil {
		x.cut()
	}
	defer resp.Body.Close()
	maps.Copy(x.w.Header(), resp.Header)
	x.w.WriteHeader(resp.StatusCode)
	flush := http.NewResponseController(x.w)
	_ = flush.Flush()
	buf := make([]byte, 32<<10)
	for {
		n, err := resp.Body.Read(buf)
		if n > 0 {
			if _, err := x.w.Write(buf[:n]); err != nil {
				panic(http.ErrAbortHandler)
			}
			_ = flush.Flush()
		}
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			panic(http.ErrAbortHandler)
		}
	}
}

// stored lets the broker answer, and returns its answer. That of a stream has its first bytes.
func (x *exchange) stored() (reply, error) {
	resp, err := x.ask(context.WithoutCancel(x.r.Context()))
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	a := reply{status: resp.StatusCode, header: resp.Header}
	if resp.Header.Get("Content-Type") == "text/event-stream" {
		a.body = make([]byte, streamStart)
		n, err := io.ReadAtLeast(resp.Body, a.body, 1)
		a.body = a.body[:n]
		return a, err
	}
	a.body, err = io.ReadAll(resp.Body)
	return a, err
}

// streamStart bounds how much of a stream stored returns.
const streamStart = 4 << 10

// send sends an answer.
func (x *exchange) send(a reply) {
	maps.Copy(x.w.Header(), a.header)
	x.w.WriteHeader(a.status)
	_, _ = x.w.Write(a.body)
}

// answer sends an answer with a text.
func (x *exchange) answer(status int, kind, body string, header ...string) {
	h := http.Header{"Content-Type": {kind}}
	for i := 0; i+1 < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	x.send(reply{status, h, []byte(body)})
}

// cut resets the connection without an answer.
func (x *exchange) cut() {
	c, _, err := http.NewResponseController(x.w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // HTTP/2, or the client has gone
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
	panic(http.ErrAbortHandler)
}

// cutHead ends the connection in the middle of the answer's head.
func (x *exchange) cutHead() {
	c, _, err := http.NewResponseController(x.w).Hijack()
	if err == nil {
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: application/js")
		_ = c.Close()
	}
	panic(http.ErrAbortHandler)
}

// cutBody ends the connection after half of the answer's body.
func (x *exchange) cutBody(a reply) {
	maps.Copy(x.w.Header(), a.header)
	if len(a.body) < 2 { // an answer without a body ends with its head
		x.cutHead()
	}
	if a.header.Get("Content-Length") == "" && a.header.Get("Content-Type") != "text/event-stream" {
		x.w.Header().Set("Content-Length", fmt.Sprint(len(a.body)))
	}
	x.w.WriteHeader(a.status)
	_, _ = x.w.Write(a.body[:len(a.body)/2])
	_ = http.NewResponseController(x.w).Flush()
	panic(http.ErrAbortHandler)
}
