package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/pprof"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/base/pause"
	"github.com/sebbroker/seb/internal/engine/base/sampled"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/cluster"
	"github.com/sebbroker/seb/internal/engine/cost"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/protocols/auth"
	"github.com/sebbroker/seb/internal/protocols/connlimit"
	"github.com/sebbroker/seb/internal/protocols/httpapi/forward"
	"github.com/sebbroker/seb/internal/protocols/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/protocols/problem"
	"github.com/sebbroker/seb/internal/protocols/sqs"
	"github.com/sebbroker/seb/internal/protocols/tlsport"
)

// API serves the HTTP API of one broker. All methods may be called concurrently.
type API struct {
	b       *broker.Broker
	o       Options
	log     *slog.Logger
	root    caller // the client with the root key
	metrics *apiMetrics

	produce, fetch *budget.Class
	answers        *budget.Class
	buffers        *budget.Buffers
	requestMax     int64
	source         *Source
	encoders       *httpconn.Encoders
	connections    httpconn.Connections
	stops          *httpconn.DrainGroup
	pace           httpconn.ProgressTimeout
	lines          sampled.Lines // that clients can repeat
	epoch          atomic.Pointer[epochValue]
	evaluator      *Evaluator
	forwarder      *forward.Forwarder // nil: none
	floors         floors
	began          time.Time
	led            atomic.Int64 // when a leader was known last, since began
	triggers       *Triggers
	sampling       chan struct{} // a token while events are sampled
	sqs            *sqs.Server   // nil: the SQS API is off
}

// dryRunBytes bounds the memory of all dry runs if the budget is large enough.
const dryRunBytes = 64 << 20

// New returns the front end of b. The caller closes b after Stop and after all requests have ended.
func New(b *broker.Broker, o Options) (*API, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("http: %w", err)
	}
	a := &API{
		b: b, o: o.withDefaults(), root: caller{Identity: o.Auth.Root()},
		produce: b.Budget().Class(budget.Produce), fetch: b.Budget().Class(budget.Fetch),
		answers: b.Budget().Class(budget.Answers), buffers: b.Budget().Buffers(), requestMax: b.Budget().RequestMax(),
		stops: httpconn.NewDrainGroup(), sampling: make(chan struct{}, 1),
	}
	if a.o.Groups == nil {
		a.o.Groups = b
	}
	if a.o.Cost == nil {
		a.o.Cost = cost.Open(cost.Options{Log: b, Logger: a.o.Logger})
	}
	a.encoders = httpconn.NewEncoders(a.fetch)
	a.began = time.Now()
	a.led.Store(int64(-readyFor)) // no leader has been known
	a.log, a.pace = a.o.Logger, httpconn.ProgressTimeout(a.o.StepTimeout)
	a.metrics = newMetrics(a.o.Metrics)
	a.evaluator, a.forwarder = NewEvaluator(a.pace, a.stops), a.newForwarder()
	a.triggers = NewTriggers(TriggersOptions{
		Engine: a.o.Triggers, EventsTopic: a.o.EventsTopic, Targets: a.o.WebhookTargets, AckTimeout: a.o.AckTimeout, Pace: a.pace, Drain: a.stops,
		DryRunBytes: min(dryRunBytes, b.Budget().Limit()/16), Evaluator: a.evaluator,
	})
	a.sqs = a.newSQS()
	a.source = NewSource(b, readOptions{
		BudgetWait: a.o.BudgetWait, Drain: a.stops, Timeout: a.pace, Records: a.metrics.read, Bytes: a.metrics.readOut,
	})
	a.connections = httpconn.Connections{
		Drain: a.stops, TLS: a.o.TLSBytes, Queued: a.metrics.held, Evicted: a.metrics.evicted,
		Slots: a.o.Limits.Listen(connlimit.ListenerOptions{
			Name: "http", Bytes: httpconn.IdleBytes + a.o.TLSBytes, Max: a.o.Connections, Flag: "--http-connections",
			Evict: a.connections.Evict, Metrics: a.o.Metrics,
		}),
	}
	return a, nil
}

