package kafka

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/budget"
	"github.com/sebbroker/seb/internal/kafka/conn"
)

// nodeID is what the one broker that there is calls itself: who leads all partitions and is the controller.
const nodeID = 1

const (
	// strangerBytes is the largest request of a client that has not shown who it is, requestBytes that of others; a produce
	// may be as large as the broker's largest request.
	strangerBytes = 64 << 10
	requestBytes  = 1 << 20
)

// Server serves the Kafka protocol of one broker. Its methods may be called concurrently.
type Server struct {
	b          *broker.Broker
	o          Options
	log        *slog.Logger
	conns      *conn.Server
	apis       map[int16]*api
	secret     [sha256.Size]byte // digest of the API key
	scrams     map[string]*scramServer
	advertised *address // nil: where the client has connected to

	produceClass, fetchClass *budget.Class
	produceBytes             int // the largest produce

	groups    *groupServer
	producers atomic.Uint32 // ids given out
	met       *meters
}

// New returns the front end of b, which stays the caller's to close, after Drain.
func New(b *broker.Broker, o Options) (*Server, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	s := &Server{
		b: b, o: o.withDefaults(), apis: map[int16]*api{}, secret: sha256.Sum256([]byte(o.APIKey)),
		produceClass: b.Budget().Class(budget.Produce), fetchClass: b.Budget().Class(budget.Fetch),
	}
	var err error
	if s.scrams, err = newScram(o.APIKey); err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	s.o.APIKey = ""
	s.log = s.o.Logger
	list := table()
	if o.Groups == nil {
		list = slices.DeleteFunc(list, func(a api) bool { return a.groups })
	} else {
		s.groups = &groupServer{Coordinator: o.Groups, Topics: b, Memory: s.fetchClass}
	}
	for i := range list {
		s.apis[int16(list[i].key)] = &list[i]
	}
	if o.Advertised != "" {
		a, err := splitAddress(o.Advertised)
		if err != nil {
			return nil, err
		}
		s.advertised = &a
	}
	most := b.Budget().RequestMax()
	s.produceBytes = int(min(most+most/broker.FramingShare, s.produceClass.Limit()))
	s.met = newMeters(s.o.Metrics, list)
	s.conns = conn.New(conn.Options{
		Port: o.Port, Open: s.open, Buffers: b.Budget().Buffers(), Connections: o.Connections, QueueBytes: int64(s.produceBytes),
		Idle: o.Idle, TrustWithin: o.TrustWithin, Step: o.Step, Logger: s.log, Metrics: s.o.Metrics,
	})
	return s, nil
}

// Serve serves what comes to l until Drain or Close, and then returns nil; or says why it can not go on. It is called once.
// ctx must outlive Close.
func (s *Server) Serve(ctx context.Context, l net.Listener) error { return s.conns.Serve(ctx, l) }

// Drain closes the listener, ends long polls with what they have, and takes no more requests. It does not wait.
func (s *Server) Drain() { s.conns.Drain() }

// Close drains, waits until what has begun is answered, which for what is being stored needs the broker, and closes the
// connections. When ctx ends first it cuts them. Closing twice waits again.
func (s *Server) Close(ctx context.Context) error { return s.conns.Close(ctx) }

// open makes the session of a new connection.
func (s *Server) open(c net.Conn) conn.Session {
	return &session{Server: s, local: c.LocalAddr(), remote: c.RemoteAddr()}
}

// session is one connection. It belongs to the goroutine that reads, but for what calls read of it.
type session struct {
	*Server
	local     net.Addr
	remote    net.Addr
	mechanism string     // chosen by SaslHandshake, until it has led to something
	scramming *scramTalk // of a mechanism of SCRAM
	bare      bool       // SaslHandshake v0: what comes is messages of SASL without heads
	trusted   bool
}

// Trusted implements conn.Session.
func (s *session) Trusted() bool { return s.trusted }

var errStranger = errors.New("request of a client that has not shown who it is")

