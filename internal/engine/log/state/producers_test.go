package state_test

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// appends writes one batch of each of n producers into partition 0 of a topic, a hundred per slot.
func (l *log) appends(topic byte, first, n, sequence int) {
	l.t.Helper()
	const each = 100
	for n > 0 {
		some := min(n, each)
		base := l.s.Topic(record.ID{topic}).Partitions.At(0).Next
		var recs []state.Record
		for i := range some {
			recs = append(recs, state.Record{
				Kind: state.ProducerAppend, Topic: record.ID{topic}, Offset: base + int64(i),
				Producer: state.ProducerBatch{ID: int64(first + i), Sequence: int32(sequence), Span: 1},
			})
		}
		l.must(recs, entry(topic, 0, base, uint32(some)))
		first, n = first+some, n-some
	}
}

func (l *log) known(topic byte) int {
	return len(l.s.Topic(record.ID{topic}).Partitions.At(0).Producers)
}

// TestProducersAreBounded checks that beyond the bound an eighth of the producers is forgotten,
// those with the oldest batches first. A forgotten producer may continue with any sequence; the
// last batches of the others stay known. A state that was loaded from a snapshot forgets the same
// ones (rule R12).
func TestProducersAreBounded(t *testing.T) {
	l := newLog(t)
	l.must([]state.Record{create(1, "a", 1), create(2, "b", 1)})
	l.appends(1, 0, state.ProducersMax-100, 7)
	l.appends(1, 0, 100, 8) // the first ones no longer have the oldest batches
	l.appends(1, state.ProducersMax-100, 100, 7)
	must.Equalf(t, l.known(1), state.ProducersMax, "producers are known at the bound")
	again := must.Get(state.DecodeSnapshot(state.EncodeSnapshot(l.s)))(t)
	loaded := &log{t, again}
	for _, l := range []*log{l, loaded} {
		l.appends(1, state.ProducersMax, 1, 7)
		// The eighth includes the new producer.
		must.Equalf(t, l.known(1), state.ProducersMax+1-(state.ProducersMax+1)/8, "producers are known beyond the bound")
		l.check(0, 8, true, nil)
		l.check(0, 10, false, state.ErrSequenceGap)
		l.check(99, 7, true, nil)
		l.check(100, 7, false, nil) // forgotten: its batch counts as new
		l.check(100, 1000, false, nil)
		l.check(state.ProducersMax-100, 7, true, nil)
		l.check(state.ProducersMax, 7, true, nil)
	}
	if !bytes.Equal(state.EncodeMessage(l.s), state.EncodeMessage(loaded.s)) {
		t.Error("a loaded state has forgotten other producers")
	}
}

// check checks a batch of one record in topic 1.
func (l *log) check(producer, sequence int, duplicate bool, want error) {
	l.t.Helper()
	_, dup, err := l.s.CheckProducer(record.ID{1}, 0, &state.ProducerBatch{ID: int64(producer), Sequence: int32(sequence), Span: 1})
	if dup != duplicate || !errors.Is(err, want) || want == nil && err != nil {
		l.t.Errorf("producer %d sequence %d: duplicate %v, %v", producer, sequence, dup, err)
	}
}

// TestDeletedTopicsForgetTheirProducers checks that producers of a deleted topic do not count
// against the bound.
func TestDeletedTopicsForgetTheirProducers(t *testing.T) {
	l := newLog(t)
	for range 3 {
		l.must([]state.Record{create(1, "a", 1)})
		l.appends(1, 0, state.ProducersMax/2+1, 0)
		l.must([]state.Record{{Kind: state.TopicDelete, Topic: record.ID{1}}})
	}
	l.must([]state.Record{create(2, "b", 1)})
	l.appends(2, 0, state.ProducersMax, 0)
	check.Equalf(t, l.known(2), state.ProducersMax, "producers are known")
	l.appends(2, state.ProducersMax, 1, 0)
	if n := l.known(2); n > state.ProducersMax {
		t.Errorf("%d producers are known, the bound is %d", n, state.ProducersMax)
	}
}

// TestSequencesWrap checks that 0 follows the largest int32, as in Kafka, also within a batch.
func TestSequencesWrap(t *testing.T) {
	for _, last := range []state.ProducerBatch{{Sequence: math.MaxInt32, Span: 1}, {Sequence: math.MaxInt32 - 2, Span: 3}, {Sequence: math.MaxInt32 - 1, Span: 7}} {
		l := newLog(t)
		l.must([]state.Record{create(1, "a", 1), {Kind: state.ProducerAppend, Topic: record.ID{1}, Producer: last}}, entry(1, 0, 0, last.Span))
		next := int((int64(last.Sequence) + int64(last.Span)) % (1 << 31))
		l.check(0, next, false, nil)
		l.check(0, next+1, false, state.ErrSequenceGap)
		if _, dup, err := l.s.CheckProducer(record.ID{1}, 0, &last); !dup || err != nil {
			t.Errorf("%+v again: duplicate %v, %v", last, dup, err)
		}
	}
}

// TestProducerID: ids of shard 0 are those of earlier versions, and no two leaders give the same.
func TestProducerID(t *testing.T) {
	for _, c := range []struct {
		shard, epoch, number uint32
		want                 int64
	}{
		{0, 1, 1, 1<<32 | 1},
		{0, 1<<21 - 1, 1<<32 - 1, 1<<53 - 1},
		{1, 1, 1, 1<<53 | 1<<32 | 1},
		{1023, 1<<21 - 1, 1<<32 - 1, 1<<63 - 1},
		{2, 1<<21 + 3, 7, 2<<53 | 3<<32 | 7},
	} {
		if got := state.ProducerID(c.shard, c.epoch, c.number); got != c.want {
			t.Errorf("shard %d, epoch %d, number %d: %x, want %x", c.shard, c.epoch, c.number, got, c.want)
		}
	}
}
