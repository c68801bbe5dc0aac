package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sebbroker/seb/internal/api"
	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/budget"
)

// API serves the HTTP API of one broker. All methods may be called concurrently.
type API struct {
	b       *broker.Broker
	o       Options
	log     *slog.Logger
	key     keyDigest
	metrics *apiMetrics
	spec    []byte // openapi.json

	produce, fetch *budget.Class
	buffers        *budget.Buffers
	requestMax     int64
	gate           gate
	held           atomic.Int32  // connections that wait for another's end
	ended          chan struct{} // closed by Stop

	mu      sync.Mutex // guards what follows
	stopped bool
	waits   map[*stoppable]struct{}
}

// New returns the front end of b, which stays the caller's to close, after Stop and the end of all requests.
func New(b *broker.Broker, o Options) (*API, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("http: %w", err)
	}
	spec, err := specJSON()
	if err != nil {
		return nil, fmt.Errorf("http: read openapi.yaml: %w", err)
	}
	a := &API{
		b: b, o: o.withDefaults(), key: digestOf(o.APIKey), spec: spec,
		produce: b.Budget().Class(budget.Produce), fetch: b.Budget().Class(budget.Fetch),
		buffers: b.Budget().Buffers(), requestMax: b.Budget().RequestMax(),
		ended: make(chan struct{}), waits: map[*stoppable]struct{}{},
	}
	// The rest is for readers that do not wait.
	a.gate.size = a.fetch.Limit() / 4 * 3
	a.o.APIKey = ""
	a.log = a.o.Logger
	a.metrics = newMetrics(a.o.Metrics)
	return a, nil
}

// ServeHTTP finds the route, checks the key and writes the error that the route returns.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	if r.ContentLength != 0 {
		// Whoever answers without reading the body must not wait for it: net/http reads on to keep the connection.
		a.readStep(w)
	}
	if a.held.Load() > 0 {
		w.Header().Set("Connection", "close") // others wait for this one's place
	}
	rt, p := findRoute(r)
	var err error
	switch {
	case p != nil:
		err = p
		if p.Code == api.MethodNotAllowed {
			w.Header().Set("Allow", allowed(r.URL.Path))
		}
	case rt.auth && !a.key.matches(r.Header.Get("Authorization")):
		w.Header().Set("WWW-Authenticate", `Bearer realm="seb"`)
		err = api.NewProblem(api.Unauthorized, "invalid auth")
	default:
		err = rt.serve(a, w, r)
	}
	if err != nil && misleads(rt, r, err) && !errors.Is(err, http.ErrAbortHandler) {
		a.log.Warn("connection of a client cut that may take the answer for success, as it sends no Accept header that says "+
			"otherwise", "method", r.Method, "path", r.URL.Path, "code", string(problemOf(err).Code), "err", err)
		err = http.ErrAbortHandler
	}
	a.metrics.served(rt.name(), codeOf(err), time.Since(began))
	if err == nil {
		return
	}
	if errors.Is(err, http.ErrAbortHandler) {
		panic(http.ErrAbortHandler)
	}
	a.writeError(w, r, err)
}

func findRoute(r *http.Request) (route, *api.Problem) {
	known := false
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	for _, rt := range routes {
		if rt.path != r.URL.Path {
			continue
		}
		if rt.method == method {
			return rt, nil
		}
		known = true
	}
	if known {
		return route{}, api.NewProblem(api.MethodNotAllowed, "%s is not for this path", api.Quote(r.Method))
	}
	return route{}, api.NewProblem(api.NotFound, "no route %s; see /openapi.json", api.Quote(r.URL.Path))
}

func allowed(path string) string {
	var methods []string
	for _, rt := range routes {
		if rt.path == path {
			methods = append(methods, rt.method)
			if rt.method == http.MethodGet {
				methods = append(methods, http.MethodHead)
			}
		}
	}
	slices.Sort(methods)
	return strings.Join(methods, ", ")
}

// stoppable is a wait that Stop ends.
type stoppable struct{ cancel context.CancelFunc }

// untilStop returns a context that also ends when Stop is called. done must be called.
func (a *API) untilStop(parent context.Context) (ctx context.Context, done func()) {
	ctx, cancel := context.WithCancel(parent)
	s := &stoppable{cancel: cancel}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stopped {
		cancel()
		return ctx, cancel
	}
	a.waits[s] = struct{}{}
	return ctx, func() {
		a.mu.Lock()
		delete(a.waits, s)
		a.mu.Unlock()
		cancel()
	}
}

// Stop ends long polls, with what they have, and event streams, now and from now on. Requests go on being served: a
// server calls it when it begins to shut down. It may be called more than once and does not wait.
func (a *API) Stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.stopped {
		close(a.ended)
	}
	a.stopped = true
	for s := range a.waits {
		s.cancel()
	}
}

func (a *API) stopping() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stopped
}