// ServeHTTP finds the route, checks the client's origin, key and rights, and writes the error that
// the route returns.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	slot := httpconn.SlotOf(r.Context())
	defer slot.Finish()
	fault := slot.Begin(r)
	if r.ContentLength != 0 && !slot.BodyReceived() {
		// If the handler leaves the body unread, net/http reads it to reuse the connection; a
		// deadline bounds that.
		a.pace.ExtendRead(w)
	}
	if slot.Over() || a.connections.HasQueued() {
		w.Header().Set("Connection", "close") // another connection waits for this slot
	}
	rt, p := findRoute(r)
	if fault != nil {
		w.Header().Set("Connection", "close") // request framing is ambiguous
	} else {
		fault = a.admitOrigin(w, r)
	}
	var err error
	switch {
	case fault != nil:
		err = fault
	case a.isSQS(r):
		rt, err = a.answerSQS(w, r)
	case p != nil && isPreflight(r):
		err = a.servePreflight(w, r)
	case p != nil && p.Code == api.NotFound && a.isPage(r):
		err = a.servePage(w, r)
	case p != nil:
		err = p
		if p.Code == api.MethodNotAllowed {
			w.Header().Set("Allow", allowed(r))
		}
	case rt.needsKey():
		err = a.serveKeyed(rt, w, r)
	case rt.path != peerPath && !KnownHost(r.Host, a.o.Hosts) && !a.hasKey(r):
		err = unknownHost(r)
	default:
		err = a.serve(rt, w, r, nil)
	}
	if err != nil && a.misleads(rt, r, err) && !errors.Is(err, http.ErrAbortHandler) {
		if !a.gone(r, err) {
			a.logSampled(slog.LevelWarn, "connection cut: client without Accept header may take an error for success", r, err)
		}
		err = http.ErrAbortHandler
	}
	a.metrics.served(rt, codeOf(err), time.Since(began))
	if err == nil {
		return
	}
	if errors.Is(err, budget.ErrOver) {
		a.connections.AbortSlow()
	}
	if errors.Is(err, errNoSlot) {
		w.Header().Set("Connection", "close")
		slot.Refuse()
	}
	if errors.Is(err, http.ErrAbortHandler) {
		panic(http.ErrAbortHandler)
	}
	a.writeFault(rt, w, r, err)
}

// serveKeyed authenticates the client of a request, and answers it: here, or by the leader. If this
// broker stops leading before it has done anything, the next leader answers.
func (a *API) serveKeyed(rt *route, w http.ResponseWriter, r *http.Request) error {
	slot := httpconn.SlotOf(r.Context())
	a.forwardedFor(r)
	who, ends, err := a.authenticate(r, slot)
	if errors.Is(err, auth.ErrUnauthenticated) && a.caughtUp(r) {
		who, ends, err = a.authenticate(r, slot) // the token is new
	}
	if !ends.IsZero() && err == nil {
		ctx, cancel := context.WithDeadline(r.Context(), ends)
		defer cancel()
		r = r.WithContext(ctx)
	}
	switch {
	case errors.Is(err, auth.ErrUnauthenticated):
		return a.unauthorized(w, r, err)
	case slot.Over() && !rt.reads(r) && !slot.Promote(): // a short read takes no other slot
		return a.noSlot()
	case err != nil: // of a follower whose store does not answer; the leader may know the key
		rt, who = rt.refusing(err), nil
	default:
		slot.MarkAuthenticated()
		if !slot.Over() && !a.connections.HasQueued() {
			w.Header().Del("Connection") // promoted
		}
		if err := rt.checkArguments(w, r); err != nil {
			return err
		}
	}
	atLeader, err := a.needsLeader(rt, r)
	if err != nil {
		return err
	}
	if !atLeader {
		err := a.serve(rt, w, r, who)
		if rt.at == here || !errors.Is(err, state.ErrStoreUnavailable) || !a.leaderReads(rt, r) {
			return err
		}
	}
	call, err := a.forwardable(rt, w, r)
	switch {
	case err != nil:
		return err
	case call == nil:
		return a.serve(rt, w, r, who)
	}
	defer call.Close()
	for end := time.Now().Add(a.o.LeaderWait); ; {
		if a.b.Leads() {
			err := a.serve(rt, w, r, who)
			if !ledNoMore(err) || !call.Again(cluster.CallRefused) || time.Now().After(end) {
				return err
			}
			if pause.Wait(r.Context(), 5*time.Millisecond) != nil { // the role follows the rejection
				return err
			}
		}
		if err := a.send(rt, call, w, r); !errors.Is(err, forward.ErrLeads) {
			return err
		}
	}
}

// errNoSlot is the cause of a refusal for want of a slot.
var errNoSlot = errors.New("no connection slot")

// noSlot refuses a request on a connection beyond the limit.
func (a *API) noSlot() error {
	return fmt.Errorf("%w: %w", errNoSlot, problem.New(api.OverBudget, "too many connections (limit %d): retry later, or raise %s",
		a.connections.Slots.Most(), a.connections.Slots.Setting()))
}

// noReader refuses a request that would wait for records.
func (s *Source) noReader() error {
	return fmt.Errorf("%w: %w", errNoSlot, problem.New(api.OverBudget, "too many readers: a tenth of the connections is kept for writes; retry later, or raise the limit in GET /status"))
}

