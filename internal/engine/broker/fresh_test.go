package broker_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/check"
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

// TestPollsBeyondTheEnd: calls for the end of the log at a leader cost the store a few requests a second,
// however many there are. Each call is answered by a look that began after it, so a leader that was
// replaced without its knowledge notices it.
func TestPollsBeyondTheEnd(t *testing.T) {
	t.Parallel()
	store := &reads{Store: objstore.NewMemory()}
	leader := open(t, options(store))
	before, began := store.n.Load(), time.Now()
	var polls sync.WaitGroup
	for range 50 {
		polls.Go(func() {
			for range 4 {
				if err := leader.ConfirmEnd(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	polls.Wait()
	const every = 500 * time.Millisecond // between two requests
	if n, most := store.n.Load()-before, 1+int64(time.Since(began)/every); n > most {
		t.Errorf("200 calls cost %d requests in %v, want at most %d", n, time.Since(began), most)
	}
	must.NoError(t, leader.ConfirmEnd(t.Context()))
	open(t, options(store.Store))
	check.Error(t, leader.ConfirmEnd(t.Context()), "a leader that was replaced after its newest look knows the end")
}
