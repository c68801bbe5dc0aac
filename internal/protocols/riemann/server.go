package riemann

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/engine/base/sampled"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/protocols/connlimit"
	"github.com/sebbroker/seb/internal/protocols/framed"
	"github.com/sebbroker/seb/internal/protocols/tlsport"
)

// Server serves Riemann clients of one broker. Its methods may be called concurrently.
type Server struct {
	b     Log
	o     Options
	log   *slog.Logger
	conns *framed.Server
	met   meters

	produceClass, fetchClass *budget.Class
	messageMax               int

	unwatched chan unstored  // events that are acknowledged before they are stored
	watching  sync.WaitGroup // goroutine of watch
	inFlight  atomic.Int64   // bytes of the records that are not stored yet, without those of datagrams
	closed    sync.Once
	ending    chan struct{} // closed by Drain
	lines     sampled.Lines

	mu        sync.Mutex // guards the fields below
	draining  bool
	udp       *net.UDPConn // nil: none
	datagrams sync.WaitGroup
}

// unwatchedMax bounds the messages that are acknowledged and not yet stored. Beyond it a message
// waits for earlier ones.
const unwatchedMax = 1024

// queuedMessages bounds the messages of a connection that wait for their answer, queuedShare the
// bytes of them, in messages of the largest size.
const (
	queuedMessages = 100
	queuedShare    = 4
)

// Clients may be anonymous, so they leave a part of the memory of produces to others. largeShare is
// the part for large messages that are being read, recordsShare the part for records that are not
// stored yet: beyond it no message is read.
const (
	largeShare   = 4
	recordsShare = 2
)

// New returns the Riemann front end of b. The caller calls Close, and closes b after Drain.
func New(b *broker.Broker, o Options) (*Server, error) {
	s, err := newServer(brokerLog{b}, o)
	if err != nil {
		return nil, err
	}
	s.watching.Go(s.watch)
	return s, nil
}

func newServer(b Log, o Options) (*Server, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("riemann: %w", err)
	}
	s := &Server{
		b: b, o: o.withDefaults(), produceClass: b.Budget().Class(budget.Produce), fetchClass: b.Budget().Class(budget.Fetch),
		unwatched: make(chan unstored, unwatchedMax), ending: make(chan struct{}),
	}
	s.log = s.o.Logger
	s.messageMax = int(min(int64(s.o.MessageMax), b.Budget().RequestMax()))
	s.met = newMeters(s.o.Metrics)
	s.conns = framed.New(framed.Options{
		Name: "riemann", Unsigned: true, Port: o.Port, Open: s.open, Buffers: b.Budget().Buffers(), Limits: o.Limits, Connections: o.Connections, TLSBytes: o.TLSBytes,
		QueueBytes: int64(min(queuedShare*s.messageMax, int(s.produceClass.Limit()))), QueueRequests: queuedMessages,
		LargeBytes: s.produceClass.Limit() / largeShare,
		Idle:       s.o.Idle, AuthTimeout: s.o.Idle, Step: o.Step, Logger: s.log, Metrics: s.o.Metrics,
	})
	return s, nil
}

// Serve serves connections of l until Drain or Close, and then returns nil. Any other end of l is
// an error. It is called once. ctx must outlive Close.
func (s *Server) Serve(ctx context.Context, l net.Listener) error { return s.conns.Serve(ctx, l) }

// Drain closes the listeners and accepts no more messages. It does not wait.
func (s *Server) Drain() {
	s.conns.Drain()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.draining {
		s.draining = true
		close(s.ending)
	}
	if s.udp != nil {
		_ = s.udp.Close()
	}
}

// Close drains, waits until all begun messages are answered, and closes the connections. The broker
// must stay open until then, so that events are stored. If ctx ends first, Close cuts the
// connections. Calling it twice is safe.
func (s *Server) Close(ctx context.Context) error {
	s.Drain()
	err := s.conns.Close(ctx)
	s.datagrams.Wait()
	s.closed.Do(func() { close(s.unwatched) })
	s.watching.Wait()
	return err
}

// open creates the session of a new connection.
func (s *Server) open(c net.Conn, _ func()) framed.Session {
	secured, _ := c.(*tlsport.Conn)
	return &session{client: client{Server: s, remote: c.RemoteAddr().String()}, secured: secured}
}

// Counts are numbers since the start, without Connections, which are open now.
type Counts struct {
	Connections                         int
	Events, Refused, Datagrams, Dropped uint64 // events stored, messages refused, datagrams received and dropped
}

// Counts returns what the server has done.
func (s *Server) Counts() Counts {
	return Counts{s.conns.Connections(), s.met.stored.Get(), s.met.refused.Get(), s.met.datagrams.Get(), s.met.dropped.Get()}
}

