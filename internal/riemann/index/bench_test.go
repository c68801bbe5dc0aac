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
	if err := x.CatchUp(b.Context()); err != nil {
		b.Fatal(err)
	}
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
