package riemann

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/protocols/auth"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/brokertest"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/riemanntest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a real broker with a Riemann listener on a port.
type server struct {
	t    testing.TB
	b    *broker.Broker
	r    *Server
	auth *auth.Authority
	addr string
	met  *metrics.Set
}

// setup is what a test changes of a server.
type setup struct {
	store  objstore.Store
	limit  int64
	broker broker.Options
	o      Options
}

// start starts a server. When the test ends it checks that all memory was released.
func start(t testing.TB, change ...func(*setup)) *server {
	t.Helper()
	c := setup{store: objstore.NewMemory(), limit: 64 << 20}
	c.broker = broker.Options{Options: log.Options{Batch: log.Config{Wait: time.Millisecond, DeferWait: time.Millisecond}, Logger: slog.New(slog.DiscardHandler)}, AutoCreate: true}
	c.o = Options{Metrics: metrics.NewSet(), AckTimeout: 20 * time.Second}
	for _, f := range change {
		f(&c)
	}
	c.broker.Store, c.broker.Budget = c.store, budget.New(c.limit)
	if _, test := t.(*testing.T); test {
		c.broker.Budget.Buffers().Poison()
	}
	b, err := broker.Open(context.Background(), c.broker)
	must.NoError(t, err)
	s := &server{t: t, b: b, met: c.o.Metrics}
	s.auth = auth.New(auth.Options{Broker: b, RootKey: "the-api-key"})
	c.o.Auth = s.auth
	if c.o.Token == "create" {
		c.o.Token = s.token("listener")
	}
	if s.r, err = New(b, c.o); err != nil {
		t.Fatal(err)
	}
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	s.addr = l.Addr().String()
	served := make(chan error, 1)
	go func() { served <- s.r.Serve(context.Background(), l) }()
	t.Cleanup(func() {
		s.r.Drain()
		check.NoError(t, errors.Join(s.r.Close(context.Background()), <-served))
		check.Equalf(t, s.r.inFlight.Load(), 0, "bytes of records still count as not stored")
		s.auth.Close()
		check.NoError(t, b.Close(context.Background()))
		for _, k := range []budget.Kind{budget.Produce, budget.Objects} {
			check.Equalf(t, b.Budget().Class(k).Used(), 0, "bytes of %v are still reserved", k)
		}
	})
	return s
}

// token creates a token with rules.
func (s *server) token(id string, rules ...access.Rule) string {
	s.t.Helper()
	_, token := must.Get2(s.auth.CreateToken(context.Background(), s.auth.Root(), auth.TokenSpec{ID: id, Rules: rules}))(s.t)
	return token
}

// permit is a rule of the principal of a listener.
func (s *server) permit(o access.Operation, topic string) {
	s.t.Helper()
	rule := access.Rule{Principal: "listener", Resource: access.Topic, Name: topic, Operation: o, Host: access.Any}
	must.NoError(s.t, s.auth.ChangeRules(s.t.Context(), s.auth.Root(), []access.Rule{rule}, nil))
}

// values returns the values of the records of a topic, in the order of partitions.
func (s *server) values(topic string) (values []string) {
	s.t.Helper()
	n, err := s.b.Partitions(topic)
	if errors.Is(err, state.ErrUnknownTopic) {
		return nil
	}
	for p := range n {
		brokertest.Each(s.t, s.b, topic, p, 0, func(r *record.Record) { values = append(values, string(r.Value)) })
	}
	return values
}

// counter is the value of a metric.
func (s *server) counter(name string) uint64 { return s.met.GetOrCreateCounter(name).Get() }

// peer is a Riemann client.
type peer struct {
	t testing.TB
	net.Conn
	r *bufio.Reader
}

func (s *server) dial() *peer {
	s.t.Helper()
	c := must.Get(net.Dial("tcp", s.addr))(s.t)
	s.t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	return &peer{s.t, c, bufio.NewReader(c)}
}

// send sends messages without waiting for answers.
func (p *peer) send(messages ...[]byte) {
	p.t.Helper()
	var all []byte
	for _, m := range messages {
		all = append(all, riemanntest.WithLength(m)...)
	}
	must.Get(p.Write(all))(p.t)
}

// answer is a Msg that answers another.
type answer struct {
	ok     bool
	fault  string
	events []string // encoded
}

// receive reads an answer.
func (p *peer) receive() (a answer) {
	p.t.Helper()
	a = must.Get(p.tryReceive())(p.t)
	return a
}

func (p *peer) tryReceive() (a answer, err error) {
	var head [4]byte
	if _, err := io.ReadFull(p.r, head[:]); err != nil {
		return a, err
	}
	b := make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(p.r, b); err != nil {
		return a, err
	}
	var f field
	for len(b) > 0 {
		if b, err = f.read(b); err != nil {
			return a, err
		}
		switch {
		case f.is(fieldOK, protowire.VarintType):
			a.ok = f.n == 1
		case f.is(fieldError, protowire.BytesType):
			a.fault = string(f.b)
		case f.is(fieldEvents, protowire.BytesType):
			a.events = append(a.events, string(f.b))
		}
	}
	return a, nil
}

// ask sends a message and reads its answer.
func (p *peer) ask(m []byte) answer {
	p.t.Helper()
	p.send(m)
	return p.receive()
}

// ended expects that the server closes the connection.
func (p *peer) ended() {
	p.t.Helper()
	if a, err := p.tryReceive(); err == nil || errors.Is(err, context.DeadlineExceeded) {
		p.t.Fatalf("%+v, %v: want the connection closed", a, err)
	}
}
