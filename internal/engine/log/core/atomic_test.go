package core_test

import (
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
)

// part is an append of an atomic request.
func part(topic record.ID, partition uint32) core.Append {
	a := one(-1)
	a.Topic, a.Partition, a.Atomic = topic, partition, true
	return a
}

func produced(a core.Append, id int64, epoch int16, sequence int32) core.Append {
	a.Idempotent, a.Producer = true, state.ProducerBatch{ID: id, Epoch: epoch, Sequence: sequence, Span: a.Span}
	return a
}

// delayed is an op that delays the message of append i.
func delayed(topic record.ID, i int32) core.Op {
	return core.Op{Atomic: true, Own: true, Placed: true, Audit: 1 + i, Record: state.Record{
		Kind: state.QueueUpdate, Topic: topic, Queue: &state.QueueChange{Runs: []state.QueueRun{{Span: 1, State: state.QueueWaiting, Until: 1 << 60}}},
	}}
}

var (
	queueID = record.ID{0xbb}
	queueQ  = core.Op{Record: state.Record{Kind: state.TopicCreate, Topic: queueID, Name: "q", Partitions: 1, Settings: map[string]string{"queue": "true"}}}
)

// atomic freezes one atomic request and settles. Its ops come first.
func (b *bench) atomic(ops []core.Op, appends ...core.Append) *core.Proposal {
	b.t.Helper()
	p := &core.Proposal{Ops: ops, Appends: appends, Atomics: []core.Atomic{{Ops: core.Span{To: int32(len(ops))}, Appends: core.Span{To: int32(len(appends))}}}}
	for i := range ops {
		p.Appends[ops[i].Audit-1].Joins = true
	}
	b.step(&core.Event{Kind: core.EvFreeze, Proposal: p, Wall: b.now / 1000})
	b.settle()
	return p
}

func errorsOf(p *core.Proposal) (list []error) {
	for i := range p.Ops {
		list = append(list, p.Ops[i].Err)
	}
	for i := range p.Appends {
		list = append(list, p.Appends[i].Err)
	}
	return list
}

func TestAtomicIsAllOrNone(t *testing.T) {
	b := leader(t, core.Config{RaiseAfter: core.Duration(time.Nanosecond)})
	b.freeze([]core.Op{queueQ})
	b.settle()
	for _, c := range []struct {
		name    string
		ops     []core.Op
		appends []core.Append
		refused int // position of the refused append in the errors
		why     error
	}{
		{"all", []core.Op{delayed(queueID, 0)}, []core.Append{part(queueID, 0), part(topicID, 0), part(topicID, 1)}, -1, nil},
		{"unknown topic", []core.Op{delayed(queueID, 0)}, []core.Append{part(queueID, 0), part(topicID, 0), part(record.ID{9}, 0)}, 3, state.ErrUnknownTopic},
		{"unknown partition first", nil, []core.Append{part(topicID, 2), part(topicID, 0)}, 0, state.ErrUnknownPartition},
		{"op of another epoch", []core.Op{func() core.Op { o := delayed(queueID, 0); o.Epoch = 99; return o }()}, []core.Append{part(queueID, 0), part(topicID, 0)}, 1, state.ErrNotLeader},
		{"op of an unknown queue", []core.Op{delayed(queueID, 0), delayed(record.ID{9}, 1)}, []core.Append{part(queueID, 0), part(record.ID{9}, 0), part(topicID, 0)}, 3, state.ErrUnknownTopic},
		{"no right to a delayed message", []core.Op{delayed(queueID, 0)}, []core.Append{func() core.Append {
			a := part(queueID, 0)
			a.Check = &access.Check{Principal: "revoked", Secret: 7, Version: 1}
			return a
		}(), part(topicID, 0)}, 1, state.ErrUnauthorized},
		{"no right", nil, []core.Append{part(topicID, 0), func() core.Append {
			a := part(topicID, 1)
			a.Check = &access.Check{Principal: "revoked", Secret: 7, Version: 1}
			return a
		}()}, 1, state.ErrUnauthorized},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := nexts(b)
			p := b.atomic(c.ops, c.appends...)
			for i, err := range errorsOf(p) {
				want := state.ErrAtomic
				switch {
				case c.refused < 0:
					want = nil
				case i == c.refused || i < len(c.ops) && c.refused == len(c.ops)+int(c.ops[i].Audit)-1:
					want = c.why
				}
				if !errors.Is(err, want) || want == nil && err != nil {
					t.Errorf("member %d: %v, want %v", i, err, want)
				}
			}
			after := nexts(b)
			if c.refused >= 0 {
				must.Equalf(t, after, before, "ends of the partitions")
				return
			}
			for i := range before {
				must.Equalf(t, after[i], before[i]+1, "end %d", i)
			}
			must.Equalf(t, p.Ops[0].Record.Queue.Runs[0].Base, p.Appends[0].Base, "the delayed message")
		})
	}
}

