package keyindex

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
)

// filled returns a log of n records with 16-byte keys, drawn from keys different ones, and 100-byte
// values, in batches of 500.
func filled(b testing.TB, n, keys int) (*fakeLog, record.ID) {
	const perBatch = 500
	l := newLog()
	topic := l.create(1)
	r := rand.New(rand.NewPCG(1, 2))
	value := make([]byte, 100)
	for done := 0; done < n; done += perBatch {
		recs := make([]record.Record, min(perBatch, n-done))
		for i := range recs {
			recs[i] = record.Record{Key: benchKey(r.IntN(keys)), Value: value, Timestamp: 1_700_000_000_000 + int64(done+i)}
		}
		l.append(topic, 0, recs...)
	}
	return l, topic
}

func benchKey(i int) []byte {
	key := binary.BigEndian.AppendUint64(nil, uint64(i)*0x9e3779b97f4a7c15)
	return binary.BigEndian.AppendUint64(key, uint64(i))
}

func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// written is the number of bytes that this process has written to files, as far as the system
// reports it.
func written() (n int64) {
	b, _ := os.ReadFile("/proc/self/io")
	for line := range strings.Lines(string(b)) {
		_, _ = fmt.Sscanf(line, "wchar: %d", &n)
	}
	return n
}

// BenchmarkFollow indexes b.N records and reports records per second and processor time per record.
// Use -benchtime=3000000x.
func BenchmarkFollow(b *testing.B) {
	for _, keys := range []int{100, 100_000, 3_000_000} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			l, topic := filled(b, b.N, keys)
			b.ResetTimer()
			busy, before := processorTime(), written()
			v := open(b, "", l)
			must.NoError(b, v.WaitFor(b.Context(), topic, 0, int64(b.N-1)))
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
			b.ReportMetric(float64((processorTime()-busy).Nanoseconds())/float64(b.N), "cpu-ns/record")
			b.StopTimer()
			v.Close()
			b.ReportMetric(float64(written()-before)/float64(b.N), "written-B/record")
			b.ReportMetric(float64(fileSize(b, v.path))/float64(b.N), "file-B/record")
		})
	}
}

func fileSize(b testing.TB, path string) int64 {
	info := must.Get(os.Stat(path))(b)
	return info.Size()
}

// BenchmarkQueries queries an index of three million records.
func BenchmarkQueries(b *testing.B) {
	const records, keys = 3_000_000, 1_000_000
	l, topic := filled(b, records, keys)
	v := open(b, "", l)
	must.NoError(b, v.WaitFor(b.Context(), topic, 0, records-1))
	run := func(name string, f func(i int) error) {
		b.Run(name, func(b *testing.B) {
			busy := processorTime()
			for i := range b.N {
				must.NoError(b, f(i))
			}
			b.ReportMetric(float64((processorTime()-busy).Nanoseconds())/float64(b.N), "cpu-ns/op")
		})
	}
	run("Get", func(i int) error {
		_, _, err := v.Get(b.Context(), topic, benchKey(i*7919%keys), -1)
		return err
	})
	run("Get/none", func(i int) error {
		_, _, err := v.Get(b.Context(), topic, benchKey(keys+i), -1)
		return err
	})
	run("List/1000", func(i int) error {
		_, err := v.List(b.Context(), topic, ListQuery{After: benchKey(i * 7919 % keys), Limit: 1000})
		return err
	})
	run("History", func(i int) error {
		_, err := v.History(b.Context(), topic, benchKey(i*7919%keys), HistoryQuery{Partition: -1, NewestFirst: true, Limit: 100})
		return err
	})
	v.Close()
	b.Run("Open", func(b *testing.B) {
		for range b.N {
			v := open(b, v.path, l)
			must.NoError(b, v.WaitFor(b.Context(), topic, 0, records-1))
			v.Close()
		}
		b.ReportMetric(float64(fileSize(b, v.path)), "file-B")
	})
}
