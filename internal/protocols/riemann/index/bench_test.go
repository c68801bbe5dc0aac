package index

import (
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/must"
)

// BenchmarkFollow reads events with new keys, BenchmarkRefresh events with known keys, and
// BenchmarkScan queries all of 20,000 events. Each operation is an event.
func BenchmarkFollow(b *testing.B) { benchmarkEvents(b, func(i int) int { return i }) }

func BenchmarkRefresh(b *testing.B) { benchmarkEvents(b, func(i int) int { return i % 1000 }) }

func benchmarkEvents(b *testing.B, host func(i int) int) {
	l := newLog(1)
	x := open(b, l.broker(), "")
	const batch = 100
	events := make([]string, batch)
	b.ReportAllocs()
	for n := 0; n < b.N; n += batch {
		for i := range events {
			events[i] = fmt.Sprintf(`h%d disk {"state":"ok","metric":%d,"description":"a text of some bytes","ttl":86400}`, host(n+i), i)
		}
		l.post(0, events...)
	}
	must.NoError(b, x.CatchUp(b.Context()))
}

func BenchmarkScan(b *testing.B) {
	l := newLog(1)
	x := open(b, l.broker(), "")
	const events = 20_000
	for i := range events {
		l.post(0, fmt.Sprintf(`h%d disk {"state":"ok","metric":%d,"description":"a text of some bytes","ttl":86400}`, i, i))
	}
	must.NoError(b, x.CatchUp(b.Context()))
	q := parse(b, `metric < 0 or state = "critical"`)
	b.ReportAllocs()
	b.ResetTimer()
	for n := 0; n < b.N; n += events {
		must.NoError(b, x.Query(b.Context(), q, 1<<20, nil))
	}
}

// BenchmarkKey queries one of 100,000 events by host and service.
func BenchmarkKey(b *testing.B) {
	l := newLog(1)
	x := open(b, l.broker(), "")
	const events, batch = 100_000, 500
	list := make([]string, batch)
	for n := 0; n < events; n += batch {
		for i := range list {
			list[i] = fmt.Sprintf(`h%d disk {"state":"ok","metric":%d,"description":"a text of some bytes","ttl":86400}`, n+i, i)
		}
		l.post(0, list...)
	}
	must.NoError(b, x.CatchUp(b.Context()))
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		q := parse(b, fmt.Sprintf(`host = "h%d" and service = "disk"`, i*7919%events))
		found := 0
		if err := x.Query(b.Context(), q, 1<<20, func(*Event) error { found++; return nil }); err != nil || found != 1 {
			b.Fatalf("%d events, %v", found, err)
		}
	}
}

// BenchmarkMillion applies single events of known keys to an index of 1,000,000, each in a transaction
// of its own. It reports the distribution of the time from the append to the event in the index, and
// what the index adds to the resident memory of the process.
func BenchmarkMillion(b *testing.B) {
	const events, batch = 1_000_000, 1000
	l := newLog(1)
	before := resident(b)
	x := open(b, l.broker(), "")
	list := make([]string, batch)
	event := func(i int) string {
		return fmt.Sprintf(`h%d disk {"state":"ok","metric":%d,"description":"a text of some bytes","ttl":86400}`, i%events, i)
	}
	for n := 0; n < events; n += batch {
		for i := range list {
			list[i] = event(n + i)
		}
		l.post(0, list...)
		must.NoError(b, x.WaitFor(b.Context(), 0, int64(n+batch-1)))
		l.mu.Lock()
		l.parts[0].batches = nil // they are no part of the index
		l.mu.Unlock()
	}
	if n := x.met.entries.Load(); n != events {
		b.Fatalf("%d events in the index", n)
	}
	took := make([]time.Duration, b.N)
	b.ResetTimer()
	for i := range b.N {
		start := time.Now()
		l.post(0, event(events+i*7919))
		must.NoError(b, x.WaitFor(b.Context(), 0, int64(events+i)))
		took[i] = time.Since(start)
	}
	b.StopTimer()
	slices.Sort(took)
	for _, p := range []int{50, 99} {
		b.ReportMetric(float64(took[b.N*p/100].Microseconds()), fmt.Sprintf("p%d-us", p))
	}
	b.ReportMetric((resident(b)-before)/(1<<20), "MiB-resident")
}

// resident returns the resident memory of the process.
func resident(b *testing.B) float64 {
	debug.FreeOSMemory()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Skip(err)
	}
	var size, pages int
	if _, err := fmt.Sscan(string(text), &size, &pages); err != nil {
		b.Fatal(err)
	}
	return float64(pages * os.Getpagesize())
}
