package broker_test

import (
	"errors"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/forged"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// TestRaise: an operator raises the bucket as far as all its brokers can read it.
func TestRaise(t *testing.T) {
	store := objstore.NewMemory()
	must.Get(forged.OldBucket(t.Context(), store))(t)
	o := options(store)
	var allowed uint32
	o.RaiseMax = func() uint32 { return allowed }
	b := open(t, o)
	for _, c := range []struct{ allowed, want uint32 }{
		{0, state.LevelFirst}, {state.LevelFirst, state.LevelFirst}, {state.LevelJournal, state.LevelJournal}, {state.LevelAccess, state.LevelJournal}, {state.LevelMax, state.LevelMax},
	} {
		allowed = c.allowed
		if v, err := b.Raise(t.Context()); err != nil || v.Now != c.want || v.Max != state.LevelMax {
			t.Errorf("level %+v, %v with %d allowed, want %d", v, err, c.allowed, c.want)
		}
	}
}

// TestStepDownOfABroker: what only a leader does ends, and begins again in the next epoch.
func TestStepDownOfABroker(t *testing.T) {
	o := options(objstore.NewMemory())
	o.Standby = true
	b := open(t, o)
	a := newActivity(b)
	b.WhileLeading(a.run)
	must.Equalf(t, <-a.epochs, 1, "first epoch")
	create(t, b, "t", 1)
	b.Show(time.Hour, time.Hour)
	if r, err := b.Park(t.Context(), true); err != nil || !r.Parked {
		t.Fatalf("park: %+v, %v", r, err)
	}
	b.Unpark()
	mustProduce(t, b, "t", 0, "a")
	if r, err := b.Report(t.Context()); err != nil || r.Parked || r.Promise != time.Hour {
		t.Errorf("report %+v, %v", r, err)
	}
	must.NoError(t, b.StepDown(t.Context(), 0))
	if err := <-a.ended; !errors.Is(err, broker.ErrDeposed) || b.LeadingEpoch() != 0 {
		t.Errorf("the epoch ended with %v, then it led in %d", err, b.LeadingEpoch())
	}
	sebtest.Eventually(t, "the broker follows", b.Follows)
	must.NoError(t, b.Confirm(t.Context()))
	must.NoError(t, b.Stand(t.Context()))
	check.Equalf(t, <-a.epochs, 2, "second epoch")
	mustProduce(t, b, "t", 0, "b")
}