// watch counts events that were acknowledged and then not stored. A ticket always ends: at the
// latest when the broker closes.
func (s *Server) watch() {
	for t := range s.unwatched {
		<-t.Done()
		if s.count(t.Wait(context.Background())) != nil {
			s.met.lost.Inc()
		}
		t.in.Add(-t.size)
	}
}

// unstored are records that are not stored yet.
type unstored struct {
	Ticket
	size int64
	in   *atomic.Int64 // the sum of such sizes
}

// count counts the stored events of results, and returns the first error.
func (s *Server) count(results []broker.Result) (first error) {
	for i := range results {
		switch err := results[i].Err; {
		case err == nil:
			s.met.stored.AddInt64(results[i].Span)
		case first == nil:
			first = err
		}
	}
	return first
}

// meters are the metrics of this package.
type meters struct {
	messages, refused *metrics.Counter
	stored, lost      *metrics.Counter
	queries           *metrics.Counter
	authFailures      *metrics.Counter
	datagrams         *metrics.Counter
	dropped           *metrics.Counter // datagrams
}

func newMeters(set *metrics.Set) meters {
	return meters{
		messages: set.NewCounter("seb_riemann_messages_total"), refused: set.NewCounter("seb_riemann_messages_refused_total"),
		stored: set.NewCounter("seb_riemann_events_total"), lost: set.NewCounter("seb_riemann_messages_lost_total"),
		queries: set.NewCounter("seb_riemann_queries_total"), authFailures: set.NewCounter("seb_riemann_authentication_failures_total"),
		datagrams: set.NewCounter("seb_riemann_datagrams_total"), dropped: set.NewCounter("seb_riemann_datagrams_dropped_total"),
	}
}

// Options configure New. A zero field means its default.
type Options struct {
	// Auth authenticates clients and decides what they may do. Required.
	Auth Authority
	// Token is the token with which clients without a certificate act. "": the root key, of which
	// the listener only uses the rights to write Topic and to read the index.
	Token string
	// Port is that of framed.Options.
	Port *tlsport.Port
	// Topic has the events: riemann. It is created if it does not exist.
	Topic string
	// Received: a message is acknowledged when the broker has its events in memory, before they are
	// stored.
	Received bool
	// Patience is the time for which a message waits before it is refused, if waiting may help;
	// negative: none. 4 s.
	Patience time.Duration
	// MessageMax bounds a message, and the answer to a query: 1 MiB.
	MessageMax int
	// Index answers queries; nil: they are refused.
	Index Index
	// Limits, Connections and TLSBytes are those of framed.Options.
	Limits      *connlimit.Limiter
	Connections int
	TLSBytes    int64
	// AckTimeout bounds the wait of a message for the store: 60 s.
	AckTimeout time.Duration
	// Idle and Step are those of framed.Options: 1 h, 15 s.
	Idle, Step time.Duration
	// Now is the clock for timestamps of records: nil is time.Now.
	Now func() time.Time
	// Logger: nil discards. Metrics: nil creates a set.
	Logger  *slog.Logger
	Metrics *metrics.Set
}

// DefaultTopic, DefaultPatience and DefaultMessageMax are the defaults of Options.
const (
	DefaultTopic      = "riemann"
	DefaultPatience   = 4 * time.Second
	DefaultMessageMax = 1 << 20
)

// QueryMax bounds the text of a query.
const QueryMax = 4 << 10

// Index answers queries for the newest event of each host and service. Its methods may be called
// concurrently.
type Index interface {
	// Query returns the events for which an expression of Riemann's query language is true, each
	// encoded as the field events (6) of a Msg, at most limit bytes. It sees every event that was
	// committed to the topic before the call. The error is a sentence for the client, such as
	// "parse error: ..." or one that the answer has more than limit bytes.
	Query(ctx context.Context, text string, limit int) ([]byte, error)
}

// Validate reports all faults at once.
func (o *Options) Validate() error {
	var errs []error
	if o.Auth == nil {
		errs = append(errs, errors.New("auth: required"))
	}
	if o.Connections < 0 || o.MessageMax < 0 {
		errs = append(errs, fmt.Errorf("connections %d, largest message %d: want 1 or more", o.Connections, o.MessageMax))
	}
	for _, d := range []time.Duration{o.AckTimeout, o.Idle, o.Step} {
		if d < 0 {
			errs = append(errs, fmt.Errorf("timeout %s: want more than 0", d))
		}
	}
	return errors.Join(errs...)
}

func (o Options) withDefaults() Options {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Metrics = cmp.Or(o.Metrics, metrics.NewSet())
	o.Topic = cmp.Or(o.Topic, DefaultTopic)
	o.Patience = cmp.Or(o.Patience, DefaultPatience)
	o.MessageMax = cmp.Or(o.MessageMax, DefaultMessageMax)
	o.AckTimeout = cmp.Or(o.AckTimeout, time.Minute)
	o.Idle = cmp.Or(o.Idle, time.Hour)
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}
