package core_test

import (
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
)

// freezeAt freezes and commits with a wall clock that is off by some time.
func (b *bench) freezeAt(off time.Duration, ops []core.Op, appends ...core.Append) *core.Proposal {
	b.t.Helper()
	p := &core.Proposal{Ops: ops, Appends: appends}
	b.step(&core.Event{Kind: core.EvFreeze, Proposal: p, Wall: b.now/1000 + off.Microseconds(), RaiseMax: b.raiseMax})
	b.settle()
	return p
}

// successor returns a leader that takes the bucket over.
func (b *bench) successor(cfg core.Config) *bench {
	b.t.Helper()
	n := newBench(b.t, cfg)
	n.objects, n.now, n.nonces = b.objects, b.now, b.nonces+100
	n.settle()
	must.Equalf(b.t, n.core.Role(), core.RoleLeader, "role")
	return n
}

// TestRefusalsEnd: after an idle time, on a wall clock far from that of Step, the places of ten minutes
// ago are free.
func TestRefusalsEnd(t *testing.T) {
	const wall = 56 * 365 * 24 * time.Hour
	b := leader(t, remembers())
	known(t, b)
	b.freezeAt(wall, nil, one(-1))
	b.passes(8 * time.Hour)
	for n := int64(0); ; n += 20 {
		var some []core.Append
		for i := range int64(20) {
			some = append(some, batch("ann", n+i, 0))
		}
		if p := b.freezeAt(wall, nil, some...); p.Appends[19].Err != nil {
			break
		}
	}
	b.passes(11 * time.Minute)
	must.NoErrorf(t, b.freezeAt(wall, nil, batch("ann", 1_000_000, 0)).Appends[0].Err, "a new producer")
}

// TestTimeResetForgetsNoProducer: an operator sets the log time back by a year. Batches of before that
// and after it are remembered for a day, and not longer.
func TestTimeResetForgetsNoProducer(t *testing.T) {
	const year = 365 * 24 * time.Hour
	a := leader(t, remembers())
	known(t, a)
	a.freezeAt(year, nil, batch("ann", 9, 0)) // a wrong clock
	b := a.successor(remembers())
	p := b.freezeAt(0, []core.Op{{Record: state.Record{Kind: state.TimeReset, Time: b.now / 1000}}})
	must.NoError(t, p.Ops[0].Err)
	for i := range int32(60) {
		b.passes(time.Minute)
		must.NoErrorf(t, b.sends(batch("ann", 1, i)), "minute %d", i)
		b.passes(time.Second)
		must.NoErrorf(t, b.sends(batch("ann", 2, i)), "minute %d", i)
		must.ErrorIsf(t, b.sends(batch("ann", 1, i)), core.ErrDuplicate, "minute %d: a retry", i)
	}
	must.ErrorIsf(t, b.sends(batch("ann", 9, 0)), core.ErrDuplicate, "a retry of before the reset")
	b.passes(25 * time.Hour)
	must.NoErrorf(t, b.sends(batch("ann", 3, 0)), "another producer")
	must.NoErrorf(t, b.sends(batch("ann", 9, 0)), "after a day")
}

// TestAnOutageMakesNoProducerOld: the age of a batch counts from its commit.
func TestAnOutageMakesNoProducerOld(t *testing.T) {
	b := leader(t, remembers())
	known(t, b)
	p := b.freeze(nil, batch("bob", 7, 0))
	b.passes(15 * time.Minute)
	b.settle()
	must.NoError(t, p.Appends[0].Err)
	b.fills("bob", 1000)
	must.ErrorIsf(t, b.sends(batch("bob", 7, 0)), core.ErrDuplicate, "a retry after the acknowledgement")
}

// TestTheRaiseForgetsNoProducer: the slot that raises the level, and those behind it, know the same
// producers as the log.
func TestTheRaiseForgetsNoProducer(t *testing.T) {
	b := &bench{t: t, core: core.New(remembers()), now: 1e9, objects: oldBucket(t)}
	b.step(&core.Event{Kind: core.EvStart})
	b.settle()
	b.raiseMax = state.LevelProducers - 1
	b.freeze([]core.Op{topicT})
	b.settle()
	b.passes(25 * time.Hour)
	b.raiseMax = 0
	b.freeze(nil, batch("", 1, 0))
	b.freeze(nil, one(-1))
	again := b.freeze(nil, batch("", 1, 0))
	b.settle()
	must.Equalf(t, b.core.State().Level, state.LevelMax, "level")
	must.ErrorIsf(t, again.Appends[0].Err, core.ErrDuplicate, "a retry in flight")
}

