package broker_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/storetest"
)

func stores(t *testing.T, f func(t *testing.T, s objstore.Store)) {
	t.Run("memory", func(t *testing.T) { f(t, objstore.NewMemory()) })
	t.Run("disk", func(t *testing.T) { f(t, disk(t)) })
}

func TestEveryAckIsReadable(t *testing.T) {
	stores(t, func(t *testing.T, s objstore.Store) {
		o := options(s)
		b := open(t, o)
		create(t, b, "a", 3)
		create(t, b, "b", 1)
		l := newLedger()
		ctx, stop := context.WithCancel(context.Background())
		var readers, writers sync.WaitGroup
		for p := range 3 {
			readers.Go(func() { follow(ctx, t, b, "a", p) })
		}
		for p := range 6 {
			writers.Go(func() {
				for i := range 30 {
					topic, part := "a", (p+i)%3
					if i%4 == 0 {
						topic, part = "b", 0
					}
					var vals []string
					for j := range 1 + i%5 {
						vals = append(vals, value(p, i, j)+strings.Repeat("x", i%7*1000))
					}
					l.note(t, topic, part, vals, produce(t, b, topic, part, vals...), false)
				}
			})
		}
		writers.Wait()
		stop()
		readers.Wait()
		l.check(t, b)
		kill(b)
		for _, k := range []budget.Kind{budget.Produce, budget.Objects, budget.Tail, budget.Fetch} {
			check.Equalf(t, o.Budget.Class(k).Used(), 0, "bytes of %s still reserved", k)
		}
		l.check(t, open(t, options(s)))
	})
}

// follow reads a partition with long polls until ctx ends.
func follow(ctx context.Context, t *testing.T, b *broker.Broker, topic string, partition int) {
	for offset := int64(0); ; {
		f, err := b.Fetch(ctx, []broker.Want{{Topic: topic, Partition: int32(partition), Offset: offset, MaxBytes: 5000}}, 1, time.Minute)
		if err != nil {
			check.ErrorIs(t, err, context.Canceled)
			return
		}
		_, next := values(t, &f.Parts[0], offset)
		if next == offset {
			t.Error("a long poll returned no records")
		}
		offset = next
		f.Release()
	}
}

// TestFaultyStore: producers and readers on a store with all faults, while brokers are killed and
// fenced.
func TestFaultyStore(t *testing.T) {
	rates := storetest.Rates{storetest.Before: .05, storetest.Lost: .08, storetest.Late: .05, storetest.Hang: .01, storetest.Throttle: .03, storetest.Truncate: .05}
	stores(t, func(t *testing.T, inner objstore.Store) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		s := storetest.NewFaulty(inner, seed, storetest.Faults{Put: rates, Get: rates, LatencyMax: 2 * time.Millisecond, LateMax: 20 * time.Millisecond})
		l := newLedger()
		for run := range 6 {
			o := options(s)
			o.Core.SnapshotSlots = 20
			o.Timeouts.Put, o.Timeouts.Read = 50*time.Millisecond, 50*time.Millisecond
			b := open(t, o)
			if run == 0 {
				create(t, b, "a", 2)
			}
			var wg sync.WaitGroup
			for p := range 4 {
				wg.Go(func() { faultyProducer(t, b, l, run*10+p) })
			}
			wg.Wait()
			switch run % 3 {
			case 0:
				kill(b)
			case 1: // the next broker fences it
			case 2:
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				_ = b.Close(ctx)
				cancel()
			}
		}
		s.SetFaults(storetest.Faults{})
		s.Settle()
		b := open(t, options(inner))
		l.check(t, b)
		if len(l.acked) < 100 {
			t.Fatalf("only %d acked", len(l.acked))
		}
	})
}

