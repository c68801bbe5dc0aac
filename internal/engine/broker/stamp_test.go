package broker_test

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/brokertest"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/recordtest"
)

// timesOf returns the timestamps of partition 0 of a topic by offset, and checks them against the
// ranges' bounds.
func timesOf(t *testing.T, b *broker.Broker, topic string) map[int64]int64 {
	t.Helper()
	times := map[int64]int64{}
	for offset, end := int64(0), int64(1); offset < end; {
		f, err := b.Fetch(t.Context(), []broker.Want{{Topic: topic, Offset: offset}}, 0, 0)
		if err != nil || f.Parts[0].Err != nil {
			t.Fatal(err, f.Parts[0].Err)
		}
		p := &f.Parts[0]
		if end = p.HighWatermark; len(p.Chunks) == 0 && offset < end {
			t.Fatalf("no data at offset %d of %d", offset, end)
		}
		for i := range p.Chunks {
			data := brokertest.Bytes(t, &p.Chunks[i])
			must.Get(record.Verify(data))(t)
			var r record.Reader
			for r.Reset(data, offset); r.Next(); {
				times[r.Offset()] = r.Record().Timestamp
			}
			must.NoError(t, r.Err())
			offset = p.Chunks[i].End
		}
		f.Release()
	}
	p := b.View().TopicByName(topic).Partitions.At(0)
	for offset, at := range times {
		if g := &p.Ranges[p.Find(offset)]; at < g.MinTime || at > g.MaxTime {
			t.Errorf("offset %d has time %d, its range %d to %d", offset, at, g.MinTime, g.MaxTime)
		}
	}
	return times
}

// TestLogAppendTime: records have the append time of their produce result, in offset order, from
// memory and from disk, in packs and after a restart. Records from before and after a change of the
// setting keep their times.
func TestLogAppendTime(t *testing.T) {
	s := disk(t)
	b := open(t, options(s))
	set := func(kind string) {
		t.Helper()
		info, err := b.UpdateTopic(t.Context(), "a", broker.TopicSpec{Settings: map[string]string{"timestamp-type": kind}})
		if want := map[string]string{"append": "LogAppendTime", "": ""}[kind]; err != nil || info.Settings["timestamp-type"] != want {
			t.Fatalf("%v, %v", info.Settings, err)
		}
	}
	create(t, b, "a", 1)
	want := map[int64]int64{}
	var mu sync.Mutex
	write := func(stamped bool, values ...string) {
		t.Helper()
		r := produce(t, b, "a", 0, values...)
		if r.Err != nil || time.Since(r.AppendTime).Abs() > time.Hour {
			t.Errorf("%+v", r)
		}
		mu.Lock()
		defer mu.Unlock()
		for i := range values {
			if want[r.Base+int64(i)] = 1000 + int64(i); stamped {
				want[r.Base+int64(i)] = r.AppendTime.UnixMilli()
			}
		}
	}
	write(false, "x", "y")
	set("append")
	var wg sync.WaitGroup
	for p := range 4 {
		wg.Go(func() {
			for i := range 25 {
				write(true, value(p, i, 0), value(p, i, 1))
			}
		})
	}
	wg.Wait()
	end := int64(len(want))
	set("")
	write(false, "x", "y", "z")
	verify := func(when string) {
		t.Helper()
		got := timesOf(t, b, "a")
		if !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
		for offset := int64(3); offset < end; offset++ {
			if got[offset] < got[offset-1] {
				t.Errorf("%s: offset %d: time decreases from %d to %d", when, offset, got[offset-1], got[offset])
			}
		}
	}
	verify("in memory")
	kill(b)
	b = open(t, options(s))
	verify("from the store")
	compacted(t, b, s, "a", uint32(len(want)))
	if ranges := b.View().TopicByName("a").Partitions.At(0).Ranges; !slices.ContainsFunc(ranges, func(g state.Range) bool { return g.Pack }) {
		t.Fatalf("no pack in %+v", ranges)
	}
	verify("from a pack")
	kill(b)
	b = open(t, options(s))
	verify("from a pack after a restart")
}

// TestCompactionKeepsAppendTime: compacted records of a stamped batch keep their append time, and
// so does the index of the pack.
func TestCompactionKeepsAppendTime(t *testing.T) {
	s := disk(t)
	b := open(t, options(s))
	spec := broker.TopicSpec{Settings: map[string]string{"cleanup-policy": "compact", "timestamp-type": "append"}}
	must.Get(b.CreateTopic(t.Context(), "a", spec))(t)
	last := map[string]int64{}
	want := map[int64]int64{}
	for i := range 20 {
		codec := record.Compression(i % 5)
		keys := []string{fmt.Sprint("own", i), "every", fmt.Sprint("third", i%3)}
		recs := make([]record.Record, len(keys))
		for j, k := range keys {
			recs[j] = record.Record{Timestamp: int64(j), Key: []byte(k), Value: []byte("v")}
		}
		r := brokertest.Try(t.Context(), b, brokertest.AppendWith("a", 0, record.EncodeOptions{Compression: codec}, recs...))
		must.NoError(t, r.Err)
		for j, k := range keys {
			if before, ok := last[k]; ok {
				delete(want, before)
			}
			last[k] = r.Base + int64(j)
			want[last[k]] = r.AppendTime.UnixMilli()
		}
	}
	compacted(t, b, s, "a", uint32(len(want)))
	if got := timesOf(t, b, "a"); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestRetryToATopicThatStamps: an idempotent producer that repeats its batch unchanged gets the
// first one's offset, and the record keeps its time.
func TestRetryToATopicThatStamps(t *testing.T) {
	s := disk(t)
	b := open(t, options(s))
	must.Get(b.CreateTopic(t.Context(), "a", broker.TopicSpec{Settings: map[string]string{"timestamp-type": "LogAppendTime"}}))(t)
	batch, sum := recordtest.Encode([]record.Record{{Timestamp: 5, Value: []byte("v")}}, record.EncodeOptions{Producer: &record.Producer{ID: 3}})
	send := func() broker.Result {
		a := broker.Append{Topic: "a", Data: slices.Clone(batch), Summary: sum, ClientMade: true, ExpectedOffset: -1}
		return b.Submit(t.Context(), []broker.Append{a}).Wait(t.Context())[0]
	}
	first := send()
	if first.Err != nil || first.Duplicate {
		t.Fatalf("%+v", first)
	}
	want := map[int64]int64{0: first.AppendTime.UnixMilli()}
	for i := range 3 {
		if again := send(); again.Err != nil || !again.Duplicate || again.Base != 0 {
			t.Errorf("again %d: %+v", i, again)
		}
		if got := timesOf(t, b, "a"); !maps.Equal(got, want) {
			t.Errorf("again %d: %v, want %v", i, got, want)
		}
		kill(b)
		b = open(t, options(s))
	}
}
