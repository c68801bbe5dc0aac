package broker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/internal/objstore"
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
	leader, err := broker.Open(t.Context(), options(store))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = leader.Close(context.Background()) }()
	o := options(store)
	o.Core.Standby = true
	o.Told = func() (state.Position, time.Duration, bool) {
		at, _, _ := leader.LogPosition()
		return at, 2 * time.Second, true
	}
	follower, err := broker.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = follower.Close(context.Background()) }()
	if err := follower.Confirm(t.Context()); err != nil {
		t.Fatal(err)
	}
	asks := func(age time.Duration) bool {
		t.Helper()
		before := store.n.Load()
		if err := follower.FreshWithin(t.Context(), age); err != nil {
			t.Fatal(err)
		}
		return store.n.Load() > before
	}
	if asks(3 * time.Second) {
		t.Error("it asked the store for a state that its leader has told")
	}
	if err := leader.EnsureTopic(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
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