// TestLaterBatchesWaitForARefusedFirst: an unknown producer may begin with any sequence. The second batch
// of a pipeline must not be stored when a place is free only for it.
func TestLaterBatchesWaitForARefusedFirst(t *testing.T) {
	b := leader(t, remembers())
	known(t, b)
	b.fills("ann", 1000)
	b.passes(9 * time.Minute)
	must.ErrorIsf(t, b.sends(batch("ann", 1, 0)), state.ErrProducersFull, "the first batch")
	b.passes(2 * time.Minute)
	must.ErrorIsf(t, b.sends(batch("ann", 1, 1)), state.ErrProducersFull, "the second batch")
	must.NoErrorf(t, b.sends(batch("ann", 1, 0)), "the first batch again")
	must.NoErrorf(t, b.sends(batch("ann", 1, 1)), "the second batch again")
}

// TestANewLeaderForgetsNothingAtOnce: the clock of the leader before may have been wrong.
func TestANewLeaderForgetsNothingAtOnce(t *testing.T) {
	a := leader(t, remembers())
	known(t, a)
	must.NoError(t, a.sends(batch("ann", 1, 0)))
	a.freezeAt(48*time.Hour, nil, one(-1))
	b := a.successor(remembers())
	b.freezeAt(48*time.Hour, nil, one(-1))
	b.passes(9 * time.Minute)
	b.freezeAt(48*time.Hour, nil, one(-1))
	must.ErrorIsf(t, b.freezeAt(48*time.Hour, nil, batch("ann", 1, 0)).Appends[0].Err, core.ErrDuplicate, "a retry")
}

// TestARefusedPrincipalKeepsNoSearchFromOthers: one asks for a place every 100 ms, and another one in
// between. A search comes at most every 100 ms.
func TestARefusedPrincipalKeepsNoSearchFromOthers(t *testing.T) {
	b := leader(t, remembers())
	known(t, b)
	ann := b.fills("ann", 0)
	bob := b.fills("bob", 10_000)
	b.passes(11 * time.Minute)
	for i := int64(0); i < ann; i += 20 { // those of ann stay young
		var some []core.Append
		for j := range int64(20) {
			some = append(some, batch("ann", i+j, 1))
		}
		b.freeze(nil, some...)
		b.settle()
	}
	for i := range 5 {
		b.passes(50 * time.Millisecond)
		must.ErrorIsf(t, b.sends(batch("ann", 5000, 0)), state.ErrProducersFull, "ann")
		b.passes(50 * time.Millisecond)
		if err := b.sends(batch("bob", 20_000, 0)); err == nil {
			must.Equalf(t, i > 0, true, "bob was kept waiting for the next search")
			return
		}
	}
	t.Errorf("bob, with %d old producers, found no place", bob)
}

// TestOneTokenDoesNotFillTheState: what a principal may hold depends on the memory that is left, too.
func TestOneTokenDoesNotFillTheState(t *testing.T) {
	b := leader(t, core.Config{StateMax: state.ProducersMemory(4000)})
	known(t, b)
	partitions := uint32(b.core.ProducersMax()) * 168 * 3 / 2 / 2 / 64 // half of the memory
	p := b.freeze([]core.Op{{Record: state.Record{Kind: state.TopicCreate, Topic: record.ID{7}, Name: "big", Partitions: partitions}}})
	b.settle()
	must.NoError(t, p.Ops[0].Err)
	b.fills("ann", 0)
	must.NoErrorf(t, b.sends(batch("bob", 1_000_000, 0)), "another principal")
	p = b.freeze([]core.Op{{Record: state.Record{Kind: state.TopicCreate, Topic: record.ID{8}, Name: "more", Partitions: 1}}})
	b.settle()
	must.NoErrorf(t, p.Ops[0].Err, "another topic")
}
