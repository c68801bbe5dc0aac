package faultproxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sebbroker/seb/test/testenv"
)

// StoreConfig sets the faults of a Store. The zero value injects none.
type StoreConfig struct {
	Rates    Rates
	Latency  time.Duration // largest additional time of a request
	StallMax time.Duration
	LateMax  time.Duration
	BurstMax time.Duration
}

// StoreKinds are the faults of a Store.
var StoreKinds = []Kind{
	Lost, Reset, Broken, BrokenLate, Gateway, GatewayLate, Throttled, Denied, Conflict, Doubled, Late, Stalled, Hung, Slow, Cut,
	Longer, Shorter, OtherRange, Damaged,
}

const (
	// bodyMax bounds a request or answer, which is buffered in memory.
	bodyMax = 64 << 20
	// forwardTime bounds a request to the store itself, even if the broker has disconnected.
	forwardTime = 30 * time.Second
	// damagedMax bounds the names whose bytes were damaged once.
	damagedMax = 1 << 16
)

// Store is a proxy in front of an S3 server. Its methods may be called concurrently.
type Store struct {
	*chance
	server  *httptest.Server
	target  *url.URL
	forward *http.Transport
	config  atomic.Pointer[StoreConfig]
	late    sync.WaitGroup
	blocked atomic.Int64 // end of Block, in nanoseconds since 1970
	denied  atomic.Int64
	slowed  atomic.Int64

	mu      sync.Mutex // guards damaged
	damaged map[string]bool
}

// NewStore starts a proxy in front of the server at endpoint ("http://host:port"). The caller calls
// Close.
func NewStore(endpoint string, seed uint64) (*Store, error) { return NewStoreAt(nil, endpoint, seed) }

// NewStoreAt is NewStore with a listener that it closes; nil: one on loopback.
func NewStoreAt(l net.Listener, endpoint string, seed uint64) (*Store, error) {
	target, err := url.Parse(endpoint)
	if err != nil {
		return nil, fmt.Errorf("fault proxy: %w", err)
	}
	s := &Store{chance: newChance(seed), target: target, damaged: map[string]bool{}}
	s.forward = http.DefaultTransport.(*http.Transport).Clone()
	s.forward.MaxIdleConnsPerHost, s.forward.MaxIdleConns, s.forward.DisableCompression = 256, 0, true
	s.config.Store(&StoreConfig{})
	s.server = httptest.NewUnstartedServer(s)
	if l != nil {
		_ = s.server.Listener.Close()
		s.server.Listener = l
	}
	s.server.Start()
	return s, nil
}

// Spec returns the --bucket of a broker for prefix in the server's bucket, through the proxy.
func (s *Store) Spec(prefix string) string {
	return "s3://" + testenv.Bucket + "/" + prefix + "?endpoint=" + s.server.URL + "&region=us-east-1&path-style=true"
}

// SetConfig sets the faults of further requests.
func (s *Store) SetConfig(c StoreConfig) { s.config.Store(&c) }

// Block refuses all requests for a while: this broker cannot reach the store, but others may.
func (s *Store) Block(d time.Duration) {
	s.count(Partitioned)
	s.blocked.Store(time.Now().Add(d).UnixNano())
}

// Unblock ends every Block and burst.
func (s *Store) Unblock() {
	s.blocked.Store(0)
	s.denied.Store(0)
	s.slowed.Store(0)
}

// Settle waits until all late requests have been applied.
func (s *Store) Settle() { s.late.Wait() }

// Close ends the proxy. It cuts connections and waits for late requests.
func (s *Store) Close() {
	s.server.CloseClientConnections()
	s.server.Close()
	s.late.Wait()
	s.forward.CloseIdleConnections()
}

func active(until *atomic.Int64) bool { return time.Now().UnixNano() < until.Load() }

// ServeHTTP handles one request. It reads the whole body before it forwards anything, so that the
// store sees a complete request or none, even if the broker ends meanwhile.
func (s *Store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := s.config.Load()
	body, err := io.ReadAll(io.LimitReader(r.Body, bodyMax+1))
	if err != nil || len(body) > bodyMax {
		panic(http.ErrAbortHandler)
	}
	x := &exchange{s: s, c: c, w: w, r: r, body: body}
	wait(r.Context(), time.Duration(s.int(int64(c.Latency))))
	switch {
	case active(&s.blocked):
		if s.coin() {
			wait(r.Context(), time.Until(time.Unix(0, s.blocked.Load())))
		}
		x.reset()
	case active(&s.denied):
		x.problem(http.StatusForbidden, "AccessDenied")
	case active(&s.slowed):
		x.problem(http.StatusServiceUnavailable, "SlowDown")
	default:
		x.run(s.kind(c.Rates, x.possible()))
	}
}