// nexts are the ends of q/0, t/0 and t/1, in the committed state and for the next slot.
func nexts(b *bench) (n [3]int64) {
	s := b.core.State()
	n[0] = s.TopicByName("q").Partitions.At(0).Next
	n[1], n[2] = s.TopicByName("t").Partitions.At(0).Next, s.TopicByName("t").Partitions.At(1).Next
	return n
}

func TestAtomicDuplicates(t *testing.T) {
	b := leader(t, core.Config{})
	first := b.atomic(nil, produced(part(topicID, 0), 7, 0, 0), produced(part(topicID, 1), 7, 0, 0))
	must.EqualSlicesf(t, errorsOf(first), []error{nil, nil}, "first")
	b.freeze(nil, one(-1))
	b.settle()

	again := b.atomic(nil, produced(part(topicID, 0), 7, 0, 0), produced(part(topicID, 1), 7, 0, 0))
	must.EqualSlicesf(t, errorsOf(again), []error{core.ErrDuplicate, core.ErrDuplicate}, "again")
	for i := range again.Appends {
		must.Equalf(t, again.Appends[i].Base, first.Appends[i].Base, "offset %d", i)
	}

	// a request that repeats only a part of another one is none of its repetitions
	mixed := b.atomic(nil, produced(part(topicID, 0), 7, 0, 0), part(topicID, 1))
	must.EqualSlicesf(t, errorsOf(mixed), []error{state.ErrAtomic, state.ErrSequenceGap}, "mixed")
	next := b.atomic(nil, produced(part(topicID, 1), 7, 1, 0))
	must.EqualSlicesf(t, errorsOf(next), []error{nil}, "next epoch in one partition")
	old := b.atomic(nil, produced(part(topicID, 0), 7, 0, 1), produced(part(topicID, 1), 7, 0, 1))
	must.EqualSlicesf(t, errorsOf(old), []error{state.ErrAtomic, state.ErrProducerFenced}, "old epoch")
	gap := b.atomic(nil, produced(part(topicID, 0), 7, 2, 0), produced(part(topicID, 1), 7, 2, 3))
	must.EqualSlicesf(t, errorsOf(gap), []error{state.ErrAtomic, state.ErrSequenceGap}, "gap")
	end := b.core.State().TopicByName("t")
	must.Equalf(t, end.Partitions.At(0).Next, 2, "end of partition 0")
	must.Equalf(t, end.Partitions.At(1).Next, 2, "end of partition 1")
}

// TestAtomicRepetitionWithOtherPartitions: keys choose other partitions for a repetition if the topic has got more.
func TestAtomicRepetitionWithOtherPartitions(t *testing.T) {
	b := leader(t, core.Config{})
	keyed := func(partition uint32, epoch int16) core.Append {
		a := produced(part(topicID, partition), 7, epoch, 0)
		a.Keyed = true
		return a
	}
	must.EqualSlicesf(t, errorsOf(b.atomic(nil, keyed(0, 0))), []error{nil}, "first")
	must.EqualSlicesf(t, errorsOf(b.atomic(nil, keyed(1, 0))), []error{state.ErrSequenceGap}, "in another partition")
	must.EqualSlicesf(t, errorsOf(b.atomic(nil, keyed(0, 0))), []error{core.ErrDuplicate}, "in the same one")
	must.EqualSlicesf(t, errorsOf(b.atomic(nil, keyed(1, 1))), []error{nil}, "next request")
}

