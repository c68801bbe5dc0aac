package broker_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/must"
)

// null is a store that discards objects under wal, so that only the broker's own work is measured.
type null struct{ objstore.Store }

func (n null) Put(ctx context.Context, key string, body objstore.Body) error {
	if strings.Contains(key, "/wal/0000000001-") {
		return nil
	}
	return n.Store.Put(ctx, key, body)
}

// BenchmarkFlush stores one object of 100 appends of 1 KiB from 100 waiting callers: submit,
// freeze, PUT, commit, results.
func BenchmarkFlush(b *testing.B) {
	for _, producers := range []int{1, 100} {
		b.Run(fmt.Sprintf("callers=%d", producers), func(b *testing.B) {
			o := options(null{objstore.NewMemory()})
			o.Budget = budget.New(256 << 20)
			o.Batch.Wait = 0
			o.Batch.ItemsMax = 100
			br := open(b, o)
			create(b, br, "a", 10)
			const appends = 100
			each := appends / producers
			templates := make([][]broker.Append, producers)
			for p := range templates {
				for range each {
					templates[p] = append(templates[p], data(b, "a", p%10, strings.Repeat("x", 1000)))
				}
			}
			b.ReportAllocs()
			b.ResetTimer()
			var wg sync.WaitGroup
			for p := range producers {
				wg.Go(func() {
					for range b.N {
						for _, r := range br.Submit(context.Background(), templates[p]).Wait(context.Background()) {
							if r.Err != nil {
								b.Error(r.Err)
								return
							}
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N*appends)/b.Elapsed().Seconds(), "appends/s")
		})
	}
}

// BenchmarkCommit commits one record of 1 KiB, with few or very many partitions in other topics: a
// commit costs only its own partitions. cpu-ns/op is the processor time of the whole process,
// including garbage collection.
func BenchmarkCommit(b *testing.B) {
	for _, others := range []int{0, 1_000_000} {
		b.Run(fmt.Sprintf("partitions=%d", others), func(b *testing.B) {
			o := options(null{objstore.NewMemory()})
			o.Budget = budget.New(4 << 30)
			o.Batch.Wait = 0
			br := open(b, o)
			for i := range others / state.PartitionsMax {
				create(b, br, fmt.Sprint("other", i), state.PartitionsMax)
			}
			create(b, br, "a", 1)
			one := []broker.Append{data(b, "a", 0, strings.Repeat("x", 1000))}
			b.ReportAllocs()
			before := processorTime(b)
			for b.Loop() {
				if r := br.Submit(context.Background(), one).Wait(context.Background()); r[0].Err != nil {
					b.Fatal(r[0].Err)
				}
			}
			b.ReportMetric(float64(processorTime(b)-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	must.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkTailFetch reads at the end of the log.
func BenchmarkTailFetch(b *testing.B) {
	br := open(b, options(objstore.NewMemory()))
	create(b, br, "a", 1)
	for range 10 {
		mustProduce(b, br, "a", 0, strings.Repeat("x", 10_000))
	}
	b.ReportAllocs()
	for b.Loop() {
		f, err := br.Fetch(context.Background(), []broker.Want{{Topic: "a", Offset: 9}}, 1, time.Second)
		if err != nil || f.Parts[0].Chunks == nil {
			b.Fatal(err)
		}
		f.Release()
	}
}

// BenchmarkFarFetch reads data that is no longer in memory.
func BenchmarkFarFetch(b *testing.B) {
	for _, c := range []struct {
		name  string
		store func() objstore.Store
		parts int // adjacent
		size  int // of each one's records in total
		share bool
	}{
		{"memory/1x1MiB", func() objstore.Store { return objstore.NewMemory() }, 1, 1 << 20, false},
		{"shared/1x1MiB", func() objstore.Store { return objstore.NewMemory() }, 1, 1 << 20, true},
		{"disk/1x1MiB", func() objstore.Store { return disk(b) }, 1, 1 << 20, false},
		{"memory/32x10KiB", func() objstore.Store { return objstore.NewMemory() }, 32, 10 << 10, false},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := c.store()
			br := open(b, options(s))
			create(b, br, "a", c.parts)
			var appends []broker.Append
			var wants []broker.Want
			for p := range c.parts {
				for range 8 {
					appends = append(appends, data(b, "a", p, strings.Repeat("x", c.size/8)))
				}
				wants = append(wants, broker.Want{Topic: "a", Partition: int32(p), MaxBytes: 2 << 20})
			}
			for _, r := range br.Submit(b.Context(), appends).Wait(b.Context()) {
				if r.Err != nil {
					b.Fatal(r.Err)
				}
			}
			kill(br)
			o := options(s) // with an empty tail
			o.ShareReads, o.Budget = c.share, budget.New(256<<20)
			br = open(b, o)
			b.SetBytes(int64(c.parts * c.size))
			b.ReportAllocs()
			for b.Loop() {
				f, err := br.Fetch(b.Context(), wants, 1, time.Second)
				if err != nil || f.Parts[c.parts-1].Chunks == nil {
					b.Fatal(err)
				}
				f.Release()
			}
		})
	}
}
