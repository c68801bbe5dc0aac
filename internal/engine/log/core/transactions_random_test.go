package core_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
)

// txRounds makes random proposals about transactions.
type txRounds struct {
	*bench
	cfg       core.Config
	r         *rand.Rand
	m         *txModel // after all slots
	committed *txModel
	after     []*txModel // after each slot in flight
	topics    []record.ID
	gone      record.ID
	fresh     int64
	fold      *state.State   // a replay of the log
	seen      map[string]int // results
}

// producer is that of an ID, the one before, or another one.
func (x *txRounds) producer(id string) state.ProducerEpoch {
	t := x.m.ids[id]
	switch n := x.r.IntN(12); {
	case t == nil || n == 0:
		return noProducer
	case n == 1:
		return t.was
	case n == 2:
		return state.ProducerEpoch{ID: t.now.ID, Epoch: t.now.Epoch - 1}
	case n == 3:
		return x.m.ids[slices.Sorted(maps.Keys(x.m.ids))[0]].now
	}
	return t.now
}

func (x *txRounds) id() string { return fmt.Sprint("tx", x.r.IntN(3)) }

func (x *txRounds) place() place {
	if x.r.IntN(30) == 0 {
		return place{x.gone, 0}
	}
	return place{x.topics[x.r.IntN(len(x.topics))], 0}
}

func (x *txRounds) append() core.Append {
	at := x.place()
	a := part(at.topic, at.partition)
	a.Atomic = false
	p := x.producer(x.id())
	if p.ID < 0 || x.r.IntN(4) == 0 {
		return a
	}
	a.Transactional = true
	sequence := int32(0)
	if b, known := x.m.known[at][p.ID]; known && b.epoch == p.Epoch {
		if sequence = b.next; x.r.IntN(6) == 0 {
			sequence += int32(x.r.IntN(9)) - 6
		}
	}
	return produced(a, p.ID, p.Epoch, max(0, sequence))
}

func (x *txRounds) transact() *core.Transact {
	x.fresh++
	t := &core.Transact{ID: x.id(), Fresh: x.fresh, Next: x.r.IntN(2) == 0}
	t.Producer = x.producer(t.ID)
	switch x.r.IntN(16) {
	case 0, 1:
		if t.Kind = state.TransactionInit; x.r.IntN(2) == 0 {
			t.Producer = noProducer
		}
	case 2, 3, 4:
		t.Kind = state.TransactionOffsets
		for range 1 + x.r.IntN(2) {
			at := x.place()
			t.Offsets = append(t.Offsets, state.StagedOffset{
				Group: fmt.Sprint("g", x.r.IntN(2)), PartitionID: state.PartitionID{Topic: at.topic, Partition: at.partition}, Offset: int64(x.r.IntN(1000)),
			})
		}
	case 5:
		t.Kind, t.Forced = state.TransactionAbort, true
	case 6, 7, 8, 9:
		t.Kind = state.TransactionAbort
	default:
		t.Kind = state.TransactionCommit
	}
	return t
}

// changes are ops that do not depend on transactions.
func (x *txRounds) changes(n int) (ops []core.Op) {
	if i := x.r.IntN(40); i < len(x.topics) {
		x.gone, x.topics[i] = x.topics[i], record.ID{0xd0, byte(n), byte(n >> 8)}
		ops = append(ops,
			core.Op{Record: state.Record{Kind: state.TopicDelete, Topic: x.gone}},
			core.Op{Record: state.Record{Kind: state.TopicCreate, Topic: x.topics[i], Name: fmt.Sprint("t", n), Partitions: 1}})
		x.m.deleted(x.gone)
		x.m.ends[place{x.topics[i], 0}] = 0
	}
	if at := (place{x.topics[0], 0}); x.r.IntN(20) == 0 && x.m.ends[at] > 0 {
		to := x.r.Int64N(x.m.ends[at] + 1)
		ops = append(ops, core.Op{Record: state.Record{Kind: state.TopicTrim, Topic: at.topic, Offset: to}})
		x.m.starts[at] = max(x.m.starts[at], to)
		x.m.aborted[at] = slices.DeleteFunc(x.m.aborted[at], func(a state.AbortedTransaction) bool { return a.Last < to })
	}
	return ops
}