// possible returns the faults that can affect the request, in order.
func (x *exchange) possible() []Kind {
	kinds := []Kind{Lost, Reset, Broken, BrokenLate, Gateway, GatewayLate, Throttled, Denied, Stalled, Hung}
	switch {
	case x.r.Method == http.MethodPut:
		return append(kinds, Conflict, Doubled, Late)
	case x.r.Method == http.MethodDelete || x.r.Method == http.MethodPost:
		return append(kinds, Doubled, Late)
	case x.r.Method != http.MethodGet:
		return kinds
	case x.r.URL.Query().Has("list-type"):
		return append(kinds, Slow, Cut, Longer)
	}
	kinds = append(kinds, Slow, Cut, Longer, Shorter, OtherRange)
	if x.s.mayDamage(x.r.URL.Path) {
		kinds = append(kinds, Damaged)
	}
	return kinds
}

// mayDamage reports whether the bytes of a name may be damaged. It happens once per name, so that a
// second read is correct, as with real transports.
func (s *Store) mayDamage(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.damaged[name] && len(s.damaged) < damagedMax
}

func (s *Store) noteDamage(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.damaged[name] = true
}

// exchange is a request in progress.
type exchange struct {
	s    *Store
	c    *StoreConfig
	w    http.ResponseWriter
	r    *http.Request
	body []byte
}

// answer is the store's answer.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (x *exchange) run(k Kind) {
	s, c := x.s, x.c
	switch k {
	case Lost:
		_, _ = x.send()
		x.reset()
	case Reset:
		x.reset()
	case Broken:
		x.problem(http.StatusInternalServerError, "InternalError")
	case BrokenLate:
		_, _ = x.send()
		x.problem(http.StatusInternalServerError, "InternalError")
	case Gateway:
		x.page(http.StatusBadGateway)
	case GatewayLate:
		_, _ = x.send()
		x.page(http.StatusGatewayTimeout)
	case Throttled:
		s.slowed.Store(time.Now().Add(s.span(c.BurstMax)).UnixNano())
		x.problem(http.StatusServiceUnavailable, "SlowDown")
	case Denied:
		s.denied.Store(time.Now().Add(s.span(c.BurstMax)).UnixNano())
		x.problem(http.StatusForbidden, "AccessDenied")
	case Conflict:
		x.problem(http.StatusConflict, "ConditionalRequestConflict")
	case Doubled:
		_, _ = x.send()
		x.pass(k)
	case Late:
		x.later()
	case Stalled:
		x.stall()
	case Hung:
		if s.coin() {
			_, _ = x.send()
		}
		<-x.r.Context().Done()
	default:
		x.pass(k)
	}
}

// stall waits before or after the store gets the request.
func (x *exchange) stall() {
	d := x.s.span(x.c.StallMax)
	if x.s.coin() {
		wait(x.r.Context(), d)
		x.pass("")
		return
	}
	a, err := x.send()
	wait(x.r.Context(), d)
	if err != nil {
		x.reset()
		return
	}
	x.answer(a, "")
}

// later resets the connection and applies the request afterwards.
func (x *exchange) later() {
	d := x.s.span(x.c.LateMax)
	r := x.r.Clone(context.WithoutCancel(x.r.Context()))
	x.s.late.Go(func() {
		<-time.After(d)
		_, _ = (&exchange{s: x.s, r: r, body: x.body}).send()
	})
	x.reset()
}

// pass forwards the request and returns the answer, with a fault.
func (x *exchange) pass(k Kind) {
	a, err := x.send()
	if err != nil {
		x.page(http.StatusBadGateway)
		return
	}
	x.answer(a, k)
}

