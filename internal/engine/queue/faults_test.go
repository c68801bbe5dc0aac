package queue_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/engine/queue"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// counted counts the PUTs of a store, which it may also refuse.
type counted struct {
	objstore.Store
	puts, others atomic.Int64
	refuses      atomic.Bool // PUTs
	unreadable   atomic.Bool
}

func (c *counted) Put(ctx context.Context, key string, body objstore.Body) error {
	c.puts.Add(1)
	if c.refuses.Load() {
		return errors.New("disk full")
	}
	return c.Store.Put(ctx, key, body)
}

func (c *counted) Get(ctx context.Context, key string, r objstore.Range) (objstore.Object, error) {
	c.others.Add(1)
	if c.unreadable.Load() {
		return objstore.Object{}, errors.New("the store is away")
	}
	return c.Store.Get(ctx, key, r)
}

// TestPuts: a lone job takes two PUTs: it is sent, and it is done. Its lease takes none. Many jobs at once
// take few. Workers that wait send no requests.
func TestPuts(t *testing.T) {
	s := &counted{Store: objstore.NewMemory()}
	f := open(t, s)
	f.create("q")
	puts := func(do func()) int64 {
		before := s.puts.Load()
		do()
		return s.puts.Load() - before
	}
	n := puts(func() {
		f.send("q", text("x"))
		m := f.lease("q", 1)
		must.NoError(t, f.settle("q", queue.Finish, m[0]))
	})
	must.Equalf(t, n, 2, "PUTs of a lone job")
	const jobs = 1000
	list := make([]queue.Message, jobs)
	f.send("q", list...)
	leased := f.lease("q", jobs)
	must.Equal(t, len(leased), jobs)
	n = puts(func() {
		var settled []queue.Settlement
		for i := range leased {
			settled = append(settled, queue.Settlement{Receipt: leased[i].Receipt, Do: queue.Finish})
		}
		for _, err := range must.Get(f.q.Settle(t.Context(), "q", "w", settled))(t) {
			must.NoError(t, err)
		}
	})
	if n > 2 { // the second one if the log took its turn between the first and the last of them
		t.Errorf("%d PUTs of %d settlements", n, jobs)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	for range 100 {
		workers.Go(func() {
			if _, err := f.q.Lease(ctx, queue.LeaseRequest{Queue: "q", Wait: time.Minute}); !errors.Is(err, context.Canceled) {
				t.Errorf("a worker that waits: %v", err)
			}
		})
	}
	sebtest.Eventually(t, "100 workers wait", func() bool { return f.q.Waiting("q") == 100 })
	before := s.others.Load()
	n = puts(func() { time.Sleep(50 * time.Millisecond) })
	if others := s.others.Load() - before; n != 0 || others != 0 {
		t.Errorf("100 workers that wait: %d PUTs, %d other requests", n, others)
	}
	cancel()
	workers.Wait()
	must.Equalf(t, f.q.Waiting("q"), 0, "workers that wait")
}

// TestWorkersShareMessages: many workers get each message once, and those that wait are woken.
func TestWorkersShareMessages(t *testing.T) {
	f := open(t, objstore.NewMemory())
	f.create("q")
	const workers, messages = 8, 2000
	got := make(chan string, messages+workers)
	var busy sync.WaitGroup
	for range workers {
		busy.Go(func() {
			for {
				l, err := f.q.Lease(t.Context(), queue.LeaseRequest{Queue: "q", Max: 7, Wait: 10 * time.Second})
				if err != nil {
					t.Error(err)
					return
				}
				for _, m := range l.List {
					if err := must.Get(f.q.Settle(t.Context(), "q", "w", []queue.Settlement{{Receipt: m.Receipt, Do: queue.Finish}}))(t)[0]; err != nil {
						t.Error(err)
					}
					got <- string(m.Value)
				}
				end := len(l.List) > 0 && string(l.List[len(l.List)-1].Value) == "end"
				if l.Release(); end {
					return
				}
			}
		})
	}
	for i := range messages {
		if i%10 == 0 {
			f.send("q", text(fmt.Sprint(i)))
			continue
		}
		go f.send("q", text(fmt.Sprint(i)))
	}
	seen := map[string]int{}
	for range messages {
		seen[<-got]++
	}
	for range workers {
		f.send("q", queue.Message{Value: []byte("end")})
	}
	busy.Wait()
	if len(seen) != messages {
		t.Errorf("%d different messages, want %d", len(seen), messages)
	}
	i := must.Get(f.q.Info("q"))(t)
	if left := i.Ready + i.InFlight + i.Delayed + i.Retrying; left != 0 {
		t.Errorf("left: %+v", i)
	}
}

// TestAStoreThatCannotBeRead: after a start, while the store cannot be read, messages with keys wait, and come
// then.
func TestAStoreThatCannotBeRead(t *testing.T) {
	s := &counted{Store: objstore.NewMemory()}
	f := open(t, s)
	f.create("q", "key-mode", "order")
	for i := range 5 {
		f.send("q", queue.Message{Key: fmt.Append(nil, i), Value: fmt.Append(nil, i)})
	}
	f.close()
	o := options(s)
	o.Timeouts.Read = 20 * time.Millisecond
	b := must.Get(broker.Open(t.Context(), o))(t)
	s.unreadable.Store(true)
	f = serve(t, b)
	f.none("q")
	sebtest.Eventually(t, "the keys cannot be read", func() bool { return f.log.Contains("reading the keys of a queue failed") })
	s.unreadable.Store(false)
	got := 0
	sebtest.Eventually(t, "all messages are given", func() bool {
		l := must.Get(f.q.Lease(t.Context(), queue.LeaseRequest{Queue: "q", Max: 5}))(t)
		l.Release()
		got += len(l.List)
		return got == 5
	})
}

// TestAFullDisk: a settlement that cannot be stored has no answer, and is done or comes again when the disk has
// room. Messages and leases that cannot be stored have none either.
func TestAFullDisk(t *testing.T) {
	s := &counted{Store: objstore.NewMemory()}
	f := open(t, s)
	f.create("q", "backoff", "0s", "visibility", "1s")
	f.send("q", text("a"))
	m := f.lease("q", 1)
	s.refuses.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	results, err := f.q.Settle(ctx, "q", "w", []queue.Settlement{{Receipt: m[0].Receipt, Do: queue.Finish}})
	if err != nil || !errors.Is(results[0], state.ErrOutcomeUnknown) {
		t.Errorf("settlement on a full disk: %v, %v", results, err)
	}
	s.refuses.Store(false)
	sebtest.Eventually(t, "the message has its end", func() bool {
		i := must.Get(f.q.Info("q"))(t)
		return i.Ready+i.InFlight+i.Retrying == 0
	})
	f.none("q")
}

// TestSchedule: each time has one message, also if it was missed, and over restarts.
func TestSchedule(t *testing.T) {
	store := objstore.NewMemory()
	var later atomic.Int64
	clocked := func() *fixture {
		return openWith(t, store, func(o *broker.Options) {
			o.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
		})
	}
	f := clocked()
	f.create("q")
	s := must.Get(f.q.SetSchedule(t.Context(), "q", queue.Schedule{Name: "hourly", Cron: "0 * * * *", Value: []byte("tick")}))(t)
	f.none("q")
	f.send("q", text("other"))
	must.Equal(t, string(f.lease("q", 1)[0].Value), "other")
	later.Add(int64(time.Until(s.Next) + time.Minute))
	f.send("q", text("wakes the loop"))
	sebtest.Eventually(t, "a message of the schedule", func() bool { return must.Get(f.q.Info("q"))(t).Sent == 3 })
	f.close()
	later.Add(int64(5 * time.Hour))
	f = clocked()
	sebtest.Eventually(t, "a message for the times that were missed", func() bool { return must.Get(f.q.Info("q"))(t).Sent == 4 })
	now := must.Get(f.q.Schedule("q", must.Get(f.q.Schedules("q"))(t)[0]))(t)
	if times := now.Times(2); string(now.Value) != "tick" || now.Next.Before(s.Next.Add(5*time.Hour)) || times[1].Sub(now.Next) != time.Hour {
		t.Errorf("schedule %+v", now)
	}
	must.Get(f.q.Update(t.Context(), "q", queue.Spec{Settings: map[string]string{"paused": "true"}}))(t)
	later.Add(int64(5 * time.Hour))
	f.send("q", text("while it is paused"))
	must.Equal(t, must.Get(f.q.Info("q"))(t).Sent, int64(5))
	must.Get(f.q.Update(t.Context(), "q", queue.Spec{Settings: map[string]string{"paused": ""}}))(t)
	sebtest.Eventually(t, "a message for the times in the pause", func() bool { return must.Get(f.q.Info("q"))(t).Sent == 6 })
	must.NoError(t, f.q.DeleteSchedule(t.Context(), "q", "hourly"))
	must.ErrorIsf(t, f.q.DeleteSchedule(t.Context(), "q", "hourly"), queue.ErrUnknownSchedule, "deleted twice")
	later.Add(int64(5 * time.Hour))
	f.send("q", text("last"))
	must.Equal(t, must.Get(f.q.Info("q"))(t).Sent, int64(7))
}

// TestSchedulesAreBounded: by their number, and by the memory of queues.
func TestSchedulesAreBounded(t *testing.T) {
	f := open(t, objstore.NewMemory())
	f.create("q")
	set := func(name string, bytes int) error {
		_, err := f.q.SetSchedule(t.Context(), "q", queue.Schedule{Name: name, Cron: "@daily", Value: make([]byte, bytes)})
		return err
	}
	must.ErrorIsf(t, set("large", 64<<10), state.ErrInvalid, "a schedule above its limit")
	n, err := 0, error(nil)
	for ; err == nil; n++ {
		err = set(fmt.Sprint(n), 48_000)
	}
	full, ok := errors.AsType[*queue.FullError](err)
	if !ok || n < 50 || full.Held < full.Max || full.Held > full.Max+64<<10 {
		t.Errorf("schedule %d of 64 KB: %v", n, err)
	}
	must.NoErrorf(t, set("0", 1), "a smaller one")
	for i := range n - 1 {
		must.NoErrorf(t, f.q.DeleteSchedule(t.Context(), "q", fmt.Sprint(i)), "delete schedule %d", i)
	}
	for i := range queue.SchedulesMax {
		must.NoErrorf(t, set(fmt.Sprint("small", i), 1), "schedule %d", i)
	}
	must.ErrorIsf(t, set("more", 1), queue.ErrLimit, "one more")
	must.NoErrorf(t, set("small7", 2), "one of them again")
}

// TestDeadLetterQueueGone: without its dead-letter queue a message stays, and moves when it is back.
func TestDeadLetterQueueGone(t *testing.T) {
	f := open(t, objstore.NewMemory())
	f.create("q")
	f.send("q", text("x"))
	m := f.lease("q", 1)
	must.NoError(t, f.b.ForceDeleteTopic(t.Context(), "q.dead"))
	killed := make(chan error)
	go func() { killed <- f.settle("q", queue.Kill, m[0]) }()
	sebtest.Eventually(t, "the message is dying", func() bool { return must.Get(f.q.Info("q"))(t).Dying == 1 })
	f.none("q")
	f.create("q.dead", "dead-letter", "none")
	must.NoError(t, <-killed)
	must.Equal(t, string(f.lease("q.dead", 1)[0].Value), "x")
}

// TestADeletedQueue: workers that wait for a queue that is deleted get an error.
func TestADeletedQueue(t *testing.T) {
	f := open(t, objstore.NewMemory())
	f.create("q")
	waits := make(chan error)
	go func() {
		_, err := f.q.Lease(t.Context(), queue.LeaseRequest{Queue: "q", Wait: time.Minute})
		waits <- err
	}()
	sebtest.Eventually(t, "a worker waits", func() bool { return f.q.Waiting("q") == 1 })
	must.NoError(t, f.q.Delete(t.Context(), "q"))
	must.ErrorIsf(t, <-waits, state.ErrUnknownTopic, "a worker of a deleted queue")
}

// TestRetention: done messages go after keep-done, and no others; a full queue takes no more.
func TestRetention(t *testing.T) {
	f := open(t, objstore.NewMemory())
	f.create("q", "keep-done", "0s")
	must.Get(f.b.UpdateTopic(t.Context(), "q", broker.TopicSpec{Settings: map[string]string{"retention-bytes": "50"}}))(t)
	f.send("q", text("a"), text("b"))
	full := must.Get(f.q.Send(t.Context(), "q", []queue.Message{text("c")}))(t)[0].Err
	var limit *broker.QueueFullError
	if !errors.As(full, &limit) || limit.Max != 50 {
		t.Errorf("send to a full queue: %v", full)
	}
	m := f.lease("q", 1)
	must.NoError(t, f.settle("q", queue.Finish, m[0]))
	_, err := f.b.Trim(t.Context(), "q", 0, 2)
	must.ErrorIsf(t, err, state.ErrInvalid, "trim of a message that is not done")
	must.Get(f.b.Trim(t.Context(), "q", 0, 1))(t)
	_, err = f.b.UpdateTopic(t.Context(), "q", broker.TopicSpec{Settings: map[string]string{"cleanup-policy": "compact"}})
	must.ErrorIsf(t, err, state.ErrInvalid, "compaction of a queue")
	_, err = f.b.UpdateTopic(t.Context(), "q", broker.TopicSpec{Settings: map[string]string{"queue": ""}})
	must.ErrorIsf(t, err, state.ErrInvalid, "a queue that is no queue any more")
}
