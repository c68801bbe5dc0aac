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
	"github.com/sebbroker/seb/test/sebtest"
)

// TestCuts: the connections of idempotent producers are delayed, slowed down and cut within
// requests and answers. Every record is stored once, in order, at the acknowledged offset, and a
// consumer on the same network reads them all.
func TestCuts(t *testing.T) {
	t.Parallel()
	const seed = 20
	wire := must.Get(faultproxy.NewWire(seed))(t)
	t.Cleanup(wire.Close)
	s := serve(t, openBroker(t, objstore.NewMemory(), nil), kafka.Options{Advertised: wire.Address(), Step: time.Second})
	wire.SetTarget(s.addr)
	const partitions, producers = 3, 3
	each := sebtest.Runs(8000, 4000)
	topic(t, s.b, "t", broker.TopicSpec{Partitions: partitions})
	wire.SetConfig(faultproxy.WireConfig{
		Rates: faultproxy.Rates{
			faultproxy.Refused: .05, faultproxy.CutUp: .5, faultproxy.CutDown: .35, faultproxy.AnswerLost: .08,
			faultproxy.HalfOpen: .02,
		},
		DelayMax: 5 * time.Millisecond, HoldMax: 100 * time.Millisecond,
	})
	connect := func(opts ...kgo.Opt) *kgo.Client {
		c := must.Get(kgo.NewClient(append([]kgo.Opt{
			kgo.SeedBrokers(wire.Address()), kgo.SASL(plain.Auth{User: "u", Pass: apiKey}.AsMechanism()),
			kgo.RetryBackoffFn(func(int) time.Duration { return 5 * time.Millisecond }), kgo.RequestRetries(1000),
			kgo.RequestTimeoutOverhead(2 * time.Second), kgo.MetadataMinAge(10 * time.Millisecond), kgo.ConnIdleTimeout(30 * time.Second),
			kgo.RetryTimeout(time.Minute),
		}, opts...)...))(t)
		t.Cleanup(c.Close)
		return c
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	told := map[string][2]int64{} // partition and offset of each value
	var mu sync.Mutex
	var producing sync.WaitGroup
	for p := range producers {
		c := connect(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(4<<10), kgo.ProducerLinger(0), kgo.UnknownTopicRetries(-1), kgo.ProducerBatchCompression(kgo.NoCompression()))
		producing.Go(func() {
			for i := range each {
				r := &kgo.Record{Topic: "t", Partition: int32(i % partitions), Value: fmt.Appendf(nil, "%d.%06d %0200d", p, i, 0)}
				c.Produce(ctx, r, func(r *kgo.Record, err error) {
					mu.Lock()
					defer mu.Unlock()
					check.NoErrorf(t, err, "%s", r.Value)
					told[string(r.Value)] = [2]int64{int64(r.Partition), r.Offset}
				})
			}
			check.NoError(t, c.Flush(ctx))
		})
	}
	var got []*kgo.Record
	consumer := connect(kgo.ConsumeTopics("t"), kgo.FetchMaxWait(100*time.Millisecond), kgo.FetchMaxBytes(20<<10))
	for len(got) < producers*each && ctx.Err() == nil {
		got = append(got, consumer.PollFetches(ctx).Records()...)
	}
	producing.Wait()
	once(t, got, told, producers*each)
	counts := wire.Counts()
	t.Logf("%v", counts)
	if counts[faultproxy.CutUp]+counts[faultproxy.CutDown]+counts[faultproxy.AnswerLost] < 10 {
		t.Errorf("too few connections were cut: %v", counts)
	}
}

// once compares the records that were read with the acknowledgements: each record once, in order,
// at its acknowledged offset.
func once(t *testing.T, got []*kgo.Record, told map[string][2]int64, n int) {
	t.Helper()
	next := map[int32]int64{}
	last := map[string]string{}
	seen := map[string]bool{}
	for _, r := range got {
		v := string(r.Value)
		line := fmt.Sprint(r.Partition, v[:1])
		if r.Offset != next[r.Partition] || seen[v] || told[v] != [2]int64{int64(r.Partition), r.Offset} || v <= last[line] {
			t.Fatalf("%s at offset %d of partition %d: seen before %v, acknowledged at %v, previous %s, next offset %d", v, r.Offset, r.Partition, seen[v], told[v], last[line], next[r.Partition])
		}
		seen[v], last[line], next[r.Partition] = true, v, r.Offset+1
	}
	if len(seen) != n {
		t.Errorf("%d records of %d", len(seen), n)
	}
}
