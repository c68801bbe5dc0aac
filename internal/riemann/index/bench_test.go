package index

import (
	"fmt"
	"testing"
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
	if err := x.CatchUp(b.Context()); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkScan(b *testing.B) {
	l := newLog(1)
	x := open(b, l.broker(), "")
	const events = 20_000
	for i := range events {
		l.post(0, fmt.Sprintf(`h%d disk {"state":"ok","metric":%d,"description":"a text of some bytes","ttl":86400}`, i, i))
	}
	if err := x.CatchUp(b.Context()); err != nil {
		b.Fatal(err)
	}
	q := parse(b, `metric < 0 or state = "critical"`)
	b.ReportAllocs()
	b.ResetTimer()
	for n := 0; n < b.N; n += events {
		if err := x.Query(b.Context(), q, 1<<20, nil); err != nil {
			b.Fatal(err)
		}
	}
}
