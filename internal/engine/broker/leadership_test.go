package broker_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// activity is a function of WhileLeading.
type activity struct {
	b       *broker.Broker
	running atomic.Int32
	epochs  chan uint32 // of each call
	ended   chan error  // the cause of each end
}

func newActivity(b *broker.Broker) *activity {
	return &activity{b: b, epochs: make(chan uint32, 100), ended: make(chan error, 100)}
}

func (a *activity) run(ctx context.Context) {
	if a.running.Add(1) != 1 {
		panic("two epochs at the same time")
	}
	defer a.running.Add(-1)
	a.epochs <- a.b.LeadingEpoch()
	<-ctx.Done()
	a.ended <- context.Cause(ctx)
}

// TestWhileLeading: a function runs in each epoch, once at a time, and EndWhileLeading and Close wait for it.
func TestWhileLeading(t *testing.T) {
	store := objstore.NewMemory()
	open := func(follow bool) *broker.Broker {
		t.Helper()
		o := options(store)
		o.Standby, o.Core.Standby = true, follow
		b := must.Get(broker.Open(t.Context(), o))(t)
		t.Cleanup(func() { _ = b.Close(context.Background()) })
		return b
	}
	first, second := open(false), open(true)
	one, two := newActivity(first), newActivity(second)
	first.WhileLeading(one.run)
	second.WhileLeading(two.run)
	must.Equalf(t, <-one.epochs, 1, "first epoch")
	if _, err := second.NewProducerID(""); !errors.Is(err, state.ErrNotLeader) || second.LeadingEpoch() != 0 || !second.Follows() {
		t.Errorf("producer ID of a follower: %v", err)
	}
	must.NoError(t, second.Confirm(t.Context()))
	must.NoError(t, second.Stand(t.Context()))
	must.Equalf(t, <-two.epochs, 2, "epoch of the successor")
	if id, err := second.NewProducerID(""); err != nil || id != state.ProducerID(0, 2, 1) {
		t.Errorf("producer ID %x, %v", id, err)
	}
	if err := first.Confirm(t.Context()); err != nil { // of a leader that has just committed: no look at the log
		t.Fatal(err)
	}
	must.Error(t, first.EnsureTopic(t.Context(), "t"), "a deposed leader has created a topic")
	check.ErrorIsf(t, <-one.ended, broker.ErrDeposed, "cause of the end")
	sebtest.Eventually(t, "the first broker follows", first.Follows)
	must.NoError(t, first.Confirm(t.Context()))
	must.NoError(t, first.Stand(t.Context()))
	must.Equalf(t, <-one.epochs, 3, "second epoch")
	first.EndWhileLeading()
	if got := <-one.ended; !errors.Is(got, broker.ErrClosed) || one.running.Load() != 0 {
		t.Errorf("cause of the end: %v, %d run", got, one.running.Load())
	}
	check.NoErrorf(t, first.EnsureTopic(t.Context(), "t"), "append after EndWhileLeading")
	must.NoError(t, second.Close(t.Context()))
	check.Equalf(t, two.running.Load(), 0, "Close has not waited")
}

// TestFollowsWithoutALog: a broker follows in a bucket without a log, answers that it has no topic, and
// makes the log when it stands. Another one then follows that.
func TestFollowsWithoutALog(t *testing.T) {
	store := objstore.NewMemory()
	open := func() *broker.Broker {
		t.Helper()
		o := options(store)
		o.Standby, o.Core.Standby, o.Core.FollowPoll = true, true, 1e6
		b := must.Get(broker.Open(t.Context(), o))(t)
		t.Cleanup(func() { _ = b.Close(context.Background()) })
		return b
	}
	first, second := open(), open()
	if !first.Follows() || first.Leads() || first.Epoch() != 0 {
		t.Errorf("follows %v, leads %v, epoch %d", first.Follows(), first.Leads(), first.Epoch())
	}
	if s := first.Status(); s.Role != "follower" || s.Topics != 0 {
		t.Errorf("status %+v", s)
	}
	check.NoErrorf(t, first.Ready(), "ready")
	check.ErrorIsf(t, first.EnsureTopic(t.Context(), "t"), state.ErrNotLeader, "create a topic")
	must.NoError(t, first.Stand(t.Context()))
	must.NoError(t, first.EnsureTopic(t.Context(), "t"))
	must.NoError(t, second.Confirm(t.Context()))
	if s := second.Status(); s.Role != "follower" || s.Epoch != 1 || s.Topics != 1 {
		t.Errorf("status of the second broker %+v", s)
	}
}