func faultyProducer(t *testing.T, b *broker.Broker, l *ledger, producer int) {
	for i := range 25 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(5+i%5*30)*time.Millisecond)
		vals := []string{value(producer, i, 0), value(producer, i, 1)}
		r := b.Submit(ctx, []broker.Append{data(t, "a", i%2, vals...)}).Wait(ctx)[0]
		cancel()
		unknown := errors.Is(r.Err, state.ErrOutcomeUnknown)
		if r.Err != nil && !unknown && !errors.Is(r.Err, broker.ErrNotSent) {
			t.Errorf("producer %d: %v", producer, r.Err)
		}
		l.note(t, "a", i%2, vals, r, unknown)
	}
}

func TestTakeover(t *testing.T) {
	s := objstore.NewMemory()
	first := open(t, options(s))
	create(t, first, "a", 1)
	mustProduce(t, first, "a", 0, "one")
	o := options(s)
	o.Core.Advertised = "second:8080"
	second := open(t, o)
	must.ErrorIsf(t, produce(t, first, "a", 0, "two").Err, state.ErrOutcomeUnknown, "sent")
	<-first.Done()
	var fenced *state.FencedError
	if !errors.As(first.Err(), &fenced) || fenced.Leader != "second:8080" || fenced.Epoch != second.Epoch() {
		t.Fatalf("%v", first.Err())
	}
	if r := produce(t, first, "a", 0, "three"); !errors.Is(r.Err, state.ErrFenced) || errors.Is(r.Err, state.ErrOutcomeUnknown) {
		t.Fatalf("not sent: %v", r.Err)
	}
	if first.Epoch() != second.Epoch()-1 {
		t.Errorf("epoch %d of the fenced broker, want one below %d", first.Epoch(), second.Epoch())
	}
	must.ErrorIsf(t, first.Ready(), state.ErrFenced, "ready")
	mustProduce(t, second, "a", 0, "four")
	if got := consume(t, second, "a", 0, 0); fmt.Sprint(got) != "[one four]" {
		t.Fatal(got)
	}
	if got := consume(t, first, "a", 0, 0); fmt.Sprint(got) != "[one]" { // old, but correct
		t.Fatal(got)
	}
}

func TestHangingStoreGivesUnknown(t *testing.T) {
	s := &hooked{Store: objstore.NewMemory()}
	b := open(t, options(s))
	create(t, b, "a", 1)
	hang := func(ctx context.Context, _ string) error {
		<-ctx.Done()
		return fmt.Errorf("put: %w: %w", objstore.ErrNoVerdict, ctx.Err())
	}
	s.onPut.Store(&hang)
	counts := map[error]int{}
	kinds := []error{state.ErrOutcomeUnknown, broker.ErrNotSent, state.ErrOverBudget}
	ctx, cancel := context.WithCancel(context.Background())
	var tickets []*broker.Ticket
	big := strings.Repeat("x", 1<<20)
	for range 20 { // more than the queue holds
		tickets = append(tickets, b.Submit(ctx, []broker.Append{data(t, "a", 0, big)}))
		time.Sleep(2 * time.Millisecond)
	}
	cancel()
	for i, k := range tickets {
		var err error
		if i%2 == 0 {
			err = k.Wait(ctx)[0].Err
		} else { // a time limit alone also ends it
			err = k.WaitFor(context.Background(), time.Millisecond)[0].Err
		}
		known := false
		for _, kind := range kinds {
			if errors.Is(err, kind) {
				counts[kind]++
				known = true
			}
		}
		if !known {
			t.Fatal(err)
		}
	}
	for _, kind := range kinds {
		if counts[kind] == 0 {
			t.Errorf("no result is %q: %v", kind, counts)
		}
	}
	s.onPut.Store(nil)
}

