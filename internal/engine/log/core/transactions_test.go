package core_test

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// transacts freezes a request about a transactional ID, after appends, and returns its error.
func (b *bench) transacts(x *core.Transact, appends ...core.Append) error {
	b.t.Helper()
	return b.freeze([]core.Op{{Transact: x}}, appends...).Ops[0].Err
}

// transactional is a batch of the transaction of a producer in partition 0 of topic t.
func transactional(p state.ProducerEpoch, sequence int32) core.Append {
	a := produced(one(-1), p.ID, p.Epoch, sequence)
	a.Transactional = true
	return a
}

// transactor is a bench whose core has given transactional ID x to a producer.
func transactor(t *testing.T, cfg core.Config) (*bench, state.ProducerEpoch) {
	cfg.RaiseAfter = core.Duration(time.Nanosecond)
	b := leader(t, cfg)
	x := &core.Transact{Kind: state.TransactionInit, ID: "x", Producer: noProducer, Fresh: 1000}
	must.NoError(t, b.transacts(x))
	b.settle()
	b.emitted = nil
	return b, x.Result
}

// TestEpochsRunOut checks that a producer gets another ID when its epochs run out, and that a repeated end has the
// same answer, also after a takeover between them.
func TestEpochsRunOut(t *testing.T) {
	const transactions = 70_000
	cfg := core.Config{SnapshotSlots: 2000}
	b, p := transactor(t, cfg)
	ids := map[int64]bool{p.ID: true}
	for i := range transactions {
		end := &core.Transact{Kind: state.TransactionCommit, ID: "x", Producer: p, Next: true, Fresh: int64(2000 + i)}
		if i%3 == 0 {
			end.Kind = state.TransactionAbort
		}
		must.NoErrorf(t, b.transacts(end, transactional(p, 0)), "transaction %d", i)
		switch ranOut := end.Result.ID != p.ID; {
		case ranOut:
			check.Equalf(t, p.Epoch, math.MaxInt16-1, "last epoch of producer %d", p.ID)
			check.Equal(t, end.Result, state.ProducerEpoch{ID: int64(2000 + i)})
			fallthrough
		case i%4999 == 0:
			e := b.next() // it is stored, and the leader does not know it
			must.Equal(t, e.Kind, core.EffPutData)
			b.objects[e.Key] = b.body(e)
			b = b.successor(cfg)
			again := &core.Transact{Kind: end.Kind, ID: "x", Producer: p, Next: true, Fresh: int64(3_000_000 + i)}
			must.ErrorIsf(t, b.transacts(again), core.ErrDuplicate, "transaction %d, repeated", i)
			must.Equalf(t, again.Result, end.Result, "answer to transaction %d, repeated", i)
			other := &core.Transact{Kind: state.TransactionCommit + state.TransactionAbort - end.Kind, ID: "x", Producer: p, Next: true}
			must.ErrorIsf(t, b.transacts(other), state.ErrTransactionState, "transaction %d, ended otherwise", i)
			late := b.freeze(nil, transactional(p, 1)).Appends[0].Err
			if want := state.ErrProducerFenced; ranOut {
				must.ErrorIsf(t, late, state.ErrUnknownTransaction, "a late batch of transaction %d", i)
			} else {
				must.ErrorIsf(t, late, want, "a late batch of transaction %d", i)
			}
		}
		p = end.Result
		ids[p.ID] = true
		if b.settle(); i%500 == 0 {
			next := b.core.State().Topic(topicID).Partitions.At(0).Next
			b.freeze([]core.Op{{Record: state.Record{Kind: state.TopicTrim, Topic: topicID, Offset: next}}})
			b.settle()
			must.Equal(t, b.core.State().Aborted(), 0)
		}
	}
	must.Equal(t, len(ids), 1+transactions/math.MaxInt16)
	s := b.core.State()
	must.Equalf(t, s.Topic(topicID).Partitions.At(0).LastStable(), 2*transactions, "last stable offset")
}

// TestRepeatedInitWithAnotherTimeout checks that a repeated init gives the transactional ID its timeout, as in Kafka,
// and that the next repetition is one, too.
func TestRepeatedInitWithAnotherTimeout(t *testing.T) {
	b, p := transactor(t, core.Config{})
	epoch := p.Epoch
	for _, timeout := range []uint32{1000, 1000, 2000, 2000, 500} {
		x := &core.Transact{Kind: state.TransactionInit, ID: "x", Producer: p, Timeout: timeout, Fresh: 2000}
		err := b.transacts(x)
		b.settle()
		now := b.core.State().Transaction("x")
		check.Equalf(t, err == nil || err == core.ErrDuplicate && now.Timeout == timeout, true, "init with %d ms: %v", timeout, err)
		check.Equalf(t, x.Result, state.ProducerEpoch{ID: p.ID, Epoch: epoch + 1}, "producer")
		check.Equalf(t, now.Timeout, timeout, "timeout")
		check.Equalf(t, now.Was, p, "producer before")
	}
	check.ErrorIsf(t, b.transacts(&core.Transact{Kind: state.TransactionInit, ID: "x", Producer: state.ProducerEpoch{ID: p.ID, Epoch: epoch + 7}}), state.ErrTransactionFenced, "another producer")
}

