// Package kafka serves the Kafka wire protocol on a broker, for unmodified Kafka clients. The log
// stores the batches of Kafka clients, RecordBatch v2, so produce and fetch pass their bytes
// through.
//
// Each API key has a file, whose header states the supported versions and differences, and a row in
// the table of table.go. Package framed serves the connections, and package wire checks
// requests before they are decoded. kmsg decodes and encodes them, except the answer to Fetch, whose data is sent from memory or files without a copy.
//
// Packages group and coordinator decide the membership of groups. The handlers here decode a
// request, begin it in the order of its connection, and encode the answer.
package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/base/sampled"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/group/coordinator"
	"github.com/sebbroker/seb/internal/protocols/auth"
	"github.com/sebbroker/seb/internal/protocols/framed"
	"github.com/sebbroker/seb/internal/protocols/kafka/wire"
	"github.com/sebbroker/seb/internal/protocols/tlsport"
)

const (
	// unauthenticatedBytes bounds a request before SASL has completed, requestBytes other requests.
	// A produce may be as large as the broker's largest request.
	unauthenticatedBytes = 64 << 10
	requestBytes         = 1 << 20
)

// Server serves the Kafka protocol of one broker. Its methods may be called concurrently.
type Server struct {
	b          *broker.Broker
	o          Options
	log        *slog.Logger
	conns      *framed.Server
	apis       map[int16]*api
	advertised *address // nil: the local address of the client's connection

	produceClass, fetchClass *budget.Class
	produceBytes             int // maximum size of a produce

	groups *coordinator.Coordinator
	txns   transactions
	opened atomic.Uint64 // connections, which numbers them
	met    *meters
	lines  sampled.Lines // that clients can repeat
	*departure
}

// New returns the Kafka front end of b. The caller closes b after Drain.
func New(b *broker.Broker, o Options) (*Server, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	s := &Server{
		b: b, o: o.withDefaults(), apis: map[int16]*api{}, departure: newDeparture(),
		produceClass: b.Budget().Class(budget.Produce), fetchClass: b.Budget().Class(budget.Fetch),
	}
	s.log, s.groups = s.o.Logger, o.Groups
	for key, a := range registered {
		if (!a.groups || o.Groups != nil) && (!a.brokers || o.Cluster != nil) {
			s.apis[key] = a
		}
	}
	if o.Advertised != "" {
		a, err := splitAddress(o.Advertised)
		if err != nil {
			return nil, err
		}
		s.advertised = &a
	}
	limit := b.Budget().RequestMax()
	s.produceBytes = int(min(limit+limit/broker.FramingShare, s.produceClass.Limit()))
	s.met = newMeters(s.o.Metrics, s.apis)
	s.txns.leads(b.LeadingEpoch(), &s.opened) // before any connection: the goroutine may begin after the first
	b.WhileLeading(func(context.Context) { s.txns.leads(b.LeadingEpoch(), &s.opened) })
	s.conns = framed.New(framed.Options{
		Name: "kafka", HeadBytes: wire.HeadMin,
		Port: o.Port, Open: s.open, Buffers: b.Budget().Buffers(), Limits: o.Limits, Connections: o.Connections, TLSBytes: o.TLSBytes, QueueBytes: int64(s.produceBytes),
		Idle: o.Idle, AuthTimeout: o.AuthTimeout, Step: o.Step, Logger: s.log, Metrics: s.o.Metrics,
	})
	return s, nil
}

// Serve serves connections of l until Drain or Close, and then returns nil. Any other end of l is
// an error. It is called once. ctx must outlive Close.
func (s *Server) Serve(ctx context.Context, l net.Listener) error { return s.conns.Serve(ctx, l) }

// Drain closes the listener, ends long polls with the data so far, and accepts no more requests. It
// does not wait.
func (s *Server) Drain() { s.conns.Drain() }

// Close drains, waits until all begun requests are answered, and closes the connections. The broker
// must stay open until then, so that appends are stored. If ctx ends first, Close cuts the
// connections. Calling it twice is safe.
func (s *Server) Close(ctx context.Context) error { return s.conns.Close(ctx) }

// open creates the session of a new connection.
func (s *Server) open(c net.Conn, cut func()) framed.Session {
	secured, _ := c.(*tlsport.Conn)
	return &session{Server: s, number: s.opened.Add(1), local: c.LocalAddr(), remote: c.RemoteAddr(), secured: secured, cut: cut}
}