// serve calls the handler of a route. who is nil on a route without a key; another client than that
// with the root key needs the rights of the route. A follower that does not know a name calls the
// handler again with a newer state.
func (a *API) serve(rt *route, w http.ResponseWriter, r *http.Request, who *auth.Identity) error {
	by, out, limited := &a.root, w, (*principal)(nil)
	switch {
	case who == nil:
		by = &caller{}
	case !who.Root():
		limited = &principal{caller: caller{Identity: who}, w: w}
		by = &limited.caller
		err := limited.begin(r)
		if err == nil {
			err = by.authorize(rt, r, a.o.EventsTopic)
		}
		if err != nil {
			return a.audited(r, by, err)
		}
		if rt.method == http.MethodGet {
			out = limited
		}
	}
	if a.o.ProfileLabels {
		ctx := pprof.WithLabels(r.Context(), pprof.Labels("request", rt.name(), "topic", r.URL.Query().Get(httpconn.ParamTopic)))
		pprof.SetGoroutineLabels(ctx)
		defer pprof.SetGoroutineLabels(r.Context())
		r = r.WithContext(ctx)
	}
	err := rt.serve(a, out, r, by)
	if rt.method == http.MethodGet && a.b.Follows() && unknownName(err) {
		if err = a.fresh(r); err == nil {
			err = rt.serve(a, out, r, by) // after an error nothing has been written
		}
	}
	if limited != nil {
		err = a.audited(r, by, limited.outcome(rt, err))
	}
	return err
}

// unauthorized refuses a request without a valid key for a reason. After many wrong keys the answer
// is delayed; meanwhile any queued connection may replace this one.
func (a *API) unauthorized(w http.ResponseWriter, r *http.Request, reason error) error {
	slot := httpconn.SlotOf(r.Context())
	if r.ContentLength != 0 {
		w.Header().Set("Connection", "close") // else the answer waits for the body
		slot.MarkUnauthenticated()
	}
	if len(r.Header.Values("Authorization")) > 0 { // only a wrong key counts as a guess
		if wait := a.o.Logins.Failed("http", r.RemoteAddr); wait > 0 {
			w.Header().Set("Connection", "close")
			slot.MarkUnauthenticated()
			slot.Finish()
			ctx, done := a.stops.Until(r.Context())
			defer done()
			_ = pause.Wait(ctx, wait)
		}
	}
	return reason
}

// freshWait bounds a confirmation, because the store may be unavailable.
const freshWait = 10 * time.Second

// fresh makes a follower catch up with the state shortly before the request.
func (a *API) fresh(r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), freshWait)
	defer cancel()
	return a.b.Fresh(ctx)
}

// unknownName reports whether a request failed for a name that a follower may not have seen yet.
func unknownName(err error) bool {
	if err == nil {
		return false
	}
	switch problemOf(err).Code {
	case api.UnknownTopic, api.UnknownPartition, api.UnknownGroup, api.UnknownTransaction:
		return true
	}
	return false
}

// noRoute is the route of requests that match none.
var noRoute = &route{}

func findRoute(r *http.Request) (*route, *api.Problem) {
	known := false
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	literal := literalPath(r)
	for i := range routes {
		rt := &routes[i]
		if !rt.serves(r, literal) {
			continue
		}
		if rt.method == method {
			return rt, nil
		}
		known = true
	}
	if known {
		return noRoute, problem.New(api.MethodNotAllowed, "method %s is not allowed for this path", problem.Quote(r.Method))
	}
	return noRoute, problem.New(api.NotFound, "no route %s; see /openapi.json", problem.Quote(r.URL.Path))
}

func allowed(r *http.Request) string {
	var methods []string
	literal := literalPath(r)
	for i := range routes {
		if rt := &routes[i]; rt.serves(r, literal) {
			methods = append(methods, rt.method)
			if rt.method == http.MethodGet {
				methods = append(methods, http.MethodHead)
			}
		}
	}
	slices.Sort(methods)
	return strings.Join(methods, ", ")
}

// Server returns a server of a with timeouts and limits, ready for a listener. Its Shutdown calls
// a.Stop. Call Shutdown or a.Stop before Close, because Close waits for a queued connection.
func (a *API) Server() *http.Server {
	return a.connections.Server(httpconn.ServerOptions{
		Handler: a, Streams: streams, Logger: a.log, HeaderTimeout: a.o.HeaderTimeout, IdleTimeout: a.o.IdleTimeout, KeepIdle: a.o.KeepIdle,
		QueueWait: a.o.QueueWait,
	})
}