// TestEndOfALostSlot checks that a repeated end that rests on a slot of unknown outcome has an unknown one too.
func TestEndOfALostSlot(t *testing.T) {
	b, p := transactor(t, core.Config{Window: 3})
	end := core.Transact{Kind: state.TransactionCommit, ID: "x", Producer: p, Next: true, Fresh: 2000}
	first, again, wrong := end, end, end
	wrong.Kind = state.TransactionAbort
	a := b.freeze([]core.Op{{Transact: &first}}, transactional(p, 0))
	must.NoError(t, a.Ops[0].Err)
	c := b.freeze([]core.Op{{Transact: &again}, {Transact: &wrong}})
	must.ErrorIs(t, c.Ops[0].Err, core.ErrDuplicate)
	must.ErrorIs(t, c.Ops[1].Err, state.ErrTransactionState)
	must.Equalf(t, len(b.emitted), 0, "answers before the first end is committed")
	b.step(&core.Event{Kind: core.EvStepDown})
	check.ErrorIsf(t, c.Ops[0].Err, state.ErrOutcomeUnknown, "a repeated end")
	check.Equalf(t, c.Ops[1].Err, b.core.Err(), "a refusal that rests on the end")
}

// TestTransactionsNeedALevel checks that nothing about transactions is frozen below their format level.
func TestTransactionsNeedALevel(t *testing.T) {
	b := newBench(t, core.Config{RaiseAfter: -1})
	b.objects = oldBucket(t)
	b.settle()
	b.freeze([]core.Op{topicT})
	b.settle()
	err := b.transacts(&core.Transact{Kind: state.TransactionInit, ID: "x", Producer: noProducer, Fresh: 1000})
	must.ErrorIs(t, err, state.ErrLevel)
	must.ErrorIs(t, b.freeze(nil, transactional(state.ProducerEpoch{ID: 1000}, 0)).Appends[0].Err, state.ErrUnknownTransaction)
	b.settle()
	must.Equal(t, len(b.core.State().Transactions()), 0)
}

// TestTransactionalIDsMakeRoom checks that a new ID takes the place of the one that was unused for the longest time, if
// there are too many, and that none is taken that is open or was used lately.
func TestTransactionalIDsMakeRoom(t *testing.T) {
	b, p := transactor(t, core.Config{})
	must.NoError(t, b.freeze(nil, transactional(p, 0)).Appends[0].Err)
	initAll := func(ids ...int) (err error) {
		var ops []core.Op
		for _, i := range ids {
			ops = append(ops, core.Op{Transact: &core.Transact{Kind: state.TransactionInit, ID: fmt.Sprint(i), Producer: noProducer, Fresh: int64(2000 + i)}})
		}
		for _, op := range b.freeze(ops).Ops {
			err = errors.Join(err, op.Err)
		}
		b.settle()
		return err
	}
	for i := range state.TransactionsMax - 1 {
		must.NoError(t, initAll(i))
	}
	must.ErrorIsf(t, initAll(1000), state.ErrTransactionsFull, "all were used lately")
	b.passes(16 * time.Minute)
	must.NoErrorf(t, initAll(0), "a known one")
	must.NoErrorf(t, initAll(1000, 1001), "new ones")
	is := b.core.State()
	check.Equal(t, len(is.Transactions()), state.TransactionsMax)
	for id, known := range map[string]bool{"x": true, "0": true, "1": false, "2": false, "3": true, "1000": true, "1001": true} {
		check.Equalf(t, is.Transaction(id) != nil, known, "%q is known", id)
	}
	check.ErrorIsf(t, b.transacts(&core.Transact{Kind: state.TransactionAbort, ID: "1", Producer: state.ProducerEpoch{ID: 2001}}), state.ErrUnknownTransaction, "a forgotten producer")
	check.ErrorIs(t, b.freeze(nil, transactional(state.ProducerEpoch{ID: 2001}, 0)).Appends[0].Err, state.ErrUnknownTransaction)
}

