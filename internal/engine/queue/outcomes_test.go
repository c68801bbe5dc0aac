package queue_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/engine/queue"
	"github.com/sebbroker/seb/record"
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

// TestResume: workers that wait get messages when the queue works again, or may give more at once.
func TestResume(t *testing.T) {
	f := open(t, objstore.NewMemory())
	f.create("q", "paused", "true", "in-flight-max", "1")
	f.send("q", text("a"), text("b"))
	got := make(chan string, 2)
	for range 2 {
		go func() { got <- string(f.lease("q", 1)[0].Value) }()
	}
	sebtest.Eventually(t, "two workers wait", func() bool { return f.q.Waiting("q") == 2 })
	for _, c := range []struct{ name, value, want string }{{"paused", "", "a"}, {"in-flight-max", "5", "b"}} {
		must.Get(f.b.UpdateTopic(t.Context(), "q", broker.TopicSpec{Settings: map[string]string{"queue": settingsWithout(f, c.name, c.value)}}))(t)
		must.Equalf(t, <-got, c.want, "after a change of %s", c.name)
	}
}

// settingsWithout returns the setting of queue q with another value, as another broker would set it.
func settingsWithout(f *fixture, name, value string) string {
	f.t.Helper()
	set := must.Get(f.q.Info("q"))(f.t).Settings
	if delete(set, name); value != "" {
		set[name] = value
	}
	return state.QueueText(set)
}

// TestNoAnswerIsForgotten: a worker whose message cannot become a dead letter gets an answer when the queue is
// purged, has no dead letters any more, or is served no longer.
func TestNoAnswerIsForgotten(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(f *fixture) error
		want error
	}{
		"purge": {func(f *fixture) error { _, err := f.q.Purge(t.Context(), "q"); return err }, queue.ErrStale},
		"no dead letters": {func(f *fixture) error {
			_, err := f.q.Update(t.Context(), "q", queue.Spec{Settings: map[string]string{"dead-letter": "none"}})
			return err
		}, queue.ErrNoDeadLetter},
		"end": {func(f *fixture) error { f.b.EndWhileLeading(); return nil }, state.ErrOutcomeUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			f := open(t, objstore.NewMemory())
			f.create("q")
			f.send("q", text("x"))
			m := f.lease("q", 1)
			must.NoError(t, f.b.ForceDeleteTopic(t.Context(), "q.dead"))
			killed := make(chan error)
			go func() { killed <- f.settle("q", queue.Kill, m[0]) }()
			sebtest.Eventually(t, "the message is dying", func() bool { return must.Get(f.q.Info("q"))(t).Dying == 1 })
			must.NoError(t, c.end(f))
			must.ErrorIs(t, <-killed, c.want)
			if name == "no dead letters" {
				must.Equal(t, string(f.lease("q", 1)[0].Value), "x")
			}
		})
	}
}

// TestUnreadableMessage: a message that cannot be read holds up no others of the workers.
func TestUnreadableMessage(t *testing.T) {
	s := &damaged{Store: objstore.NewMemory()}
	f := open(t, s)
	f.create("q")
	f.send("q", text("unreadable"))
	s.key.Store(s.last.Load())
	f.send("q", text("b"))
	f.close()
	g := open(t, s)
	s.fails.Store(true)
	_, err := g.q.Lease(t.Context(), queue.LeaseRequest{Queue: "q", Max: 1})
	if err == nil || !strings.Contains(err.Error(), "bad sector") {
		t.Errorf("lease of a message that cannot be read: %v", err)
	}
	must.Equal(t, string(g.lease("q", 1)[0].Value), "b")
}

// TestUnreadableLetter: a message that cannot be read holds up no dead letters.
func TestUnreadableLetter(t *testing.T) {
	s := &damaged{Store: objstore.NewMemory()}
	f := open(t, s)
	f.create("q", "max-deliveries", "1", "visibility", "1s")
	f.create("other")
	f.send("q", text("unreadable"))
	s.key.Store(s.last.Load())
	f.send("q", text("b"))
	must.Equal(t, len(f.lease("q", 1)), 1)
	f.send("other", text("stores the lease"))
	f.close()
	g := open(t, s)
	s.fails.Store(true)
	must.Equal(t, string(g.lease("q", 1)[0].Value), "b") // its lease ends, too
	must.Equal(t, string(g.lease("q.dead", 1)[0].Value), "b")
	s.fails.Store(false)
	must.Equal(t, string(g.lease("q.dead", 1)[0].Value), "unreadable")
}

// damaged is a store that cannot read an object.
type damaged struct {
	objstore.Store
	last, key atomic.Value // string
	fails     atomic.Bool
}

func (d *damaged) Put(ctx context.Context, key string, body objstore.Body) error {
	d.last.Store(key)
	return d.Store.Put(ctx, key, body)
}

func (d *damaged) Get(ctx context.Context, key string, r objstore.Range) (objstore.Object, error) {
	if d.fails.Load() && key == d.key.Load() {
		return objstore.Object{}, errors.New("bad sector")
	}
	return d.Store.Get(ctx, key, r)
}

// TestAudit: what operators do with messages has audit records.
func TestAudit(t *testing.T) {
	f := openWith(t, objstore.NewMemory(), func(o *broker.Options) { o.AuditTopic = "audit" })
	f.create("q")
	ids := f.send("q", text("a"), text("b"), text("c"))
	must.NoError(t, f.q.Cancel(t.Context(), "q", ids[1].ID))
	must.ErrorIsf(t, f.q.Cancel(t.Context(), "q", ids[1].ID), queue.ErrUnknownMessage, "cancelled twice")
	must.Get(f.q.Redrive(t.Context(), queue.RedriveRequest{Queue: "q", To: "q.dead", DryRun: true}))(t)
	must.Get(f.q.Redrive(t.Context(), queue.RedriveRequest{Queue: "q", To: "q.dead", Text: "c"}))(t)
	must.Get(f.q.Purge(t.Context(), "q"))(t)
	topic, _ := f.b.TopicNamed("audit")
	var told []string
	must.NoError(t, f.b.EachRecord(t.Context(), broker.Lookup{Topic: &topic}, 0, 1<<62, func(r *record.Record) bool {
		var e struct {
			Action  string
			Details map[string]string
		}
		must.NoError(t, json.Unmarshal(r.Value, &e))
		if strings.HasPrefix(e.Action, "queue.") {
			told = append(told, fmt.Sprintf("%s %v", e.Action, e.Details))
		}
		return true
	}))
	must.EqualSlicesf(t, told, []string{"queue.cancel map[message:0-1]", "queue.redrive map[max:1000 text:c to:q.dead]", "queue.purge map[priority:0]"}, "audit records")
}

// TestRedriveOfUnreadKeys: messages whose keys the core has not read move, too.
func TestRedriveOfUnreadKeys(t *testing.T) {
	f := open(t, objstore.NewMemory())
	f.create("q")
	f.create("letters", "dead-letter", "none", "key-mode", "order")
	const n = 300
	list := make([]queue.Message, n)
	for i := range list {
		list[i] = queue.Message{Key: fmt.Append(nil, i), Value: []byte("x")}
	}
	for range 5 {
		f.send("letters", list...)
		moved := 0
		for r := (queue.RedriveRequest{Queue: "letters", To: "q", Max: n}); moved < n; {
			out := must.Get(f.q.Redrive(t.Context(), r))(t)
			if moved += out.Moved; out.Next == nil {
				break
			}
			r.After = out.Next
		}
		must.Equalf(t, moved, n, "messages moved right after they were sent")
	}
}
