package state_test

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
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
	n := 0
	for range l.s.Topic(record.ID{topic}).Partitions.At(0).Producers.All() {
		n++
	}
	return n
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
	loaded := &log{t: t, s: again}
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

// TestProducersAreForgottenByRecord: from LevelProducers on there is no bound by number, and a record
// forgets the producers of an owner, or all, whose newest batches are old.
func TestProducersAreForgottenByRecord(t *testing.T) {
	l := newLog(t)
	l.must([]state.Record{state.RaiseTo(state.LevelMax), create(1, "a", 1)})
	l.appends(1, 0, state.ProducersMax+1000, 7)
	must.Equalf(t, l.known(1), state.ProducersMax+1000, "producers are known")
	ann, bob := state.OwnerOf("ann"), state.OwnerOf("bob")
	owned := func(producer, sequence int, owner uint32) {
		t.Helper()
		base := l.s.Topic(record.ID{1}).Partitions.At(0).Next
		l.must([]state.Record{{
			Kind: state.ProducerAppend, Topic: record.ID{1}, Offset: base, Owner: owner,
			Producer: state.ProducerBatch{ID: int64(producer), Sequence: int32(sequence), Span: 1},
		}}, entry(1, 0, base, 1))
	}
	owned(0, 8, ann)
	owned(1, 8, bob)
	owned(2, 8, ann)
	owned(2, 9, 0) // the state knows the owner
	l.must([]state.Record{{Kind: state.ProducersForget, Time: l.s.AppendTime, Owner: ann}})
	must.Equalf(t, l.known(1), state.ProducersMax+999, "producers are known") // the last batch of 2 is too young
	l.check(0, 7, false, nil)
	l.check(1, 8, true, nil)
	l.check(2, 9, true, nil)
	loaded := &log{t: t, s: must.Get(state.DecodeSnapshot(state.EncodeSnapshot(l.s)))(t)}
	for _, l := range []*log{l, loaded} {
		l.must([]state.Record{{Kind: state.ProducersForget, Time: l.s.AppendTime + 1, Owner: ann}})
		l.check(2, 9, false, nil)
		l.check(3, 7, true, nil)
		l.must([]state.Record{{Kind: state.ProducersForget, Time: l.s.AppendTime + 1}})
		must.Equalf(t, l.known(1)+l.s.Producers(), 0, "producers are known")
	}
	if !bytes.Equal(state.EncodeMessage(l.s), state.EncodeMessage(loaded.s)) {
		t.Error("a loaded state has forgotten other producers")
	}
}

// TestOwnersNeedTheirLevel checks that no program below LevelProducers meets what it cannot read.
func TestOwnersNeedTheirLevel(t *testing.T) {
	l := newLog(t)
	l.must([]state.Record{state.RaiseTo(state.LevelProducers - 1), create(1, "a", 1)})
	var chain *state.ChainError
	for _, r := range []state.Record{
		{Kind: state.ProducerAppend, Topic: record.ID{1}, Owner: 1, Producer: state.ProducerBatch{Span: 1}},
		{Kind: state.ProducersForget, Time: 1},
	} {
		if err := l.data([]state.Record{r}); !errors.As(err, &chain) {
			t.Errorf("%v: %v", r.Kind, err)
		}
	}
	if err := l.s.Catalog().Propose(&state.Record{Kind: state.ProducersForget}); !errors.Is(err, state.ErrLevel) {
		t.Errorf("proposed: %v", err)
	}
	for _, r := range []state.Record{{Kind: state.TopicTrim, Owner: 1}, {Kind: state.OffsetCommit, Owner: 1}} {
		check.Error(t, check.Err(state.DecodeRecords(state.EncodeRecords(nil, []state.Record{r}))), "%v with an owner", r.Kind)
	}
}

// TestCatalogFollowsProducers keeps up to four slots in flight. A catalog must know the producers that
// the committed state will know, whatever was changed, forgotten and deleted meanwhile.
func TestCatalogFollowsProducers(t *testing.T) {
	const seed = 31
	r := rand.New(rand.NewPCG(seed, 0))
	l := newLog(t)
	l.must([]state.Record{state.RaiseTo(state.LevelMax)})
	c := l.s.Catalog()
	type slot struct {
		head    record.Head
		records []state.Record
		index   []record.IndexEntry
	}
	var flight []slot
	for round := range sebtest.Runs(30_000, 6000) {
		for len(flight) > 0 && (len(flight) == 4 || r.IntN(3) == 0) {
			s := flight[0]
			flight = flight[1:]
			s.head.PrevCRC, s.head.CRC = l.s.PrevCRC, l.s.PrevCRC*31+7
			must.NoErrorf(t, l.s.Apply(&s.head, s.records, s.index), "seed %d, round %d", seed, round)
			c.Committed(s.head.Slot, s.records)
			if r.IntN(20) == 0 {
				l.s.View()
			}
		}
		if len(flight) == 0 {
			sameProducers(t, c, l.s)
		}
		s := slot{head: record.Head{Kind: record.KindData, Time: c.AppendTime + 1, Cluster: cluster, Epoch: c.Pos.Epoch, Nonce: c.Nonce, Slot: c.Pos.Slot}}
		c.Freezing(s.head.Time)
		propose := func(rec state.Record) bool {
			if c.Propose(&rec) != nil {
				return false
			}
			s.records = append(s.records, rec)
			return true
		}
		id := record.ID{1 + byte(r.IntN(3)), byte(round >> 8), byte(round)}
		var topic *state.Topic
		if topics := c.Topics(); len(topics) > 0 {
			topic = topics[r.IntN(len(topics))]
		}
		switch n := r.IntN(24); {
		case n < 2:
			propose(state.Record{Kind: state.TopicCreate, Topic: id, Name: string('a' + rune(id[0])), Partitions: 2})
		case n < 4 && topic != nil:
			propose(state.Record{Kind: state.TopicDelete, Topic: topic.ID})
		case n == 4:
			propose(state.Record{Kind: state.TimeReset, Time: c.AppendTime - int64(1+r.IntN(100))})
		case n < 8:
			propose(state.Record{Kind: state.ProducersForget, Time: c.AppendTime + 2 - int64(r.IntN(100)), Owner: uint32(r.IntN(4))})
		case topic != nil:
			partition := uint32(r.IntN(2))
			base := must.Get(c.Reserve(topic.ID, partition, 1, -1))(t)
			s.index = append(s.index, record.IndexEntry{Topic: topic.ID, Partition: partition, Base: base, Span: 1, Records: 1, AppendTime: s.head.Time})
			propose(state.Record{
				Kind: state.ProducerAppend, Topic: topic.ID, Partition: partition, Offset: base, Owner: uint32(r.IntN(4)),
				Producer: state.ProducerBatch{ID: int64(r.IntN(300)), Sequence: int32(round), Span: 1},
			})
		}
		c.Froze(s.head.Time)
		flight = append(flight, s)
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
