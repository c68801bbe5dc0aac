package riemann

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/protocols/riemann/index"
	"github.com/sebbroker/seb/internal/protocols/riemann/query"
)

// DashboardOptions configure NewDashboards. Index and Memory are required; a zero value of another
// field means its default.
type DashboardOptions struct {
	Index  *index.Index
	Memory *budget.Class // of the answers
	// Admit reports whether a page of a request's origin may subscribe, and whether the request
	// names a host of this broker. nil: all.
	Admit func(r *http.Request) bool
	// Authorize returns why the client of a connection of the listener may not subscribe, or calls end
	// when it no longer may, until stop. nil: all may.
	Authorize func(ctx context.Context, conn net.Conn, end func()) (stop func(), err error)
	// Subscriptions bounds the open subscriptions: 64.
	Subscriptions int
	// Step bounds each write, Heartbeat is the time between signs of life: 15 s each.
	Step, Heartbeat time.Duration
	Logger          *slog.Logger // nil: discards
}

// Dashboards serves the two subscriptions of riemann-dash to the index of Riemann events:
//
//	GET /index?query=Q                 server-sent events
//	GET /index?subscribe=true&query=Q  WebSocket; without subscribe=true it ends after the index
//
// Each message is an event as JSON: first all in the index that match, then those that come. The
// listener has no keys. It serves web pages of the origins that its options admit.
//
// Its methods may be called concurrently.
type Dashboards struct {
	o     DashboardOptions
	http  *http.Server
	slots chan struct{}
	stop  context.CancelFunc
	wg    sync.WaitGroup // of requests: the http.Server does not know WebSockets
}

const (
	// headerBytes bounds the head of a request: the query is its longest part.
	headerBytes   = 32 << 10
	headerTimeout = 10 * time.Second
	// connectionsPer is the number of open connections for each subscription, because some are of
	// requests that are refused. Beyond it new ones are closed.
	connectionsPer = 2
	// answerCopies is the memory of the first events in limits of an answer: the events, and their
	// JSON.
	answerCopies = 3
)

// NewDashboards returns a server, which serves after Serve.
func NewDashboards(o DashboardOptions) *Dashboards {
	o.Subscriptions = cmp.Or(o.Subscriptions, 64)
	o.Step, o.Heartbeat = cmp.Or(o.Step, 15*time.Second), cmp.Or(o.Heartbeat, 15*time.Second)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	s := &Dashboards{o: o, slots: make(chan struct{}, o.Subscriptions)}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	mux := http.NewServeMux()
	mux.HandleFunc("GET /index", s.serve)
	s.http = &http.Server{
		Handler: mux, MaxHeaderBytes: headerBytes, ReadHeaderTimeout: headerTimeout, IdleTimeout: time.Minute,
		ErrorLog: slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug), BaseContext: func(net.Listener) context.Context { return ctx },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, c.(*counted).Conn)
		},
	}
	return s
}

