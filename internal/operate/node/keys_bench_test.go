package node

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/brokertest"
	"github.com/sebbroker/seb/test/must"
)

// BenchmarkKeyedRecords sends b.N records of 16-byte keys and 100-byte values to a broker on a disk
// bucket, from four concurrent producers, with and without a key index. It reports the rate until
// the last record is stored (and indexed), the lag of the index at that time, and the CPU time. Use
// -benchtime=3000000x.
func BenchmarkKeyedRecords(b *testing.B) {
	for _, keys := range []int{0, 100, 3_000_000} {
		name := fmt.Sprintf("keys=%d", keys)
		if keys == 0 {
			name = "no index"
		}
		b.Run(name, func(b *testing.B) { keyedRecords(b, keys) })
	}
}

func keyedRecords(b *testing.B, keys int) {
	const producers, batch = 4, 500
	dir := b.TempDir()
	n := must.Get(Open(b.Context(), Options{Bucket: filepath.Join(dir, "bucket"), DataDir: filepath.Join(dir, "data")}))(b)
	defer n.Close(context.Background())
	info := must.Get(n.CreateTopic(b.Context(), "t", broker.TopicSpec{Settings: map[string]string{"key-index": fmt.Sprint(keys > 0)}}))(b)
	b.ResetTimer()
	busy := processorTime()
	var wg sync.WaitGroup
	for p := range producers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(p)))
			for left := b.N / producers; left > 0; left -= batch {
				if err := sendKeyed(b.Context(), n, r, min(batch, left), max(keys, 1000)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	stored := b.Elapsed()
	if keys > 0 && b.N >= producers {
		b.ReportMetric(float64(n.Keys().Lag(info.ID)), "lag")
		must.NoError(b, n.Keys().WaitFor(b.Context(), info.ID, 0, int64(b.N/producers*producers-1)))
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "in-view/s")
	}
	b.ReportMetric(float64(b.N)/stored.Seconds(), "stored/s")
	b.ReportMetric(float64((processorTime()-busy).Nanoseconds())/float64(b.N), "cpu-ns/record")
}

func sendKeyed(ctx context.Context, n *Node, r *rand.Rand, records, keys int) error {
	value := make([]byte, 100)
	recs := make([]record.Record, records)
	for i := range recs {
		k := uint64(r.IntN(keys))
		key := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, k*0x9e3779b97f4a7c15), k)
		recs[i] = record.Record{Key: key, Value: value, Timestamp: time.Now().UnixMilli()}
	}
	return brokertest.Try(ctx, n, brokertest.Append("t", 0, recs...)).Err
}

func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
