package core_test

import (
	"errors"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// places is the number of producers of the tests' brokers.
const places = 450

func remembers() core.Config { return core.Config{StateMax: state.ProducersMemory(places)} }

// batch is the batch of one record of a producer.
func batch(principal string, producer int64, sequence int32) core.Append {
	a := one(-1)
	a.Idempotent, a.Producer = true, state.ProducerBatch{ID: producer, Sequence: sequence, Span: 1}
	a.Check = &access.Check{Principal: principal, Request: access.Request{Operation: access.Write, Resource: access.Topic, Name: "t"}}
	return a
}

// sends appends a batch and returns its error.
func (b *bench) sends(a core.Append) error {
	b.t.Helper()
	p := b.freeze(nil, a)
	b.settle()
	return p.Appends[0].Err
}

func (b *bench) passes(d time.Duration) { b.now += int64(d) }

// fills appends batches of new producers, many per slot, until one is refused. It returns how many were
// not.
func (b *bench) fills(principal string, first int64) (n int64) {
	b.t.Helper()
	for {
		var some []core.Append
		for i := range int64(20) {
			some = append(some, batch(principal, first+n+i, 0))
		}
		p := b.freeze(nil, some...)
		b.settle()
		for _, a := range p.Appends {
			if a.Err != nil {
				return n
			}
			n++
		}
		b.passes(time.Second)
	}
}

// known allows principals everything, since the state of the tests knows none.
func known(t *testing.T, b *bench) {
	var change access.Change
	for _, id := range []string{"ann", "bob", "eve"} {
		change.Put = append(change.Put, access.Principal{ID: id, Created: 1})
		change.PutRules = append(change.PutRules, access.Rule{Principal: id, Resource: access.Topic, Name: access.Any, Operation: access.Write, Host: access.Any})
	}
	p := b.freeze([]core.Op{{Record: state.Record{Kind: state.AccessChange, Access: &change}}})
	b.settle()
	must.NoError(t, p.Ops[0].Err)
}

// TestNewProducersAreRefused: a principal cannot take all places. While its producers are young, its
// next one is refused and those of others are not; afterwards the oldest give way.
func TestNewProducersAreRefused(t *testing.T) {
	b := leader(t, remembers())
	known(t, b)
	n := b.fills("ann", 0)
	check.Equalf(t, n, places*8/9, "producers of one principal")
	var full *state.ProducersFullError
	err := b.sends(batch("ann", n, 0))
	if !errors.As(err, &full) || !errors.Is(err, state.ErrOverBudget) || int64(full.Own) != n || full.Max != places {
		t.Fatalf("%v", err)
	}
	check.ErrorIsf(t, b.core.RefusesProducer("ann", b.now), state.ErrProducersFull, "asked")
	check.NoErrorf(t, b.core.RefusesProducer("bob", b.now), "asked")
	must.NoErrorf(t, b.sends(batch("bob", n, 0)), "another principal")
	must.ErrorIsf(t, b.sends(batch("ann", 0, 0)), core.ErrDuplicate, "a retry")
	must.NoErrorf(t, b.sends(batch("ann", 0, 1)), "the next batch of a known producer")

	b.passes(10 * time.Minute)
	check.NoErrorf(t, b.core.RefusesProducer("ann", b.now), "asked later")
	must.NoErrorf(t, b.sends(batch("ann", n+1, 0)), "a new producer")
	counts := b.core.ProducerCounts()
	if counts.Refused < 2 || counts.Replaced == 0 || counts.Expired != 0 || b.core.State().Producers() != int(n+2-int64(counts.Replaced)) {
		t.Errorf("%+v, %d producers", counts, b.core.State().Producers())
	}
	must.ErrorIsf(t, b.sends(batch("ann", 0, 1)), core.ErrDuplicate, "a retry of the youngest")
	must.ErrorIsf(t, b.sends(batch("bob", n, 0)), core.ErrDuplicate, "a retry of the principal with fewer")
	must.NoErrorf(t, b.sends(batch("ann", 1, 0)), "the oldest was forgotten: its batch counts as new")
}

// TestProducersOfOthersStay: a principal that holds most cannot displace the producers of one that
// holds less, however old they are.
func TestProducersOfOthersStay(t *testing.T) {
	b := leader(t, remembers())
	known(t, b)
	must.NoError(t, b.sends(batch("bob", 1, 0)))
	b.passes(time.Hour)
	b.fills("ann", 100)
	must.NoErrorf(t, b.sends(batch("eve", 2, 0)), "a third principal")
	must.ErrorIsf(t, b.sends(batch("bob", 1, 0)), core.ErrDuplicate, "a retry after an hour")
}

// TestProducersExpire: after 24 hours without a batch a producer is forgotten, by a record that every
// broker reads; the next leader knows the same ones.
func TestProducersExpire(t *testing.T) {
	b := leader(t, remembers())
	known(t, b)
	must.NoError(t, b.sends(batch("ann", 1, 0)))
	b.passes(23 * time.Hour)
	must.NoError(t, b.sends(batch("ann", 2, 0)))
	must.ErrorIsf(t, b.sends(batch("ann", 1, 0)), core.ErrDuplicate, "after 23 hours")
	b.passes(2 * time.Hour)
	must.NoError(t, b.sends(batch("ann", 3, 0)))
	must.NoErrorf(t, b.sends(batch("ann", 1, 0)), "after 25 hours")
	must.ErrorIsf(t, b.sends(batch("ann", 2, 0)), core.ErrDuplicate, "after 2 hours")
	check.Equalf(t, b.core.ProducerCounts(), core.ProducerCounts{Expired: 1}, "counts")

	next := newBench(t, remembers())
	next.objects, next.now, next.nonces = b.objects, b.now, 100
	next.settle()
	must.Equalf(t, next.core.Role(), core.RoleLeader, "role")
	for id := range int64(3) {
		must.ErrorIsf(t, next.sends(batch("ann", id+1, 0)), core.ErrDuplicate, "producer %d, after a takeover", id+1)
	}
}