// TestAtomicBesideOthers checks the order of offsets in a slot with other members.
func TestAtomicBesideOthers(t *testing.T) {
	b := leader(t, core.Config{})
	p := &core.Proposal{
		Appends: []core.Append{part(topicID, 0), part(topicID, 1), part(topicID, 1), part(topicID, 0), one(-1)},
		Atomics: []core.Atomic{{Appends: core.Span{To: 2}}, {Appends: core.Span{From: 2, To: 4}}},
	}
	b.step(&core.Event{Kind: core.EvFreeze, Proposal: p, Wall: b.now / 1000})
	b.settle()
	for i, want := range []int64{0, 0, 1, 1, 2} {
		must.Equalf(t, p.Appends[i].Base, want, "append %d: %v", i, p.Appends[i].Err)
	}
}

// TestAtomicCountsMemoryOfAll checks that a request whose parts fit one by one, but not together, is refused.
func TestAtomicCountsMemoryOfAll(t *testing.T) {
	b := leader(t, core.Config{})
	b.freeze([]core.Op{{Record: state.Record{Kind: state.TopicCreate, Topic: queueID, Name: "many", Partitions: 64}}})
	b.settle()
	held := b.core.State().Memory()
	full := newBench(t, core.Config{StateMax: held.Tables + held.Ranges + held.Queues + 4096})
	full.objects = b.objects
	full.nonces = 100
	full.settle()
	var all []core.Append
	for i := range uint32(64) {
		all = append(all, part(queueID, i))
	}
	p := full.atomic(nil, all...)
	refused := 0
	for _, err := range errorsOf(p) {
		if !errors.Is(err, state.ErrAtomic) {
			refused++
			must.ErrorIs(t, err, state.ErrStateFull)
		}
	}
	must.Equalf(t, refused, 1, "members with the reason")
	must.NoError(t, full.atomic(nil, all[0]).Appends[0].Err)
}

// TestAtomicCountsProducersAfterAll checks that a request that is accepted finds room for all its parts, although
// its producer takes memory in each of them.
func TestAtomicCountsProducersAfterAll(t *testing.T) {
	b := leader(t, core.Config{})
	b.freeze([]core.Op{{Record: state.Record{Kind: state.TopicCreate, Topic: queueID, Name: "many", Partitions: 64}}})
	b.settle()
	held := b.core.State().Memory()
	accepted := 0
	for room := int64(0); room < 64<<10; room += 400 {
		full := newBench(t, core.Config{StateMax: held.Tables + held.Ranges + held.Queues + room})
		full.objects = maps.Clone(b.objects)
		full.nonces = 100
		full.settle()
		var all []core.Append
		for i := range uint32(64) {
			all = append(all, produced(part(queueID, i), 7, 0, 0))
		}
		if full.atomic(nil, all...).Appends[63].Err == nil {
			accepted++
		}
	}
	if accepted == 0 || accepted > 100 {
		t.Errorf("%d requests were accepted", accepted)
	}
}

// TestAtomicDuplicateOfALostSlot checks that a repeated request has an unknown outcome in all its members if
// its original has no verdict.
func TestAtomicDuplicateOfALostSlot(t *testing.T) {
	b := leader(t, core.Config{RaiseAfter: core.Duration(time.Nanosecond), Window: 2})
	b.freeze([]core.Op{queueQ})
	b.settle()
	request := func() *core.Proposal {
		p := &core.Proposal{
			Ops:     []core.Op{delayed(queueID, 0)},
			Appends: []core.Append{produced(part(queueID, 0), 7, 0, 0), produced(part(topicID, 0), 7, 0, 0)},
			Atomics: []core.Atomic{{Ops: core.Span{To: 1}, Appends: core.Span{To: 2}}},
		}
		p.Appends[0].Joins = true
		b.step(&core.Event{Kind: core.EvFreeze, Proposal: p, Wall: b.now / 1000})
		return p
	}
	first, again := request(), request()
	must.EqualSlicesf(t, errorsOf(first), []error{nil, nil, nil}, "first")
	must.EqualSlicesf(t, errorsOf(again), []error{core.ErrDuplicate, core.ErrDuplicate, core.ErrDuplicate}, "again")
	b.step(&core.Event{Kind: core.EvStepDown})
	for i, err := range errorsOf(again) {
		must.Equalf(t, err, state.ErrOutcomeUnknown, "member %d of the repeated request", i)
	}
}
