package broker_test

import (
	"errors"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/brokertest"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// timed returns an append with a record for each timestamp.
func timed(t *testing.T, topic string, times ...int64) broker.Append {
	t.Helper()
	recs := make([]record.Record, len(times))
	for i, at := range times {
		recs[i] = record.Record{Value: []byte("v"), Timestamp: at}
	}
	return brokertest.Append(topic, 0, recs...)
}

func idOf(t *testing.T, b *broker.Broker, topic string) record.ID {
	t.Helper()
	ref, ok := b.TopicNamed(topic)
	if !ok {
		t.Fatalf("no topic %s", topic)
	}
	return ref.ID
}

// TestBounds: a partition's bounds, also after a trim, and the errors for missing ones.
func TestBounds(t *testing.T) {
	b := open(t, options(objstore.NewMemory()))
	create(t, b, "t", 2)
	id := idOf(t, b, "t")
	if o, err := b.Bounds(id, 1); err != nil || o != (broker.Bounds{}) {
		t.Errorf("empty: %+v %v", o, err)
	}
	mustProduce(t, b, "t", 0, "a", "b", "c")
	must.Get(b.Trim(t.Context(), "t", 0, 2))(t)
	if o, err := b.Bounds(id, 0); err != nil || o != (broker.Bounds{Start: 2, Next: 3, Stable: 3, Epoch: b.Epoch()}) {
		t.Errorf("trimmed: %+v %v", o, err)
	}
	check.ErrorIsf(t, check.Err(b.Bounds(id, 2)), state.ErrUnknownPartition, "partition 2")
	check.ErrorIsf(t, check.Err(b.Bounds(record.NewID(), 0)), state.ErrUnknownTopic, "another topic")
	check.NoError(t, b.Confirm(t.Context()))
}

// TestEpochEnds: three epochs, of which the second wrote nothing.
func TestEpochEnds(t *testing.T) {
	s := objstore.NewMemory()
	b := open(t, options(s))
	create(t, b, "t", 1)
	mustProduce(t, b, "t", 0, "a", "b")
	first := b.Epoch()
	kill(b)
	b = open(t, options(s))
	second := b.Epoch()
	kill(b)
	b = open(t, options(s))
	third := b.Epoch()
	id := idOf(t, b, "t")
	mustProduce(t, b, "t", 0, "c")
	for _, c := range []struct {
		ask, found uint32
		end        int64
		known      bool
	}{
		{first, first, 2, true},
		{second, first, 2, true},
		{third, third, 3, true},
		{third + 1, 0, 0, false},
		{0, 0, 0, true}, // before the first record
	} {
		found, end, known, err := b.EpochEnd(id, 0, c.ask)
		if err != nil || known != c.known || known && (found != c.found || end != c.end) {
			t.Errorf("epoch %d: %d %d %v %v, want %+v", c.ask, found, end, known, err, c)
		}
	}
	for offset, want := range []uint32{first, first, third, third} {
		if got, known, err := b.EpochAt(id, 0, int64(offset)); err != nil || !known || got != want {
			t.Errorf("offset %d: epoch %d %v %v, want %d", offset, got, known, err, want)
		}
	}
}

// TestSpansByTime: ranges are found by their largest timestamp.
func TestSpansByTime(t *testing.T) {
	b := open(t, options(objstore.NewMemory()))
	create(t, b, "t", 1)
	in := broker.Lookup{Topic: &broker.TopicRef{ID: idOf(t, b, "t")}}
	if _, found, err := b.SpanSince(in, 0, 0); found || err != nil {
		t.Errorf("empty: %v %v", found, err)
	}
	if _, found, err := b.NewestTime(in); found || err != nil {
		t.Errorf("empty: %v %v", found, err)
	}
	for _, times := range [][]int64{{10, 30, 20}, {15}, {40, 5}, {40}} {
		if r := b.Submit(t.Context(), []broker.Append{timed(t, "t", times...)}).Wait(t.Context()); r[0].Err != nil {
			t.Fatal(r[0].Err)
		}
	}
	for _, c := range []struct{ from, millis, base int64 }{{0, 0, 0}, {0, 30, 0}, {3, 10, 3}, {0, 31, 4}, {5, 40, 4}, {6, 40, 6}, {0, 41, -1}, {7, 0, -1}} {
		span, found, err := b.SpanSince(in, c.from, c.millis)
		if err != nil || found != (c.base >= 0) || found && span.Base != c.base {
			t.Errorf("from %d at %d: %+v %v %v, want %d", c.from, c.millis, span, found, err, c.base)
		}
	}
	if span, found, err := b.NewestTime(in); err != nil || !found || span.Base != 4 || span.MaxTime != 40 {
		t.Errorf("newest: %+v %v %v", span, found, err)
	}
}

// TestFetchWithin: the limit for all wants holds, in their order, and a topic's id must be the
// requested one.
func TestFetchWithin(t *testing.T) {
	b := open(t, options(objstore.NewMemory()))
	create(t, b, "t", 3)
	size := 0
	for p := range 3 {
		for range 2 {
			a := data(t, "t", p, "value")
			size = len(a.Data)
			if r := b.Submit(t.Context(), []broker.Append{a}).Wait(t.Context()); r[0].Err != nil {
				t.Fatal(r[0].Err)
			}
		}
	}
	wants := []broker.Want{{Topic: "t", Partition: 2}, {Topic: "t", Partition: 0}, {Topic: "t", Partition: 1}}
	for most, want := range map[int][3]int64{0: {2, 2, 2}, 1: {1, 0, 0}, size: {1, 0, 0}, 3 * size: {2, 1, 0}, 4 * size: {2, 2, 0}, 9 * size: {2, 2, 2}} {
		f := must.Get(b.FetchWithin(t.Context(), wants, broker.Volume{Min: 1, Max: most}, time.Minute))(t)
		for i := range f.Parts {
			n := int64(0)
			for _, c := range f.Parts[i].Chunks {
				n += c.End - c.Base
			}
			if n != want[i] || f.Parts[i].HighWatermark != 2 || f.Parts[i].Err != nil {
				t.Errorf("%d bytes: want %d gave %d records, %+v", most, i, n, f.Parts[i])
			}
		}
		f.Release()
	}
	f, err := b.Fetch(t.Context(), []broker.Want{{Topic: "t", ID: record.NewID()}, {Topic: "t", ID: idOf(t, b, "t")}}, 0, 0)
	if err != nil || !errors.Is(f.Parts[0].Err, state.ErrUnknownTopic) || f.Parts[1].Err != nil {
		t.Errorf("%+v %v", f, err)
	}
	f.Release()
}
