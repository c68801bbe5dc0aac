package compact_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/log/compact"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/brokertest"
	"github.com/sebbroker/seb/test/must"
)

// BenchmarkCompaction compacts 500,000 records of 100 bytes with 50,000 keys.
func BenchmarkCompaction(b *testing.B) {
	const records, keys, batch = 500_000, 50_000, 1000
	for range b.N {
		b.StopTimer()
		store := objstore.NewMemory()
		br, err := broker.Open(b.Context(), broker.Options{Options: log.Options{Store: store}})
		must.NoError(b, err)
		if _, err := br.CreateTopic(b.Context(), "t", broker.TopicSpec{Settings: map[string]string{"cleanup-policy": "compact"}}); err != nil {
			b.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(1, 2))
		recs := make([]record.Record, batch)
		for range records / batch {
			for i := range recs {
				recs[i] = record.Record{Timestamp: 1, Key: fmt.Appendf(nil, "key-%012d", rng.IntN(keys)), Value: make([]byte, 100)}
			}
			brokertest.Produce(b, br, "t", 0, recs...)
		}
		m := compact.Open(compact.Options{Log: br, Store: store, TempDir: b.TempDir(), Policy: compact.Policy{Age: time.Microsecond}, Every: time.Hour})
		if _, err := m.Once(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		for {
			made, err := m.Once(b.Context())
			must.NoError(b, err)
			if !made {
				break
			}
		}
		b.StopTimer()
		if left := br.View().TopicByName("t").Partitions.At(0).Bytes; left > 9<<20 {
			b.Fatalf("%d bytes remain", left)
		}
		m.Close()
		br.Close(b.Context())
	}
	b.ReportMetric(float64(records)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
}
