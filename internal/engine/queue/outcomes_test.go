package queue_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/engine/queue"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// gated is a store whose PUTs wait while it is shut.
type gated struct {
	objstore.Store
	gate    sync.RWMutex
	waiting chan struct{} // gets a value for each PUT that begins; capacity 1
}

func newGated() *gated {
	return &gated{Store: objstore.NewMemory(), waiting: make(chan struct{}, 1)}
}

func (g *gated) Put(ctx context.Context, key string, body objstore.Body) error {
	select {
	case g.waiting <- struct{}{}:
	default:
	}
	g.gate.RLock()
	defer g.gate.RUnlock()
	return g.Store.Put(ctx, key, body)
}

// abandoned calls do with a context that ends when the store has got a PUT of it, which it stores later.
func (g *gated) abandoned(t *testing.T, do func(ctx context.Context)) {
	t.Helper()
	select {
	case <-g.waiting:
	default:
	}
	g.gate.Lock()
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		do(ctx)
	}()
	<-g.waiting
	cancel()
	<-over
	g.gate.Unlock()
}

// TestSendWithoutAnswer: what becomes of a message is noted though its producer has not waited for it. Its
// dedup ID counts, and its delay ends.
func TestSendWithoutAnswer(t *testing.T) {
	s := newGated()
	f := open(t, s)
	f.create("q")
	f.none("q")
	message := queue.Message{Value: []byte("x"), Delay: 50 * time.Millisecond, Dedup: "id"}
	s.abandoned(t, func(ctx context.Context) {
		sent := must.Get(f.q.Send(ctx, "q", []queue.Message{message}))(t)
		must.ErrorIsf(t, sent[0].Err, state.ErrOutcomeUnknown, "a producer that does not wait")
	})
	if again := f.send("q", message); !again[0].Duplicate || again[0].ID != (queue.ID{}) {
		t.Errorf("the message is sent again: %+v", again)
	}
	must.Equal(t, len(f.lease("q", 2)), 1)
	must.Equal(t, must.Get(f.q.Info("q"))(t).Sent, int64(1))
}

// TestCrossingDedupIDs: requests with the same dedup IDs in another order do not wait for each other.
func TestCrossingDedupIDs(t *testing.T) {
	f := open(t, objstore.NewMemory())
	f.create("q")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // a test that hangs fails
	defer cancel()
	ids := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	for round := range 50 {
		var busy sync.WaitGroup
		for i := range 4 {
			busy.Go(func() {
				var list []queue.Message
				for k := range ids {
					if i%2 == 1 {
						k = len(ids) - 1 - k
					}
					list = append(list, queue.Message{Dedup: ids[k] + string(rune('0'+round))})
				}
				for _, s := range must.Get(f.q.Send(ctx, "q", list))(t) {
					if s.Err != nil {
						t.Errorf("round %d: %v", round, s.Err)
					}
				}
			})
		}
		if busy.Wait(); t.Failed() {
			return
		}
	}
	must.Equal(t, must.Get(f.q.Info("q"))(t).Sent, int64(50*len(ids)))
}

// TestDedupIDOfTwoPriorities: a dedup ID counts from its newest message, also after a restart.
func TestDedupIDOfTwoPriorities(t *testing.T) {
	store := objstore.NewMemory()
	f := open(t, store)
	must.Get(f.q.Create(t.Context(), "q", queue.Spec{Priorities: 2, Settings: map[string]string{"dedup-window": "100ms"}}))(t)
	f.send("q", queue.Message{Dedup: "id", Priority: 1})
	time.Sleep(150 * time.Millisecond)
	must.Get(f.q.Update(t.Context(), "q", queue.Spec{Settings: map[string]string{"dedup-window": "1h"}}))(t)
	sebtest.Eventually(t, "the new window", func() bool { return !f.send("q", queue.Message{Dedup: "id"})[0].Duplicate })
	f.close()
	g := open(t, store)
	if s := g.send("q", queue.Message{Dedup: "id"}); !s[0].Duplicate {
		t.Errorf("a message is sent again after a restart: %+v", s)
	}
}

// TestDelayedAcrossAPurge: a delayed message on its way to the log while the queue is purged comes, and its
// dedup ID counts.
func TestDelayedAcrossAPurge(t *testing.T) {
	s := newGated()
	f := open(t, s)
	f.create("q")
	f.send("q", queue.Message{Value: []byte("purged")})
	s.gate.Lock()
	var busy sync.WaitGroup
	busy.Go(func() { must.Get(f.q.Purge(t.Context(), "q"))(t) })
	<-s.waiting
	message := queue.Message{Value: []byte("x"), Delay: time.Second, Dedup: "id"}
	busy.Go(func() { f.send("q", message) })
	sebtest.Eventually(t, "the message is on its way", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		_, err := f.q.Send(ctx, "q", []queue.Message{message})
		return errors.Is(err, context.DeadlineExceeded) || err == nil
	})
	s.gate.Unlock()
	busy.Wait()
	if again := f.send("q", message); !again[0].Duplicate {
		t.Errorf("the message is sent again: %+v", again)
	}
	if list := f.lease("q", 10); len(list) != 1 || string(list[0].Value) != "x" {
		t.Errorf("lease %+v", list)
	}
}

// TestRedriveWithoutAnswer: letters that are moved while the operator waits no more are not given to a worker,
// and move once.
func TestRedriveWithoutAnswer(t *testing.T) {
	s := newGated()
	f := open(t, s)
	f.create("q")
	f.create("letters", "dead-letter", "none")
	f.send("letters", text("first"), text("a"), text("b"))
	first := f.lease("letters", 1) // keeps the others above what is done
	s.abandoned(t, func(ctx context.Context) {
		_, err := f.q.Redrive(ctx, queue.RedriveRequest{Queue: "letters", To: "q"})
		must.ErrorIsf(t, err, state.ErrOutcomeUnknown, "an operator who does not wait")
	})
	sebtest.Eventually(t, "the letters are moved", func() bool { return must.Get(f.q.Info("q"))(t).Sent == 2 })
	f.none("letters")
	must.NoError(t, f.settle("letters", queue.Retry, first[0], 0))
	r := must.Get(f.q.Redrive(t.Context(), queue.RedriveRequest{Queue: "letters", To: "q"}))(t)
	must.Equal(t, r.Moved, 1)
	must.Equal(t, must.Get(f.q.Info("q"))(t).Sent, int64(3))
}