// send forwards the request to the store, even if the broker has disconnected.
func (x *exchange) send() (*answer, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.r.Context()), forwardTime)
	defer cancel()
	out := x.r.Clone(ctx)
	out.RequestURI = ""
	out.URL.Scheme, out.URL.Host = x.s.target.Scheme, x.s.target.Host
	out.Host = x.r.Host // part of the signature
	out.Body, out.ContentLength = http.NoBody, int64(len(x.body))
	if len(x.body) > 0 {
		out.Body = io.NopCloser(bytes.NewReader(x.body))
		out.GetBody = nil
	}
	out.Header.Del("Connection")
	resp, err := x.s.forward.RoundTrip(out)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, bodyMax))
	return &answer{resp.StatusCode, resp.Header, body}, errors.Join(err, resp.Body.Close())
}

// problem sends an S3 error.
func (x *exchange) problem(status int, code string) {
	body := fmt.Sprintf(`<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>injected</Message></Error>`, code)
	x.w.Header().Set("Content-Type", "application/xml")
	x.w.WriteHeader(status)
	_, _ = io.WriteString(x.w, body)
}

// page sends the error page of a gateway.
func (x *exchange) page(status int) {
	x.w.Header().Set("Content-Type", "text/html")
	x.w.WriteHeader(status)
	_, _ = io.WriteString(x.w, "<html><body><h1>"+http.StatusText(status)+"</h1></body></html>")
}

// reset ends the connection without an answer, so that the broker detects it immediately.
func (x *exchange) reset() {
	conn, _, err := x.w.(http.Hijacker).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	abort(conn)
}

func abort(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// answer sends the store's answer, with or without a fault.
func (x *exchange) answer(a *answer, k Kind) {
	n := len(a.body)
	if a.status/100 != 2 || n == 0 {
		k = ""
	}
	header := a.header.Clone()
	header.Del("Connection")
	switch k {
	case Cut:
		x.raw(a, header, n, a.body[:x.s.int(int64(n))], 0)
	case Longer:
		x.raw(a, header, n+1+int(x.s.int(1000)), a.body, 0)
	case Shorter:
		fewer := int(x.s.int(int64(n)))
		x.raw(a, header, fewer, a.body[:fewer], 0)
	case OtherRange:
		header.Set("Content-Range", otherRange(header.Get("Content-Range"), n))
		x.raw(a, header, n, a.body, 0)
	case Slow:
		x.raw(a, header, n, a.body, x.s.span(x.c.StallMax/4))
	case Damaged:
		x.s.noteDamage(x.r.URL.Path)
		bad := bytes.Clone(a.body)
		bad[x.s.int(int64(n))] ^= 1 << x.s.int(8)
		x.raw(a, header, n, bad, 0)
	default:
		for name, values := range header {
			x.w.Header()[name] = values
		}
		x.w.WriteHeader(a.status)
		_, _ = x.w.Write(a.body)
	}
}

// otherRange returns a Content-Range that is one byte off.
func otherRange(given string, n int) string {
	var first, last, total int64
	if _, err := fmt.Sscanf(given, "bytes %d-%d/%d", &first, &last, &total); err != nil {
		return fmt.Sprintf("bytes 1-%d/%d", n, n+1)
	}
	return fmt.Sprintf("bytes %d-%d/%d", first+1, last+1, total+1)
}

// slowPieces is the number of pieces of a slow answer.
const slowPieces = 20

// raw writes an answer that net/http would refuse to write, and closes the connection.
func (x *exchange) raw(a *answer, header http.Header, length int, body []byte, slow time.Duration) {
	conn, _, err := x.w.(http.Hijacker).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer conn.Close()
	header.Set("Content-Length", fmt.Sprint(length))
	header.Set("Connection", "close")
	var head strings.Builder
	fmt.Fprintf(&head, "HTTP/1.1 %d %s\r\n", a.status, http.StatusText(a.status))
	_ = header.Write(&head)
	head.WriteString("\r\n")
	if _, err := io.WriteString(conn, head.String()); err != nil {
		return
	}
	step := len(body)
	if slow > 0 {
		step = len(body)/slowPieces + 1
	}
	for len(body) > 0 {
		piece := body[:min(step, len(body))]
		body = body[len(piece):]
		if _, err := conn.Write(piece); err != nil {
			return
		}
		if slow > 0 {
			<-time.After(slow / slowPieces)
		}
	}
}

// wait waits, unless the request is cancelled.
func wait(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