func TestRefusingStore(t *testing.T) {
	s := &hooked{Store: objstore.NewMemory()}
	b := open(t, options(s))
	create(t, b, "a", 1)
	refuse := func(context.Context, string) error { return fmt.Errorf("put: %w: access denied", objstore.ErrRefused) }
	s.onPut.Store(&refuse)
	first := b.Submit(context.Background(), []broker.Append{data(t, "a", 0, "first")})
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		err := b.Submit(ctx, []broker.Append{data(t, "a", 0, "other")}).Wait(ctx)[0].Err
		cancel()
		if errors.Is(err, state.ErrStoreUnavailable) && strings.Contains(err.Error(), "access denied") {
			break
		}
		if !errors.Is(err, state.ErrOutcomeUnknown) && !errors.Is(err, broker.ErrNotSent) {
			t.Fatal(err)
		}
	}
	must.ErrorIs(t, b.Ready(), state.ErrStoreUnavailable)
	s.onPut.Store(nil)
	if r := first.Wait(context.Background())[0]; r.Err != nil {
		t.Fatal(r.Err)
	}
	mustProduce(t, b, "a", 0, "last")
	must.NoError(t, b.Ready())
}

func TestReadOnly(t *testing.T) {
	s := objstore.NewMemory()
	leader := open(t, options(s))
	create(t, leader, "a", 1)
	o := options(s)
	o.Core.ReadOnly = true
	o.Core.FollowPoll = core.Duration(2 * time.Millisecond)
	b := open(t, o)
	ctx := context.Background()
	_, creating := b.CreateTopic(ctx, "b", broker.TopicSpec{})
	for _, err := range []error{produce(t, b, "a", 0, "x").Err, creating, b.DeleteTopic(ctx, "a"), b.EnsureTopic(ctx, "c")} {
		check.ErrorIsf(t, err, state.ErrReadOnly, "a write")
	}
	if err := b.Ready(); err != nil || !b.ReadOnly() {
		t.Fatal(err)
	}
	mustProduce(t, leader, "a", 0, "x")
	f := must.Get(b.Fetch(ctx, []broker.Want{{Topic: "a"}}, 1, 20*time.Second))(t)
	if vals, _ := values(t, &f.Parts[0], 0); fmt.Sprint(vals) != "[x]" {
		t.Fatalf("followed to %v", vals)
	}
	f.Release()
	mustProduce(t, leader, "a", 0, "y")
	if info, err := b.Topic(ctx, "a", true); err != nil || info.Partitions[0].Next != 2 {
		t.Fatalf("confirmed: %+v %v", info, err)
	}
	mustProduce(t, leader, "a", 0, "z") // a client that only polls also gets new records
	for len(consume(t, b, "a", 0, 0)) != 3 {
		time.Sleep(time.Millisecond)
	}
}

func TestClose(t *testing.T) {
	b := open(t, options(objstore.NewMemory()))
	create(t, b, "a", 1)
	polled := make(chan error, 1)
	go func() {
		f, err := b.Fetch(context.Background(), []broker.Want{{Topic: "a"}}, 1, time.Hour)
		f.Release()
		polled <- err
	}()
	var tickets []*broker.Ticket
	for i := range 10 {
		tickets = append(tickets, b.Submit(context.Background(), []broker.Append{data(t, "a", 0, fmt.Sprint(i))}))
	}
	must.NoError(t, b.Close(context.Background()))
	if err := <-polled; err != nil && !errors.Is(err, broker.ErrClosed) {
		t.Fatal(err)
	}
	for _, k := range tickets {
		if r := k.Wait(context.Background())[0]; r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	<-b.Done()
	_, fetching := b.Fetch(context.Background(), []broker.Want{{Topic: "a"}}, 0, 0)
	for _, err := range []error{produce(t, b, "a", 0, "x").Err, b.Err(), b.Ready(), fetching} {
		check.ErrorIsf(t, err, broker.ErrClosed, "after close")
	}
}

func TestAtomicRequestWithoutParts(t *testing.T) {
	b := open(t, options(objstore.NewMemory()))
	must.Equalf(t, len(b.SubmitAtomic(t.Context(), nil).Wait(t.Context())), 0, "results")
}
