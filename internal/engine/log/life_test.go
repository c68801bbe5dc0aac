package log_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// submitCounted submits, stops waiting soon, and overwrites the data on release.
func submitCounted(t *testing.T, l *log.Log, a log.Append, i int, released *atomic.Int64) {
	data := a.Data
	var once atomic.Bool
	a.Release = func() {
		if once.Swap(true) {
			t.Error("released twice")
		}
		released.Add(1)
		clear(data)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+i%7)*time.Millisecond)
	defer cancel()
	for _, r := range l.Submit([]log.Append{a}).Wait(ctx) {
		if err := r.Err(); err != nil && !errors.Is(err, state.ErrOutcomeUnknown) && !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	}
}

// TestBuffersOutliveAttempts checks that each buffer is released exactly once and never while a Put
// may still read it. Released buffers are poisoned.
func TestBuffersOutliveAttempts(t *testing.T) {
	store := newHooked(objstore.NewMemory())
	o := options(store)
	o.Budget = budget.New(64 << 20)
	o.Budget.Buffers().Poison()
	kept := map[string][]byte{}
	o.Hooks.FillCache = func(key string, parts [][]byte) {
		time.Sleep(2 * time.Millisecond) // a slow disk: the log has settled the slot long before
		kept[key] = slices.Concat(parts...)
	}
	l := open(t, o)
	id := topic(t, l, "a", 4)
	store.set(func(ctx context.Context, key string, body objstore.Body, pass func() error) error {
		if len(store.attempts(key)) == 1 && len(key)%2 == 0 {
			return fmt.Errorf("put: %w", objstore.ErrNoVerdict)
		}
		before := slices.Concat(body.Parts...)
		time.Sleep(time.Millisecond)
		check.Equalf(t, string(before), string(slices.Concat(body.Parts...)), "the bytes of an attempt changed while it ran")
		return pass()
	})
	var submitted, released atomic.Int64
	var wg sync.WaitGroup
	for p := range 4 {
		wg.Go(func() {
			for i := range 40 {
				submitted.Add(1)
				submitCounted(t, l, batch(t, id, uint32(p), strings.Repeat(fmt.Sprint(i%10), 10+i%5/4*(40<<10))), i, &released)
			}
		})
	}
	wg.Wait()
	for p := range 4 {
		for _, v := range contents(t, l, store, id, p) {
			must.Equalf(t, v, strings.Repeat(v[:1], len(v)), "a stored value was overwritten: %q", v[:10])
		}
	}
	must.NoError(t, l.Close(context.Background()))
	if released.Load() != submitted.Load() {
		t.Fatalf("%d of %d released", released.Load(), submitted.Load())
	}
	must.Equalf(t, o.Budget.Class(budget.Objects).Used(), 0, "bytes of objects are still reserved")
	for key, b := range kept {
		obj := must.Get(store.Get(context.Background(), key, objstore.Whole))(t)
		if want, _ := io.ReadAll(obj.Body); string(want) != string(b) {
			t.Fatalf("the cache got other bytes of %s", key)
		}
	}
	if len(kept) == 0 {
		t.Fatal("the cache got no object")
	}
}

// TestKill checks that sent appends are unknown and unsent ones are rejected. Buffers are not
// released while a Put that ignores its context still runs.
func TestKill(t *testing.T) {
	store := newHooked(objstore.NewMemory())
	o := options(store)
	o.Core.Window = 1
	l := open(t, o)
	id := topic(t, l, "a", 1)
	began := make(chan struct{}, 1)
	store.set(func(ctx context.Context, _ string, body objstore.Body, _ func() error) error {
		before := slices.Concat(body.Parts...)
		began <- struct{}{}
		<-ctx.Done()
		time.Sleep(20 * time.Millisecond) // the transport is slow to return
		check.Equalf(t, string(before), string(slices.Concat(body.Parts...)), "the bytes of an attempt changed while it ran")
		return fmt.Errorf("put: %w: %w", objstore.ErrNoVerdict, ctx.Err())
	})
	large := batch(t, id, 0, strings.Repeat("x", 50_000))
	data := large.Data
	large.Release = func() { clear(data) }
	sent := l.Submit([]log.Append{large})
	<-began
	queued := l.Submit([]log.Append{batch(t, id, 0, "y")})
	l.Kill()
	check.ErrorIsf(t, wait(t, sent)[0].Err(), state.ErrOutcomeUnknown, "sent")
	check.ErrorIsf(t, wait(t, queued)[0].Err(), log.ErrClosed, "queued")
	check.Equalf(t, data[100], 0, "the data was never released")
}

func TestSnapshotsBoundTheReplay(t *testing.T) {
	store := newHooked(objstore.NewMemory())
	o := options(store)
	o.Core.SnapshotSlots = 10
	l := open(t, o)
	id := topic(t, l, "a", 1)
	failed := map[string]int{}
	store.set(func(_ context.Context, key string, _ objstore.Body, pass func() error) error {
		if strings.Contains(key, "/snap/") && failed[key] == 0 {
			failed[key]++
			return fmt.Errorf("put: %w", objstore.ErrNoVerdict)
		}
		return pass()
	})
	for i := range 35 {
		must.NoError(t, wait(t, l.Submit([]log.Append{batch(t, id, 0, fmt.Sprint(i))}))[0].Err())
	}
	var snaps []objstore.Entry
	sebtest.Eventually(t, "there are two snapshots", func() bool {
		snaps, _, _ = store.List(context.Background(), objstore.ListOptions{Prefix: "s0000/snap/"})
		return len(snaps) >= 2
	})
	for _, s := range snaps {
		attempts := store.attempts(s.Key)
		if len(attempts) < 2 || string(attempts[0]) != string(attempts[1]) {
			t.Fatalf("attempts for %s differ", s.Key)
		}
	}
	l.Kill()
	store.set(nil)
	var opened atomic.Bool
	store.onGet = func(_ context.Context, k string, _ objstore.Range) error {
		if !opened.Load() && key(1, 0)(k) || !opened.Load() && key(1, 15)(k) {
			t.Errorf("a start with a snapshot reads %s", k)
		}
		return nil
	}
	l = open(t, o)
	opened.Store(true)
	must.Equalf(t, len(contents(t, l, store, id, 0)), 35, "records")
}

func TestDamagedSlotStopsTheStart(t *testing.T) {
	store := objstore.NewMemory()
	l := open(t, options(store))
	id := topic(t, l, "a", 1)
	must.NoError(t, wait(t, l.Submit([]log.Append{batch(t, id, 0, "x")}))[0].Err())
	l.Kill()
	for _, at := range []int{30, 150, 200} { // head, head, index
		damaged := objstore.NewMemory()
		entries, _, err := store.List(context.Background(), objstore.ListOptions{})
		must.NoError(t, err)
		for _, e := range entries {
			obj := must.Get(store.Get(context.Background(), e.Key, objstore.Whole))(t)
			b, _ := io.ReadAll(obj.Body)
			if key(1, 1)(e.Key) {
				b[at] ^= 1
			}
			must.NoError(t, damaged.Put(context.Background(), e.Key, objstore.NewBody(b)))
		}
		_, err = log.Open(context.Background(), options(damaged))
		must.ErrorIsf(t, err, record.ErrCorrupt, "byte %d", at)
		after, _, _ := damaged.List(context.Background(), objstore.ListOptions{})
		if len(after) != len(entries) {
			t.Fatalf("%d objects became %d", len(entries), len(after))
		}
	}
}

func TestOpenEndsWithItsContext(t *testing.T) {
	store := newHooked(objstore.NewMemory())
	store.onGet = func(context.Context, string, objstore.Range) error {
		return fmt.Errorf("get: %w: no route to host", objstore.ErrNoVerdict)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	_, err := log.Open(ctx, options(store))
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no route to host") {
		t.Fatal(err)
	}
}

func TestIdleLogMakesNoRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newHooked(objstore.NewMemory())
		l := open(t, options(store))
		id := topic(t, l, "a", 1)
		must.NoError(t, wait(t, l.Submit([]log.Append{batch(t, id, 0, "x")}))[0].Err())
		before := store.requests()
		time.Sleep(10 * time.Minute)
		must.Equalf(t, store.requests()-before, 0, "requests of an idle log")
		l.Readers(true)
		time.Sleep(10*time.Minute - time.Second)
		if n := store.requests() - before; n < 9 || n > 10 {
			t.Fatalf("%d requests in 10 minutes with readers", n)
		}
		l.Readers(false)
		synctest.Wait()
		before = store.requests()
		time.Sleep(10 * time.Minute)
		must.Equalf(t, store.requests()-before, 0, "requests after the readers left")
		must.NoError(t, l.Confirm(t.Context()))
		must.Equalf(t, store.requests()-before, 1, "requests for a confirmation")
		l.Kill()
	})
}