// session is one connection. Only the reader's goroutine changes it; calls read it.
type session struct {
	*Server
	number        uint64 // of the connection, in the order in which they were accepted
	local         net.Addr
	remote        net.Addr
	secured       *tlsport.Conn                 // nil without TLS
	mechanism     string                        // chosen by SaslHandshake, until authentication
	scram         *scramConversation            // SCRAM conversation in progress
	rawSASL       bool                          // after SaslHandshake v0: SASL messages without heads
	identity      *auth.Identity                // nil before authentication
	authenticated time.Time                     // when identity was set
	valid         atomic.Pointer[auth.Identity] // identity, for Valid
	cut           func()                        // closes the connection
	unwatch       func()                        // stops watching identity
	expects       atomic.Bool                   // the client expects the leader here, see noteExpectsLeader
	client        atomic.Pointer[string]        // client ID of the newest request
}

// warn logs a line that the client can repeat.
func (s *session) warn(message string, args ...any) {
	client, remote := "", s.remote.String()
	if id := s.client.Load(); id != nil {
		client = *id
	}
	s.lines.Warn(s.log, client+"@"+sampled.Host(remote), message, append(args, "client", client, "remote", remote)...)
}

// noteClient notes the client ID of a request.
func (s *session) noteClient(id []byte) {
	if old := s.client.Load(); old == nil || *old != string(id) {
		s.client.Store(kmsg.StringPtr(string(id[:min(len(id), clientMax)])))
	}
}

// warnVersion logs a request of a version that is not served, because many clients do not say why
// they fail.
func (c *call) warnVersion(message string, oldest int16) {
	if c.identity != nil {
		c.warn(message, "api", c.api.key.Name(), "version", c.version, "min", oldest, "max", c.api.max)
	}
}

// clientMax bounds the client ID in a log line.
const clientMax = 200

// Authenticated implements framed.Session. A client with a certificate may choose SASL at any time
// before its first other request.
func (s *session) Authenticated() bool { return s.identity != nil || s.peer() != nil }

// peer returns the client's certificate, or nil.
func (s *session) peer() *tlsport.Peer {
	if s.secured == nil {
		return nil
	}
	return s.secured.Peer()
}

// certified authenticates a client that does not use SASL by its certificate.
func (s *session) certified(ctx context.Context) error {
	if s.peer() == nil {
		return errUnauthenticated
	}
	who, err := s.o.Auth.Certificate(ctx, s.peer(), s.remote.String())
	if err != nil {
		s.met.authFailures.Inc()
		return err
	}
	s.authenticate(who)
	return nil
}

// Valid implements framed.Session.
func (s *session) Valid() bool {
	who := s.valid.Load()
	return who == nil || who.Valid()
}

var (
	errUnauthenticated = errors.New("request before authentication")
	errEnded           = errors.New("the token or certificate of the connection was revoked or has expired")
)

// Admit implements framed.Session.
func (s *session) Admit(ctx context.Context, head []byte, size int) (framed.Admission, error) {
	h := wire.Peek(head)
	a := s.apis[h.Key]
	if s.identity == nil && !s.rawSASL && a != nil && !a.unauthenticated {
		if err := s.certified(ctx); err != nil {
			return framed.Admission{}, err
		}
	}
	switch {
	case s.rawSASL && size > unauthenticatedBytes:
		return framed.Admission{}, fmt.Errorf("SASL message of %d bytes: limit %d", size, unauthenticatedBytes)
	case s.rawSASL:
		return framed.Admission{Spill: s.fetchClass}, nil
	case a == nil:
		return framed.Admission{}, fmt.Errorf("unsupported API key %d", h.Key)
	case s.identity != nil && !s.identity.Valid():
		return framed.Admission{}, errEnded
	}
	limit, admission := requestBytes, framed.Admission{Spill: s.fetchClass, Use: useOf(a.key)}
	switch {
	case s.identity == nil:
		limit = unauthenticatedBytes
	case a.carriesRecords():
		limit, admission.Class, admission.Look = s.produceBytes, s.produceClass, s.look
	case a.key == kmsg.Envelope:
		limit += envelopeBytes
	}
	if size > limit {
		err := fmt.Errorf("%s of %d bytes: limit %d", a.key.Name(), size, limit)
		switch {
		case s.identity == nil:
		case a.carriesRecords() && h.Version >= a.min && h.Version <= a.max:
			return framed.Admission{Scan: func(r io.Reader) (framed.Finish, error) { return s.tooLarge(r, err) }}, nil
		default:
			s.warn("kafka: request too large, connection closed", "api", a.key.Name(), "bytes", size, "limit", limit)
		}
		return framed.Admission{}, err
	}
	return admission, nil
}

// useOf returns what a request does with the connection. What clients ask before they write, and what
// the members of groups do, takes the slot of no reader.
func useOf(k kmsg.Key) framed.Use {
	switch k {
	case kmsg.Fetch:
		return framed.Waits
	case kmsg.JoinGroup:
		return framed.Joins
	case kmsg.ApiVersions, kmsg.SASLHandshake, kmsg.SASLAuthenticate, kmsg.Metadata, kmsg.FindCoordinator, kmsg.ListOffsets,
		kmsg.SyncGroup, kmsg.Heartbeat, kmsg.LeaveGroup, kmsg.OffsetFetch, kmsg.OffsetCommit, kmsg.OffsetForLeaderEpoch,
		kmsg.ConsumerGroupHeartbeat:
		return framed.Asks
	}
	return framed.Writes
}

