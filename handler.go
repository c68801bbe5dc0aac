package seb

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/engine/audit"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/stats"
	"github.com/sebbroker/seb/internal/operate/node"
	"github.com/sebbroker/seb/internal/protocols/auth"
	"github.com/sebbroker/seb/internal/protocols/console"
	"github.com/sebbroker/seb/internal/protocols/httpapi"
	"github.com/sebbroker/seb/record"
)

// Handler returns the HTTP API and the web console of `seb serve`, for a server of this program. It
// serves package client, curl and browsers. A request needs Options.APIKey or a token; the handler
// adds no listener, TLS, or client certificates. It also works below a prefix, with http.StripPrefix.
//
// The handler limits the memory of requests, and the time in which 64 KiB of a body must arrive or
// leave. It does not know connections, so the server should set ReadHeaderTimeout and IdleTimeout. It
// should leave ReadTimeout and WriteTimeout 0, which would cut long polls. Middleware needs an Unwrap
// method on its ResponseWriter (http.ResponseController).
//
// Close ends long polls and event streams, for which a Shutdown of the server would wait, and answers
// the requests in progress. So call Close first. Later requests get 503 with code shutting_down.
func (b *Broker) Handler() http.Handler {
	f := b.openFront()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from := audit.Origin{Protocol: "http", From: r.RemoteAddr, Request: r.Header.Get("X-Request-Id")}
		f.ServeHTTP(w, r.WithContext(httpapi.WithFrom(r.Context(), from)))
	})
}

// Client returns a client of this broker that needs no network: events, triggers, firings, groups, and
// the other calls of package client, with its types and errors. It may do everything, and is the
// "library" in audit records. Every call returns the same client, which Close ends: its calls then
// return the reason of Err. It does not retry at a broker that was fenced.
func (b *Broker) Client() *client.Client { return b.openFront().client }

// front is the HTTP API of a broker, with an internal server for Client.
type front struct {
	api       *httpapi.API
	auth      *auth.Authority
	stats     *stats.Sampler // nil: too little memory
	latency   *stats.Latency
	client    *client.Client
	transport *http.Transport // of client
	server    *http.Server    // of client
	serving   sync.WaitGroup  // server.Serve
	closing   sync.Once

	mu       sync.Mutex // guards closed, and orders requests.Add before requests.Wait
	closed   bool
	requests sync.WaitGroup
}

// openFront returns the front, which it opens at the first call.
func (b *Broker) openFront() *front {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.front != nil {
		return b.front
	}
	log, key := cmp.Or(b.o.Logger, slog.New(slog.DiscardHandler)), cmp.Or(b.o.APIKey, rand.Text())
	f := &front{latency: &b.latency}
	f.auth = auth.New(auth.Options{
		Broker: b.n.Broker, RootKey: key, Internal: append(node.InternalTopics(), eventsTopic, b.o.AuditTopic), Logger: log, Metrics: b.metrics,
	})
	tail := b.n.Budget().Class(budget.Tail)
	var err error
	f.stats, err = stats.Start(tail, b.metrics.WritePrometheus, b.n.Queues().Stats)
	if err = errors.Join(err, f.latency.Start(tail, time.Now())); err != nil {
		log.Warn("no statistics for GET /stats or GET /latency", "err", err, "hint", "raise Options.MemoryLimit")
	}
	o := httpapi.OptionsOf(b.n)
	o.Auth, o.Logins, o.Logger, o.Metrics, o.EventsTopic = f.auth, auth.NewFailures(log, nil), log, b.metrics, eventsTopic
	if b.n.Audits() {
		o.Logins.Audit = b.n.FailedLogin
	}
	o.Hosts, o.WebhookTargets, o.Console, o.Stats, o.Latency = b.o.Hosts, b.targets, console.Serve, f.stats, f.latency
	o.Version, o.Run, o.Started = "embedded", record.NewID().String(), time.Now().UTC()
	if f.api, err = httpapi.New(b.n.Broker, o); err != nil {
		panic("seb: " + err.Error()) // Open has checked the options
	}
	f.serve(b, key, log)
	if b.front = f; b.closed {
		f.close(context.Background(), b)
	}
	return f
}

// serve starts the server for Client.
func (f *front) serve(b *Broker, key string, log *slog.Logger) {
	l := &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
	f.transport = &http.Transport{DialContext: l.dial, MaxIdleConnsPerHost: 16, DisableCompression: true}
	f.server = &http.Server{
		Handler: f, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		BaseContext: func(net.Listener) context.Context {
			return httpapi.WithFrom(context.Background(), audit.Origin{Protocol: audit.Library})
		},
	}
	f.serving.Go(func() { _ = f.server.Serve(l) })
	var err error
	f.client, err = client.New("http://localhost", client.Options{APIKey: key, HTTPClient: &http.Client{Transport: &localTransport{b, f.transport}}})
	if err != nil {
		panic("seb: " + err.Error()) // the address is valid, and Open has checked the key
	}
}

// ServeHTTP serves a request until the front is closed.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	closed := f.closed
	if !closed {
		f.requests.Add(1)
	}
	f.mu.Unlock()
	if closed {
		f.api.Refuse(w, r)
		return
	}
	defer f.requests.Done()
	f.api.ServeHTTP(w, r)
}

// pollTime bounds the part of Close in which long polls answer with their records.
const pollTime = 2 * time.Second

// close ends long polls, and stops deliveries and the broker, so that requests in progress get their
// outcome. Then it waits for them, or until ctx ends: they need the memory and the files of the node.
func (f *front) close(ctx context.Context, b *Broker) {
	f.closing.Do(func() {
		polls, cancel := context.WithTimeout(ctx, pollTime)
		defer cancel()
		f.api.Drain(polls)
		f.auth.Close()
		if b.dispatch != nil {
			b.dispatch.Close()
		}
		_ = b.n.Stop(ctx) // Node.Close returns the same error
		f.mu.Lock()
		f.closed = true
		f.mu.Unlock()
		idle := make(chan struct{})
		go func() { f.requests.Wait(); close(idle) }()
		select {
		case <-idle:
		case <-ctx.Done():
		}
		_ = f.server.Close() // it has no requests, or ctx has ended
		f.transport.CloseIdleConnections()
		f.serving.Wait()
		f.api.Close()
		if f.stats != nil {
			f.stats.Close()
		}
		f.latency.Close()
	})
}

// localTransport sends requests while the broker works.
type localTransport struct {
	b    *Broker
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *localTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := t.b.Err(); err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, stoppedError{err}
	}
	return t.next.RoundTrip(r)
}

// stoppedError is the reason why a broker has stopped. Package client does not repeat a request that
// was cancelled.
type stoppedError struct{ error }

func (e stoppedError) Unwrap() error        { return e.error }
func (e stoppedError) Is(target error) bool { return target == context.Canceled }

// pipeListener accepts connections of this process that use no network.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{} // closed by Close
	once  sync.Once
}

func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l.conns <- there:
		return here, nil
	case <-l.done:
		return nil, stoppedError{ErrClosed}
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Accept implements net.Listener.
func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

// Addr implements net.Listener.
func (l *pipeListener) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }
