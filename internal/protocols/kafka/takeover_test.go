package kafka_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/protocols/kafka"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/faultproxy"
	"github.com/sebbroker/seb/test/must"
)

// TestTakeovers: while an idempotent producer and a consumer run, brokers take over from each
// other, some from a closed one and some from one that has not noticed.
func TestTakeovers(t *testing.T) {
	t.Parallel()
	wire, err := faultproxy.NewWire(1) // a fixed address
	must.NoError(t, err)
	t.Cleanup(wire.Close)
	store := objstore.NewMemory()
	o := kafka.Options{Advertised: wire.Address()}
	s := serve(t, openBroker(t, store, nil), o)
	wire.SetTarget(s.addr)
	topic(t, s.b, "t", broker.TopicSpec{Partitions: 2})
	connect := func(opts ...kgo.Opt) *kgo.Client {
		return client(t, s, append([]kgo.Opt{
			kgo.SeedBrokers(wire.Address()), kgo.SASL(plain.Auth{User: "u", Pass: apiKey}.AsMechanism()), kgo.RetryTimeout(time.Minute),
			kgo.RetryBackoffFn(func(int) time.Duration { return 5 * time.Millisecond }), kgo.RequestRetries(1000),
		}, opts...)...)
	}
	p := connect(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(2<<10), kgo.MaxBufferedRecords(200))
	c := connect(kgo.ConsumeTopics("t"), kgo.FetchMaxWait(100*time.Millisecond))
	throughTakeovers(t, p, c, 2000, func(i int) {
		old := s
		if i%2 == 0 {
			check.NoError(t, old.b.Close(t.Context()))
		}
		s = serve(t, openBroker(t, store, nil), o)
		wire.SetTarget(s.addr)
		old.k.Drain()
	})
}

// throughTakeovers produces to both partitions of topic t and consumes, and calls take five times, each
// time after a number of records. Every record must be stored once, in order, at the acknowledged
// offset, and the consumer must read each once.
func throughTakeovers(t *testing.T, p, c *kgo.Client, between int, take func(i int)) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	const takeovers = 6
	told := map[string][2]int64{}
	var mu sync.Mutex
	progress := make(chan struct{}, takeovers*between)
	var producing sync.WaitGroup
	producing.Go(func() {
		for i := range takeovers * between {
			r := &kgo.Record{Topic: "t", Partition: int32(i % 2), Value: fmt.Appendf(nil, "0.%06d", i)}
			p.Produce(ctx, r, func(r *kgo.Record, err error) {
				mu.Lock()
				defer mu.Unlock()
				check.NoErrorf(t, err, "%s", r.Value)
				told[string(r.Value)] = [2]int64{int64(r.Partition), r.Offset}
				progress <- struct{}{}
			})
		}
	})
	producing.Go(func() {
		for i := range takeovers - 1 {
			for range between {
				<-progress
			}
			take(i)
		}
	})
	var got []*kgo.Record
	for len(got) < takeovers*between && ctx.Err() == nil {
		got = append(got, c.PollFetches(ctx).Records()...)
	}
	producing.Wait()
	check.NoError(t, p.Flush(ctx))
	once(t, got, told, takeovers*between)
}