// Admit implements conn.Session.
func (s *session) Admit(head []byte, size int) (conn.Admission, error) {
	h := conn.Peek(head)
	a := s.apis[h.Key]
	switch {
	case s.bare && size > strangerBytes:
		return conn.Admission{}, fmt.Errorf("message of SASL with %d bytes, at most %d are taken", size, strangerBytes)
	case s.bare:
		return conn.Admission{Spill: s.fetchClass}, nil
	case a == nil:
		return conn.Admission{}, fmt.Errorf("api key %d is not served", h.Key)
	case !s.trusted && !a.open:
		return conn.Admission{}, errStranger
	}
	most, admission := requestBytes, conn.Admission{Spill: s.fetchClass}
	switch {
	case !s.trusted:
		most = strangerBytes
	case a.stores():
		most, admission.Class = s.produceBytes, s.produceClass
	}
	if size > most {
		if s.trusted {
			s.log.Warn("kafka: request too large, connection closed", "api", a.key.Name(), "bytes", size, "limit", most)
		}
		return conn.Admission{}, fmt.Errorf("%s of %d bytes, at most %d are taken", a.key.Name(), size, most)
	}
	return admission, nil
}

// Begin implements conn.Session.
func (s *session) Begin(ctx context.Context, f *conn.Frame) (conn.Finish, error) {
	if s.bare {
		return s.beginBare(ctx, f)
	}
	h := conn.Peek(f.Bytes)
	a := s.apis[h.Key]
	c := &call{session: s, api: a, version: h.Version, id: h.Correlation, frame: f}
	s.met.requests[h.Key].Inc()
	if h.Version < a.min || h.Version > a.max {
		if a.key == kmsg.ApiVersions {
			return c.versionsUnknown()
		}
		return nil, fmt.Errorf("%s v%d is not served, v%d to v%d are", a.key.Name(), h.Version, a.min, a.max)
	}
	_, body, err := conn.ParseHead(f.Bytes, a.shape.IsFlexible(h.Version))
	if err != nil {
		return nil, err
	}
	cost, rest, err := a.shape.Skim(h.Version, body)
	if err != nil {
		return nil, fmt.Errorf("%s v%d: %w", a.key.Name(), h.Version, err)
	}
	if err := f.Charge(cost); err != nil {
		return nil, err
	}
	c.body = body[:len(body)-len(rest)]
	return a.begin(c, ctx)
}

// host is where clients are told to connect to.
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

// commitTime bounds the wait for what is not data to be committed; clients ask for less.
const commitTime = 30 * time.Second

// within is the time that a client gives, in milliseconds, but at most most, and no less than something takes that waits for others to share
// its object: what is not sent to the store in time is taken back, so who gives less, and tries again with as little, would never
// get anything stored.
func (s *Server) within(millis int32, most time.Duration) time.Duration {
	const sending = 50 * time.Millisecond
	return min(most, max(2*s.b.BatchWait()+sending, time.Duration(millis)*time.Millisecond))
}

// meters are this package's metrics.
type meters struct {
	requests          map[int16]*metrics.Counter
	appended, read    *metrics.Counter // bytes of batches
	records, rejected *metrics.Counter
	strangers         *metrics.Counter // wrong passwords
}

func newMeters(set *metrics.Set, list []api) *meters {
	m := &meters{
		requests: map[int16]*metrics.Counter{},
		appended: set.NewCounter("seb_kafka_produced_bytes_total"), records: set.NewCounter("seb_kafka_produced_records_total"),
		strangers: set.NewCounter("seb_kafka_authentication_failures_total"),
		rejected:  set.NewCounter("seb_kafka_produce_errors_total"), read: set.NewCounter("seb_kafka_fetched_bytes_total"),
	}
	for _, a := range list {
		m.requests[a.key.Int16()] = set.NewCounter(fmt.Sprintf("seb_kafka_requests_total{api=%q}", a.key.Name()))
	}
	return m
}