// round proposes a few members and compares their results with those of the model.
func (x *txRounds) round(n int) {
	forgets := x.r.IntN(60) == 0
	if !x.core.Room() || forgets {
		x.settled(n)
	}
	x.m = x.m.clone()
	p := &core.Proposal{Ops: x.changes(n)}
	var want []result
	for range x.r.IntN(4) {
		a := x.append()
		p.Appends = append(p.Appends, a)
		want = append(want, x.m.add(&a))
	}
	first := len(p.Ops)
	var results []state.ProducerEpoch
	var errs []error
	transacts := x.r.IntN(3)
	for i := range transacts {
		t := x.transact()
		if o := x.core.State().Transaction(t.ID); i == 0 && forgets && o != nil {
			t.Kind, t.Seen = state.TransactionForget, o.Changed
		}
		p.Ops = append(p.Ops, core.Op{Transact: t})
		now, err := x.m.transact(t)
		results, errs = append(results, now), append(errs, err)
	}
	frozen := x.core.InFlight()
	x.step(&core.Event{Kind: core.EvFreeze, Proposal: p, Wall: x.now / 1000})
	if x.core.InFlight() > frozen {
		x.after = append(x.after, x.m)
	}
	for i := range want {
		a := &p.Appends[i]
		if fmt.Sprint(a.Err) != fmt.Sprint(want[i].err) || (a.Err == nil || a.Err == core.ErrDuplicate) && a.Base != want[i].base {
			x.t.Fatalf("round %d: append %+v: %v at %d, want %v at %d", n, a.Producer, a.Err, a.Base, want[i].err, want[i].base)
		}
		x.seen[fmt.Sprintf("append: %.30v", a.Err)]++
	}
	for i := range errs {
		t, err := p.Ops[first+i].Transact, p.Ops[first+i].Err
		if err != errs[i] || (err == nil || err == core.ErrDuplicate) && t.Kind != state.TransactionForget && t.Result != results[i] {
			x.t.Fatalf("round %d: %+v: %v, %v, want %v, %v", n, t, t.Result, err, results[i], errs[i])
		}
		x.seen[fmt.Sprintf("%v: %.30v", t.Kind, err)]++
	}
}

// settled commits the slots in flight and compares the committed state with the model, with a replay of the log that
// continues from a snapshot, and with itself after a round trip.
func (x *txRounds) settled(n int) {
	x.settle()
	x.committed, x.after = x.m, nil
	s := x.core.State()
	for at, end := range x.m.ends {
		p := s.Topic(at.topic).Partitions.At(int(at.partition))
		stable := end
		for _, t := range x.m.ids {
			if first, there := t.first[at]; there {
				stable = min(stable, first)
			}
		}
		stable = max(stable, x.m.starts[at])
		must.Equalf(x.t, p.Next, end, "round %d: end of %v", n, at)
		must.Equalf(x.t, p.LastStable(), stable, "round %d: last stable offset of %v", n, at)
		must.EqualSlicesf(x.t, p.Aborted, x.m.aborted[at], "round %d: aborted transactions of %v", n, at)
	}
	for g, of := range x.m.offsets {
		for at, offset := range of {
			must.Equalf(x.t, s.CommittedOffset(g, state.PartitionID{Topic: at.topic, Partition: at.partition}), offset, "round %d: offset of %s in %v", n, g, at)
		}
	}
	must.Equalf(x.t, len(s.Transactions()), len(x.m.ids), "round %d: transactional IDs", n)
	for id, t := range x.m.ids {
		o := s.Transaction(id)
		must.Equalf(x.t, o.Now(), t.now, "round %d: producer of %s", n, id)
		must.Equalf(x.t, o.Open(), t.open, "round %d: %s is open", n, id)
	}
	x.replay()
	message := state.EncodeMessage(s)
	if !bytes.Equal(state.EncodeMessage(x.fold), message) {
		x.t.Fatalf("round %d: a replay of the log gives another state", n)
	}
	x.fold = must.Get(state.DecodeMessage(message))(x.t)
	if !bytes.Equal(state.EncodeMessage(x.fold), message) {
		x.t.Fatalf("round %d: decoding a snapshot gives another state", n)
	}
}