// Serve serves until Close. It returns nil after Close.
func (s *Dashboards) Serve(l net.Listener) error {
	if err := s.http.Serve(&limited{l, make(chan struct{}, connectionsPer*s.o.Subscriptions)}); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Drain ends the subscriptions. It does not wait.
func (s *Dashboards) Drain() { s.stop() }

// Close ends the subscriptions and closes all connections. It may be called twice.
func (s *Dashboards) Close(context.Context) error {
	s.stop()
	err := s.http.Close()
	s.wg.Wait()
	return err
}

// connKey is the key of a request's connection in its context.
type connKey struct{}

// authorize returns the request with a context that ends with the client's right to subscribe, and
// what frees it.
func (s *Dashboards) authorize(r *http.Request) (*http.Request, func(), *refusal) {
	if s.o.Authorize == nil {
		return r, func() {}, nil
	}
	ctx, end := context.WithCancel(r.Context())
	stop, err := s.o.Authorize(ctx, ctx.Value(connKey{}).(net.Conn), end)
	if err != nil {
		end()
		return nil, nil, &refusal{http.StatusForbidden, err.Error()}
	}
	return r.WithContext(ctx), func() { stop(); end() }, nil
}

// refusal is an answer instead of a subscription.
type refusal struct {
	status int
	text   string
}

func (s *Dashboards) serve(w http.ResponseWriter, r *http.Request) {
	s.wg.Add(1)
	defer s.wg.Done()
	if why := s.subscribe(w, r); why != nil {
		http.Error(w, why.text, why.status)
	}
}

// subscribe serves a subscription, or returns why it does not.
func (s *Dashboards) subscribe(w http.ResponseWriter, r *http.Request) *refusal {
	if s.o.Admit != nil && !s.o.Admit(r) {
		return &refusal{http.StatusForbidden, "pages of this origin may not subscribe; --cors-origin names those that may"}
	}
	r, ended, why := s.authorize(r)
	if why != nil {
		return why
	}
	defer ended()
	if origin := r.Header.Get("Origin"); origin != "" {
		w.Header().Set("Access-Control-Allow-Origin", origin)
		w.Header().Add("Vary", "Origin")
	}
	q, err := query.Parse(r.URL.Query().Get("query"))
	if err != nil {
		return &refusal{http.StatusBadRequest, "parse error: " + err.Error()}
	}
	socket, why := upgrading(r)
	if why != nil {
		return why
	}
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	default:
		return &refusal{http.StatusServiceUnavailable, "too many subscriptions"}
	}
	memory, err := s.o.Memory.Reserve(answerCopies * s.o.Index.AnswerBytes())
	if err != nil {
		return &refusal{http.StatusServiceUnavailable, "no memory for the first events, retry later"}
	}
	defer memory.Release()
	waiting, cancel := context.WithTimeout(r.Context(), s.o.Step)
	err = s.o.Index.CatchUp(waiting)
	cancel()
	if err != nil {
		return &refusal{http.StatusServiceUnavailable, "the index is behind, retry later"}
	}
	var first [][]byte
	sub, err := s.o.Index.Subscribe(r.Context(), q, func(e *index.Event) error {
		first = append(first, e.AppendJSON(nil))
		return nil
	})
	var many *index.TooManyError
	switch {
	case errors.As(err, &many):
		return &refusal{http.StatusRequestEntityTooLarge, err.Error()}
	case err != nil:
		return &refusal{http.StatusServiceUnavailable, err.Error()}
	}
	defer sub.Close()
	f := feed{Dashboards: s, first: first, sub: sub, began: memory.Release}
	if socket {
		return f.socket(w, r)
	}
	f.stream(w, r)
	return nil
}

// feed is an open subscription.
type feed struct {
	*Dashboards
	first [][]byte // the events that were in the index
	sub   *index.Subscription
	began func() // frees the memory of first; may be called again
}

// sink is the connection of a feed. Its writes have a deadline.
type sink interface {
	send(events [][]byte) error
	beat() error // a sign of life
}

// run sends the first events, and then those that come until the subscription or ctx ends. It
// returns why the subscription ended.
func (f *feed) run(ctx context.Context, to sink) error {
	err := to.send(f.first)
	f.first = nil
	f.began()
	for err == nil && ctx.Err() == nil {
		waiting, cancel := context.WithTimeout(ctx, f.o.Heartbeat)
		var events [][]byte
		events, err = f.sub.Next(waiting)
		cancel()
		switch {
		case err != nil:
			return err
		case len(events) > 0:
			err = to.send(events)
		case ctx.Err() == nil:
			err = to.beat()
		}
	}
	if errors.Is(err, context.DeadlineExceeded) || isTimeout(err) {
		f.sub.Slow()
		return index.ErrSlow
	}
	return err
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// stream serves server-sent events.
func (f *feed) stream(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // reverse proxies must not buffer events
	to := &events{w: w, control: http.NewResponseController(w), step: f.o.Step}
	if err := f.run(r.Context(), to); err != nil {
		f.o.Logger.Debug("Riemann subscription ended", "remote", r.RemoteAddr, "err", err)
	}
}

// events is the sink of server-sent events.
type events struct {
	w       http.ResponseWriter
	control *http.ResponseController
	step    time.Duration
}

func (e *events) send(list [][]byte) error {
	for _, event := range list {
		if err := e.write("data: ", event, "\n\n"); err != nil {
			return err
		}
	}
	return e.control.Flush()
}

func (e *events) write(before string, event []byte, after string) error {
	if err := e.control.SetWriteDeadline(time.Now().Add(e.step)); err != nil {
		return err
	}
	_, err := e.w.Write(append(append([]byte(before), event...), after...))
	return err
}

func (e *events) beat() error {
	if err := e.write(":\n\n", nil, ""); err != nil {
		return err
	}
	return e.control.Flush()
}
