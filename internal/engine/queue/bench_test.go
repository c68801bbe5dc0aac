package queue_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/engine/queue"
	"github.com/sebbroker/seb/test/must"
)

// BenchmarkWork sends, leases and settles messages of 1 KiB with 16 workers, by one or ten.
func BenchmarkWork(b *testing.B) {
	for name, batch := range map[string]int{"1": 1, "10": 10} {
		b.Run(name, func(b *testing.B) {
			f := openFor(b, objstore.NewMemory())
			f.create("q")
			value := make([]byte, 1024)
			var sent, done atomic.Int64
			var busy sync.WaitGroup
			b.ResetTimer()
			for range 16 {
				busy.Go(func() {
					for sent.Add(int64(batch)) <= int64(b.N+batch) {
						list := make([]queue.Message, batch)
						for i := range list {
							list[i].Value = value
						}
						must.Get(f.q.Send(b.Context(), "q", list))(b)
					}
				})
				busy.Go(func() {
					for done.Load() < int64(b.N) {
						l := must.Get(f.q.Lease(b.Context(), queue.LeaseRequest{Queue: "q", Max: batch, Wait: 100 * time.Millisecond}))(b)
						var s []queue.Settlement
						for i := range l.List {
							s = append(s, queue.Settlement{Receipt: l.List[i].Receipt, Do: queue.Finish})
						}
						l.Release()
						if len(s) > 0 {
							must.Get(f.q.Settle(b.Context(), "q", "w", s))(b)
							done.Add(int64(len(s)))
						}
					}
				})
			}
			busy.Wait()
		})
	}
}

// BenchmarkManyQueues measures a message of one queue beside idle ones.
func BenchmarkManyQueues(b *testing.B) {
	for _, n := range []int{1, 1000, 5000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			f := openFor(b, objstore.NewMemory())
			for i := range n {
				f.create(fmt.Sprintf("q%d", i), "dead-letter", "none")
			}
			for b.Loop() {
				f.send("q0", text("x"))
				must.NoError(b, f.settle("q0", queue.Finish, f.lease("q0", 1)[0]))
			}
		})
	}
}

// BenchmarkFigures measures the figures of 1,000 queues, which the leader takes every ten seconds, and of one
// with many delayed messages.
func BenchmarkFigures(b *testing.B) {
	b.Run("queues", func(b *testing.B) {
		f := openFor(b, objstore.NewMemory())
		for i := range 1000 {
			f.create(fmt.Sprintf("q%d", i), "dead-letter", "none")
		}
		for b.Loop() {
			f.q.Stats()
		}
	})
	b.Run("delayed", func(b *testing.B) {
		f := openFor(b, objstore.NewMemory())
		f.create("q", "dead-letter", "none")
		list := make([]queue.Message, 1000)
		for i := range 20 {
			for k := range list {
				list[k] = queue.Message{Value: []byte("x"), Delay: time.Hour + time.Duration(i*1000+k)*time.Second}
			}
			f.send("q", list...)
		}
		for b.Loop() {
			f.q.Stats()
		}
	})
}