// streams reports whether a request asks for an event stream.
func streams(r *http.Request) bool {
	return r.URL.Path == "/records" && httpconn.Negotiate(r.Header.Values("Accept"), readTypes) == api.EventStream
}

// EndStreams waits until event streams have ended, after Stop. A Shutdown of the server does not. When
// ctx ends, it cuts them.
func (a *API) EndStreams(ctx context.Context) error { return a.connections.EndStreams(ctx) }

// Listen listens on a TCP address for Server, with TLS if port enables it; nil means plain text. On
// Linux a connection is accepted after its first bytes.
func Listen(address string, port *tlsport.Port) (net.Listener, error) {
	return httpconn.Listen(address, port)
}

// Stop ends long polls, which return what they have, and event streams, current and future ones.
// Requests are still served: a server calls Stop when its shutdown begins. Stop may be called more
// than once and does not wait.
func (a *API) Stop() { a.stops.Stop() }

// Refuse answers a request to a broker that is closed.
func (a *API) Refuse(w http.ResponseWriter, r *http.Request) { a.writeError(w, r, broker.ErrClosed) }

// Close closes connections to other brokers. Call it after the last request.
func (a *API) Close() {
	a.sqs.Close()
	if a.forwarder != nil {
		a.forwarder.Close()
	}
}

// Drain calls Stop and returns when the waiting requests have their records, or ctx ends. Do not
// close the broker before, because the records are its memory.
func (a *API) Drain(ctx context.Context) {
	a.stops.Stop()
	a.stops.Wait(ctx)
}

// apiMetrics are the metrics of the HTTP front end.
type apiMetrics struct {
	set        *metrics.Set
	held       *metrics.Counter
	evicted    *metrics.Counter
	produced   *metrics.Counter
	producedIn *metrics.Counter
	read       *metrics.Counter
	readOut    *metrics.Counter
	forwarding *metrics.PrometheusHistogram
	forwards   *metrics.Counter // with an answer
	routes     map[routeKey]routeMetrics
}

// routeKey is a route without its function. It avoids building names for each request.
type routeKey struct{ method, path string }

func (rt route) key() routeKey { return routeKey{rt.method, rt.path} }

// routeMetrics are the metrics of one route that every request needs.
type routeMetrics struct {
	duration *metrics.PrometheusHistogram
	ok       *metrics.Counter
}

func newMetrics(set *metrics.Set) *apiMetrics {
	m := &apiMetrics{
		set:        set,
		held:       set.NewCounter("seb_http_connections_held_total"),
		evicted:    set.NewCounter("seb_http_connections_evicted_total"),
		produced:   set.NewCounter("seb_http_produced_records_total"),
		producedIn: set.NewCounter("seb_http_produced_bytes_total"),
		read:       set.NewCounter("seb_http_read_records_total"),
		readOut:    set.NewCounter("seb_http_read_bytes_total"),
		forwarding: set.NewPrometheusHistogram("seb_http_forward_duration_seconds"),
		forwards:   set.NewCounter(forwardsWith(codeOK)),
		routes:     map[routeKey]routeMetrics{},
	}
	for _, rt := range append([]route{{}, *sqsRoute, *sqsReceive}, routes...) {
		m.routes[rt.key()] = routeMetrics{
			duration: set.NewPrometheusHistogram(fmt.Sprintf("seb_http_request_duration_seconds{route=%q}", rt.name())),
			ok:       set.NewCounter(requestsOf(rt.name(), codeOK)),
		}
	}
	return m
}

// served counts an answer; code is "ok" or that of the problem.
func (m *apiMetrics) served(rt *route, code string, took time.Duration) {
	r := m.routes[rt.key()]
	if code == codeOK {
		r.ok.Inc()
	} else {
		m.set.GetOrCreateCounter(requestsOf(rt.name(), code)).Inc()
	}
	r.duration.Update(took.Seconds())
}

// forwarded counts a request that was forwarded to the leader, or should have been. code is "ok" if the
// leader's answer, whatever it was, has reached the client.
func (m *apiMetrics) forwarded(code string, took time.Duration) {
	if code == codeOK {
		m.forwards.Inc()
	} else {
		m.set.GetOrCreateCounter(forwardsWith(code)).Inc()
	}
	m.forwarding.Update(took.Seconds())
}

func forwardsWith(code string) string { return fmt.Sprintf("seb_http_forwards_total{code=%q}", code) }

// codeOK is the code of a successful answer.
const codeOK = "ok"

func requestsOf(route, code string) string {
	return fmt.Sprintf("seb_http_requests_total{route=%q,code=%q}", route, code)
}
