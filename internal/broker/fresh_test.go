package broker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/internal/objstore"
	"github.com/sebbroker/seb/test/must"
)

// reads counts the GETs and LISTs of a store.
type reads struct {
	objstore.Store
	n atomic.Int64
}

func (s *reads) Get(ctx context.Context, key string, r objstore.Range) (objstore.Object, error) {
	s.n.Add(1)
	return s.Store.Get(ctx, key, r)
}

func (s *reads) List(ctx context.Context, o objstore.ListOptions) ([]objstore.Entry, bool, error) {
	s.n.Add(1)
	return s.Store.List(ctx, o)
}

// TestAToldFollowerIsFresh: a follower that has applied what its leader has told asks the store only
// for a younger state than that, or if it is behind.
func TestAToldFollowerIsFresh(t *testing.T) {
	store := &reads{Store: objstore.NewMemory()}
	leader := must.Get(broker.Open(t.Context(), options(store)))(t)
	defer func() { _ = leader.Close(context.Background()) }()
	o := options(store)
	o.Core.Standby = true
	o.Told = func() (state.Position, time.Duration, bool) {
		at, _, _ := leader.LogPosition()
		return at, 2 * time.Second, true
	}
	follower := must.Get(broker.Open(t.Context(), o))(t)
	defer func() { _ = follower.Close(context.Background()) }()
	must.NoError(t, follower.Confirm(t.Context()))
	asks := func(age time.Duration) bool {
		t.Helper()
		before := store.n.Load()
		must.NoError(t, follower.FreshWithin(t.Context(), age))
		return store.n.Load() > before
	}
	if asks(3 * time.Second) {
		t.Error("it asked the store for a state that its leader has told")
	}
	must.NoError(t, leader.EnsureTopic(t.Context(), "t"))
	if !asks(3 * time.Second) {
		t.Error("it did not ask the store for what it was told")
	}
	if _, ok := follower.TopicNamed("t"); !ok {
		t.Error("it does not have what it was told")
	}
	if !asks(time.Nanosecond) {
		t.Error("it did not ask the store for a younger state than it was told")
	}
}