// Delay implements framed.Session.
func (s *session) Delay(head []byte, size int) (time.Duration, <-chan struct{}) {
	if s.identity == nil || s.identity.Root() {
		return 0, nil
	}
	changed := s.identity.Changed() // before the quota is looked at
	kind, n := kindOf(kmsg.Key(wire.Peek(head).Key)), int64(size)
	if kind != auth.Produced {
		n = 0
	}
	return s.identity.Meter().Begin(kind, n), changed
}

// kindOf is what a request uses besides being a request, as in Kafka: a Produce its own size, a
// Fetch that of its answer.
func kindOf(k kmsg.Key) auth.Kind {
	switch k {
	case kmsg.Produce:
		return auth.Produced
	case kmsg.Fetch:
		return auth.Fetched
	}
	return auth.Requests
}

// Begin implements framed.Session.
func (s *session) Begin(ctx context.Context, f *framed.Frame) (framed.Finish, error) {
	if s.rawSASL {
		return s.beginRawSASL(ctx, f)
	}
	c := &call{session: s, who: s.identity, api: s.apis[wire.Peek(f.Bytes).Key], frame: f}
	return c.open(ctx, f.Bytes)
}

// open begins the request in b, after its head is decoded and its lengths are checked.
func (c *call) open(ctx context.Context, b []byte) (framed.Finish, error) {
	h, a := wire.Peek(b), c.api
	c.version, c.id = h.Version, h.Correlation
	c.met.requests[h.Key].Inc()
	if h.Version < a.min || h.Version > a.max {
		if a.key == kmsg.ApiVersions {
			return c.unknownVersion()
		}
		if old, _, err := wire.ParseHead(b, false); err == nil { // the client ID is there in all versions
			c.noteClient(old.Client)
		}
		c.warnVersion("kafka: request of an unsupported version, connection closed", a.min)
		return nil, fmt.Errorf("%s v%d: unsupported version, want v%d to v%d", a.key.Name(), h.Version, a.min, a.max)
	}
	head, body, err := wire.ParseHead(b, a.shape.IsFlexible(h.Version))
	if err != nil {
		return nil, err
	}
	cost, rest, err := a.shape.Skim(h.Version, body)
	if err != nil {
		return nil, fmt.Errorf("%s v%d: %w", a.key.Name(), h.Version, err)
	}
	if err := c.frame.Charge(cost); err != nil {
		return nil, err
	}
	c.noteClient(head.Client)
	c.client, c.body = head.Client, body[:len(body)-len(rest)]
	if a.leader && !c.forwarded && c.standsBy() && (a.stays == nil || !a.stays(c)) {
		return c.forward, nil
	}
	return a.begin(c, ctx)
}

// host is the address that clients connect to.
func (s *session) host() address {
	if s.advertised != nil {
		return *s.advertised
	}
	a, err := splitAddress(s.local.String())
	if err != nil {
		return address{host: "127.0.0.1"}
	}
	return a
}

// commitTime bounds the wait for a commit of other data than records.
const commitTime = 30 * time.Second

// within is the client's timeout of millis, at most limit. It is at least the time for a batch that
// waits for others to share its object. A shorter timeout would withdraw the batch before it is
// sent, and a client that retries with the same timeout would never store anything.
func (s *Server) within(millis int32, limit time.Duration) time.Duration {
	const sending = 50 * time.Millisecond
	return min(limit, max(2*s.b.BatchWait()+sending, time.Duration(millis)*time.Millisecond))
}

// meters are the metrics of this package.
type meters struct {
	requests          map[int16]*metrics.Counter
	appended, read    *metrics.Counter // bytes of batches
	records, rejected *metrics.Counter
	authFailures      *metrics.Counter // failed authentications
}

func newMeters(set *metrics.Set, apis map[int16]*api) *meters {
	m := &meters{
		requests: map[int16]*metrics.Counter{},
		appended: set.NewCounter("seb_kafka_produced_bytes_total"), records: set.NewCounter("seb_kafka_produced_records_total"),
		authFailures: set.NewCounter("seb_kafka_authentication_failures_total"),
		rejected:     set.NewCounter("seb_kafka_produce_errors_total"), read: set.NewCounter("seb_kafka_fetched_bytes_total"),
	}
	for key, a := range apis {
		m.requests[key] = set.NewCounter(fmt.Sprintf("seb_kafka_requests_total{api=%q}", a.key.Name()))
	}
	return m
}