// TestLateEndBeforeABatch checks that a late copy of an end does not end the transaction that a batch behind it
// begins in the same slot.
func TestLateEndBeforeABatch(t *testing.T) {
	b, p := transactor(t, core.Config{})
	end := core.Transact{Kind: state.TransactionCommit, ID: "x", Producer: p}
	first := end
	must.NoError(t, b.transacts(&first, transactional(p, 0)))
	b.settle()
	late := end
	late.Before = 1
	must.ErrorIsf(t, b.transacts(&late, transactional(p, 1)), core.ErrDuplicate, "a late copy")
	b.settle()
	check.Equalf(t, b.core.State().Transaction("x").Open(), true, "the next transaction is open")
	check.Equal(t, b.core.State().Topic(topicID).Partitions.At(0).LastStable(), 2)
	again := end
	again.Before = 2
	must.NoErrorf(t, b.transacts(&again, transactional(p, 2)), "the end of the next transaction")
	b.settle()
	now := end
	now.Before = 2
	must.NoErrorf(t, b.transacts(&now, transactional(p, 3), transactional(p, 4)), "an end behind the first batch")
}

// TestDeposedLeaderAnswersNoEnd checks that a leader which does not know that it was deposed does not take the end of a
// transaction that its successor has begun for a repeated end of the one before, and refuses nothing.
func TestDeposedLeaderAnswersNoEnd(t *testing.T) {
	b, p := transactor(t, core.Config{})
	end := core.Transact{Kind: state.TransactionCommit, ID: "x", Producer: p}
	first := end
	must.NoError(t, b.transacts(&first, transactional(p, 0)))
	b.settle()
	next := b.successor(core.Config{})
	must.NoError(t, next.freeze(nil, transactional(p, 1)).Appends[0].Err)
	next.settle()

	second, other := end, end
	other.Producer.Epoch = 7
	asked := b.freeze([]core.Op{{Transact: &second}, {Transact: &other}}, transactional(p, 5))
	for i, err := range []error{core.ErrDuplicate, state.ErrTransactionFenced} {
		must.ErrorIs(t, asked.Ops[i].Err, err)
	}
	must.ErrorIs(t, asked.Appends[0].Err, state.ErrSequenceGap)
	must.Equalf(t, len(b.emittedKinds()), 1, "answers, that of the first end among them: %v", b.emittedKinds())
	b.settle()
	must.Equal(t, b.core.Role(), core.RoleFenced)
	must.ErrorIs(t, asked.Ops[0].Err, state.ErrOutcomeUnknown)
	must.ErrorIs(t, asked.Ops[1].Err, state.ErrFenced)
	must.ErrorIs(t, asked.Appends[0].Err, state.ErrFenced)
}

// TestOpenTransactionsKeepTheirProducers checks that a producer with an open transaction in a partition is neither
// expired nor replaced: a repeated batch would be stored twice.
func TestOpenTransactionsKeepTheirProducers(t *testing.T) {
	cfg := remembers()
	cfg.ProducerExpiration = core.Duration(time.Hour)
	b, p := transactor(t, cfg)
	known(t, b)
	must.NoError(t, b.sends(transactional(p, 0)))
	must.NoError(t, b.sends(batch("ann", 1, 0)))
	b.passes(3 * time.Hour)
	must.NoError(t, b.sends(batch("ann", 2, 0)))
	must.NoErrorf(t, b.sends(batch("ann", 1, 7)), "any sequence of a producer that has expired")
	must.ErrorIsf(t, b.sends(transactional(p, 0)), core.ErrDuplicate, "a repeated batch of an open transaction")

	b.passes(20 * time.Minute) // no producer is too young to be replaced
	for first := int64(100); first < 100+4*places && b.core.ProducerCounts().Replaced == 0; first += 20 {
		var some []core.Append
		for id := range int64(20) {
			some = append(some, batch("ann", first+id, 0))
		}
		b.freeze(nil, some...)
		b.settle()
		b.passes(time.Minute)
	}
	must.Equalf(t, b.core.ProducerCounts().Replaced > 0, true, "producers are replaced")
	must.ErrorIsf(t, b.sends(transactional(p, 0)), core.ErrDuplicate, "a repeated batch after others were replaced")
	must.ErrorIs(t, b.sends(transactional(p, 2)), state.ErrSequenceGap)

	must.NoError(t, b.transacts(&core.Transact{Kind: state.TransactionCommit, ID: "x", Producer: p}))
	b.settle()
	b.passes(3 * time.Hour)
	must.NoError(t, b.sends(batch("ann", 3, 0)))
	must.NoErrorf(t, b.sends(transactional(p, 5)), "any sequence once it has ended and expired")
}