func TestReadersNoticeATakeover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := objstore.NewMemory()
		first := open(t, options(store))
		first.Readers(true)
		second := open(t, options(store))
		time.Sleep(2 * time.Minute)
		must.Equalf(t, first.Status().Role, core.RoleFenced, "role")
		must.ErrorIs(t, first.Confirm(t.Context()), state.ErrFenced)
		first.Kill()
		second.Kill()
	})
}

func TestTimeoutsBoundEachRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newHooked(objstore.NewMemory())
		l := open(t, options(store))
		id := topic(t, l, "a", 1)
		begin := time.Now()
		store.set(func(ctx context.Context, key string, _ objstore.Body, pass func() error) error {
			if len(store.attempts(key)) > 1 {
				return pass()
			}
			<-ctx.Done()
			return fmt.Errorf("put: %w: %w", objstore.ErrNoVerdict, ctx.Err())
		})
		must.NoError(t, l.Submit([]log.Append{batch(t, id, 0, strings.Repeat("x", 2<<20))}).Wait(t.Context())[0].Err())
		if took := time.Since(begin); took < 32*time.Second || took > 34*time.Second {
			t.Fatalf("the first attempt had %s", took)
		}
		l.Kill()
	})
}

func TestFollower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newHooked(objstore.NewMemory())
		leader := open(t, options(store))
		id := topic(t, leader, "a", 1)
		o := options(store)
		o.Core.ReadOnly = true
		var advanced atomic.Int64
		o.Hooks.Advanced = func() { advanced.Add(1) }
		follower := open(t, o)
		if s := follower.Status(); s.Role != core.RoleFollower || follower.Ready() != nil {
			t.Fatalf("%+v %v", s, follower.Ready())
		}
		err := wait(t, follower.Submit([]log.Append{batch(t, id, 0, "x")}))[0].Err()
		must.ErrorIs(t, err, state.ErrReadOnly)
		follower.Readers(true)
		synctest.Wait()
		seen := advanced.Load()
		must.NoError(t, wait(t, leader.Submit([]log.Append{batch(t, id, 0, "x")}))[0].Err())
		time.Sleep(3 * time.Second)
		if got := contents(t, follower, store, id, 0); len(got) != 1 || advanced.Load() == seen {
			t.Fatalf("has %v, advanced %d times", got, advanced.Load()-seen)
		}
		follower.Readers(false)
		must.NoError(t, wait(t, leader.Submit([]log.Append{batch(t, id, 0, "y")}))[0].Err())
		must.NoError(t, follower.Confirm(t.Context()))
		if got := contents(t, follower, store, id, 0); len(got) != 2 {
			t.Fatalf("has %v after a confirmation", got)
		}
		leader.Kill()
		follower.Kill()
	})
}

func TestWrongClockIsNotReady(t *testing.T) {
	store := newHooked(objstore.NewMemory())
	l := open(t, options(store))
	for _, skew := range []time.Duration{-61 * time.Second, 61 * time.Second} {
		store.mu.Lock()
		store.skew = skew
		store.mu.Unlock()
		must.ErrorContainsf(t, l.Ready(), "clock", "%s off", skew)
	}
	store.mu.Lock()
	store.skew = 59 * time.Second
	store.mu.Unlock()
	must.NoError(t, l.Ready())
}

func TestOneWaitOfTheBatcherIsOneObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newHooked(objstore.NewMemory())
		o := options(store)
		o.Batch.Wait = time.Second
		l := open(t, o)
		ids := []record.ID{}
		for i := range 20 {
			ids = append(ids, topic(t, l, fmt.Sprint("t", i), 1))
		}
		before := store.requests()
		for range 60 {
			var tickets []*log.Ticket
			for _, id := range ids {
				tickets = append(tickets, l.Submit([]log.Append{batch(t, id, 0, "x")}))
			}
			for _, k := range tickets {
				must.NoError(t, k.Wait(t.Context())[0].Err())
			}
		}
		must.Equalf(t, store.requests()-before, 60, "requests for 60 intervals of 20 topics")
		l.Kill()
	})
}

func TestTopicNameIsUnique(t *testing.T) {
	l := open(t, options(objstore.NewMemory()))
	var made atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			r := wait(t, l.Propose(state.Record{Kind: state.TopicCreate, Topic: record.NewID(), Name: "same", Partitions: 1}))
			switch err := r[0].Err(); {
			case err == nil:
				made.Add(1)
			case !errors.Is(err, state.ErrTopicExists):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if made.Load() != 1 {
		t.Fatalf("created %d times", made.Load())
	}
}
