package objstore_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/must"
)

// BenchmarkJournalPut stores objects of 4 KiB, with a journal and as files. It reports percentiles of
// the latency and the CPU time of the process for each object.
func BenchmarkJournalPut(b *testing.B) {
	for _, journal := range []bool{true, false} {
		for _, writers := range []int{1, 8, 64} {
			b.Run(fmt.Sprintf("journal=%v/writers=%d", journal, writers), func(b *testing.B) {
				benchmarkPut(b, journal, writers, make([]byte, 4<<10))
			})
		}
	}
}

func benchmarkPut(b *testing.B, journal bool, writers int, body []byte) {
	d := must.Get(objstore.OpenDisk(b.TempDir(), objstore.DiskOptions{}))(b)
	defer d.Close()
	if journal {
		must.NoError(b, d.Own(context.Background(), "wal/1-x"))
	}
	took := make([]time.Duration, b.N)
	var next atomic.Int64
	before := cpu(b)
	b.ResetTimer()
	var group sync.WaitGroup
	for range writers {
		group.Go(func() {
			for {
				i := next.Add(1) - 1
				if i >= int64(b.N) {
					return
				}
				start := time.Now()
				if err := d.Put(context.Background(), fmt.Sprintf("wal/1-x/%016x", i), objstore.NewBody(body)); err != nil {
					b.Error(err)
					return
				}
				took[i] = time.Since(start)
			}
		})
	}
	group.Wait()
	b.StopTimer()
	used := cpu(b) - before
	slices.Sort(took)
	for _, p := range []struct {
		name  string
		share float64
	}{{"p50-ms", 0.5}, {"p99-ms", 0.99}, {"max-ms", 1}} {
		i := min(int(float64(len(took))*p.share), len(took)-1)
		b.ReportMetric(float64(took[i].Microseconds())/1000, p.name)
	}
	b.ReportMetric(float64(used.Nanoseconds())/1000/float64(b.N), "cpu-us/op")
}

// cpu is the CPU time that the process has used.
func cpu(b *testing.B) time.Duration {
	var u unix.Rusage
	must.NoError(b, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
