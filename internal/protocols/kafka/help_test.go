package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"go.uber.org/goleak"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/protocols/auth"
	"github.com/sebbroker/seb/internal/protocols/kafka"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // the pools last longer, which saves CPU time
	goleak.VerifyTestMain(m)
}

const apiKey = "the-api-key"

var quiet = slog.New(slog.DiscardHandler)

// served is a broker with its Kafka server on a port.
type served struct {
	b      *broker.Broker
	k      *kafka.Server
	addr   string
	served chan error
	met    *metrics.Set
}

// asked waits until n requests of an API have begun.
func (s *served) asked(t testing.TB, api string, n uint64) {
	t.Helper()
	c := s.met.GetOrCreateCounter(fmt.Sprintf("seb_kafka_requests_total{api=%q}", api))
	sebtest.Eventually(t, "the requests have begun", func() bool { return c.Get() >= n })
}

func openBroker(t testing.TB, store objstore.Store, change func(*broker.Options)) *broker.Broker {
	t.Helper()
	o := broker.Options{
		Options:    log.Options{Store: store, Budget: budget.New(256 << 20), Batch: log.Config{Wait: 2 * time.Millisecond}, Logger: quiet},
		AutoCreate: true,
	}
	if change != nil {
		change(&o)
	}
	b := must.Get(broker.Open(t.Context(), o))(t)
	t.Cleanup(func() { _ = b.Close(context.Background()) })
	return b
}

// authority authenticates the clients of a broker; apiKey is its root key.
func authority(t testing.TB, b *broker.Broker) *auth.Authority {
	a := auth.New(auth.Options{Broker: b, RootKey: apiKey, Internal: []string{"firings"}})
	t.Cleanup(a.Close)
	return a
}

func serve(t testing.TB, b *broker.Broker, o kafka.Options) *served {
	t.Helper()
	if o.Auth == nil {
		o.Auth = authority(t, b)
	}
	if o.Metrics == nil {
		o.Metrics = metrics.NewSet()
	}
	k := must.Get(kafka.New(b, o))(t)
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	s := &served{b: b, k: k, addr: l.Addr().String(), served: make(chan error, 1), met: o.Metrics}
	ctx := context.Background()
	go func() { s.served <- k.Serve(ctx, l) }()
	t.Cleanup(func() { check.NoError(t, errors.Join(k.Close(context.Background()), <-s.served)) })
	return s
}

func memory(t testing.TB) *served { return memoryOn(t, objstore.NewMemory(), nil) }

func memoryOn(t testing.TB, store objstore.Store, change func(*broker.Options)) *served {
	return serve(t, openBroker(t, store, change), kafka.Options{})
}

func client(t testing.TB, s *served, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	opts = append([]kgo.Opt{
		kgo.SeedBrokers(s.addr), kgo.SASL(plain.Auth{User: "u", Pass: apiKey}.AsMechanism()), kgo.AllowAutoTopicCreation(),
		kgo.MetadataMinAge(10 * time.Millisecond),
	}, opts...)
	c := must.Get(kgo.NewClient(opts...))(t)
	t.Cleanup(c.Close)
	return c
}

func admin(t testing.TB, s *served) *kadm.Client { return kadm.NewClient(client(t, s)) }

// consume reads n records.
func consume(t testing.TB, c *kgo.Client, n int) []*kgo.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var got []*kgo.Record
	for len(got) < n {
		f := c.PollFetches(ctx)
		must.NoErrorf(t, f.Err(), "after %d of %d records", len(got), n)
		got = append(got, f.Records()...)
	}
	return got
}