// replay applies the rest of the log.
func (x *txRounds) replay() {
	for {
		body, there := x.objects[x.fold.Key(x.fold.Pos.Epoch, x.fold.Pos.Slot)]
		if !there {
			return
		}
		o := must.Get(record.DecodeObject(body))(x.t)
		must.NoError(x.t, x.fold.Apply(&o.Head, must.Get(state.DecodeRecords(o.State))(x.t), o.Index))
	}
}

// takesOver makes another core the leader. Of the slots in flight, the store has the first ones.
func (x *txRounds) takesOver() {
	kept := 0
	for _, e := range x.open {
		if e.Kind != core.EffPutData {
			continue
		}
		if x.r.IntN(3) == 0 {
			break
		}
		x.objects[e.Key] = x.body(e)
		kept++
	}
	if x.m = x.committed; kept > 0 {
		x.m = x.after[kept-1]
	}
	x.topics = x.topics[:0]
	for at := range x.m.ends {
		x.topics = append(x.topics, at.topic)
	}
	slices.SortFunc(x.topics, func(a, b record.ID) int { return bytes.Compare(a[:], b[:]) })
	x.bench = x.successor(x.cfg)
}

func newTxRounds(t *testing.T, seed uint64) *txRounds {
	x := &txRounds{
		cfg: core.Config{RaiseAfter: core.Duration(time.Nanosecond), Window: 3, SnapshotSlots: 100}, r: rand.New(rand.NewPCG(63, seed)),
		m:      &txModel{ends: map[place]int64{}, starts: map[place]int64{}, ids: map[string]*txID{}, known: map[place]map[int64]txBatches{}, aborted: map[place][]state.AbortedTransaction{}, offsets: map[string]map[place]int64{}},
		topics: []record.ID{topicID, {0xd1}, {0xd2}}, gone: record.ID{0xdd}, seen: map[string]int{},
	}
	x.bench = leader(t, x.cfg)
	x.freeze([]core.Op{
		{Record: state.Record{Kind: state.TopicCreate, Topic: x.topics[1], Name: "b", Partitions: 1}},
		{Record: state.Record{Kind: state.TopicCreate, Topic: x.topics[2], Name: "c", Partitions: 1}},
	})
	for _, id := range x.topics {
		x.m.ends[place{id, 0}] = 0
	}
	id, _, err := core.DecodeMeta(x.objects[core.MetaKey])
	must.NoError(t, err)
	x.fold = state.Genesis(id, 0)
	x.settled(0)
	return x
}

// TestTransactionsAgainstAModel proposes random requests about transactions beside batches, changes of topics and
// trims, with slots in flight and takeovers that lose some of them, and compares their results and the committed
// state with the model.
func TestTransactionsAgainstAModel(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(4) {
		x := newTxRounds(t, seed)
		x.seen = seen
		for n := range 1000 {
			switch x.round(n); x.r.IntN(8) {
			case 0, 1:
				x.settled(n)
			case 2:
				if x.r.IntN(4) == 0 {
					x.takesOver()
					x.settled(n)
				}
			}
		}
	}
	if len(seen) != 28 { // each kind with each of its results
		t.Errorf("%d results: %v", len(seen), seen)
	}
}
