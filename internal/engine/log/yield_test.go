package log_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/forged"
	"github.com/sebbroker/seb/test/must"
)

// gate is a store whose commit objects wait until they are released.
type gate struct {
	*hooked
	shut chan struct{} // closed by release
	sent chan string   // keys of the objects that wait
}

func newGate(s objstore.Store) *gate {
	return &gate{hooked: newHooked(s), shut: make(chan struct{}), sent: make(chan string, 100)}
}

// close lets the next commit objects wait. If a request is canceled its object is stored nevertheless.
func (g *gate) close() {
	g.set(func(_ context.Context, key string, body objstore.Body, _ func() error) error {
		if strings.Contains(key, "/wal/") {
			g.sent <- key
			<-g.shut
		}
		return g.Store.Put(context.Background(), key, body)
	})
}

// closeUntilCanceled lets the next commit objects wait. A canceled request stores nothing.
func (g *gate) closeUntilCanceled() {
	g.set(func(ctx context.Context, key string, _ objstore.Body, pass func() error) error {
		if strings.Contains(key, "/wal/") {
			g.sent <- key
			select {
			case <-g.shut:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return pass()
	})
}

func (g *gate) release() {
	g.set(nil)
	close(g.shut)
}

// results waits for tickets of one append each.
func results(t *testing.T, tickets ...*log.Ticket) (errs []error) {
	t.Helper()
	for _, k := range tickets {
		errs = append(errs, wait(t, k)[0].Err())
	}
	return errs
}

// settles waits until the owner has handled what was submitted.
func settles(t *testing.T, l *log.Log) {
	t.Helper()
	must.NoError(t, l.Alive(t.Context()))
}

// TestStepDown: a leader that steps down answers everything at once, follows, finds what was stored
// nevertheless, and leads again.
func TestStepDown(t *testing.T) {
	ctx := t.Context()
	store := newGate(objstore.NewMemory())
	o := standby(store)
	o.Core.Window, o.NoWait = 1, true
	changes := watched(&o)
	l := open(t, o)
	id := topic(t, l, "a", 1)
	store.close()
	sent := l.Submit([]log.Append{batch(t, id, 0, "1")})
	<-store.sent
	queued := l.Submit([]log.Append{batch(t, id, 0, "2")})
	role(t, changes, core.RoleLeader)
	must.NoError(t, l.StepDown(ctx, 0))
	if s := role(t, changes, core.RoleFenced); !errors.Is(s.Ended, log.ErrSteppedDown) || s.Epoch != 1 {
		t.Errorf("status %+v", s)
	}
	role(t, changes, core.RoleFollower)
	errs := results(t, sent, queued)
	if !errors.Is(errs[0], state.ErrOutcomeUnknown) || !errors.Is(errs[1], state.ErrNotLeader) {
		t.Errorf("the appends have %v; want unknown for the one that was sent, not leader for the other", errs)
	}
	check.ErrorIsf(t, appendOne(t, l, id, "3"), state.ErrNotLeader, "append after it")
	must.NoError(t, l.StepDown(ctx, 0))
	store.release()
	must.NoError(t, l.Confirm(ctx))
	for {
		if got := contents(t, l, store, id, 0); slices.Equal(got, []string{"1"}) {
			break
		} else if len(got) > 0 {
			t.Fatalf("the log has %q", got)
		}
		must.NoError(t, l.Confirm(ctx)) // the object that waited is on its way
	}
	must.NoError(t, l.Stand(ctx))
	must.NoError(t, l.StepDown(ctx, 1)) // it comes late: the log leads another epoch
	must.NoError(t, appendOne(t, l, id, "4"))
	check.EqualSlicesf(t, contents(t, l, store, id, 0), []string{"1", "4"}, "the log")
	must.NoError(t, l.Close(ctx))
	check.ErrorIsf(t, l.StepDown(ctx, 0), log.ErrClosed, "a closed log")
}

// TestStepDownIsRefused by a log that would end.
func TestStepDownIsRefused(t *testing.T) {
	l := open(t, options(objstore.NewMemory()))
	check.ErrorIsf(t, l.StepDown(t.Context(), 0), log.ErrNoStandby, "step down without Standby")
	topic(t, l, "a", 1)
}

// TestParkedLeader: appends wait, up to a limit. After Unpark an empty slot comes first.
func TestParkedLeader(t *testing.T) {
	ctx := t.Context()
	store := newGate(objstore.NewMemory())
	o := standby(store)
	o.NoWait = true
	o.QueueBytes = 300
	l := open(t, o)
	id := topic(t, l, "a", 1)
	store.close()
	first := l.Submit([]log.Append{batch(t, id, 0, "1")})
	<-store.sent
	r, err := l.Park(ctx, false)
	if err != nil || !r.Parked || r.InFlight != 1 || r.Pos != (state.Position{Epoch: 1, Slot: 1}) {
		t.Fatalf("park: %+v, %v", r, err)
	}
	late, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	check.ErrorIsf(t, check.Err(l.Park(late, true)), context.DeadlineExceeded, "drain while the store does not answer")
	store.release()
	r, err = l.Park(ctx, true)
	if err != nil || !r.Parked || r.InFlight != 0 || r.Pos != (state.Position{Epoch: 1, Slot: 2}) {
		t.Fatalf("drain: %+v, %v", r, err)
	}
	must.NoError(t, wait(t, first)[0].Err())
	var waiting []*log.Ticket
	var full int
	for i := range 10 {
		k := l.Submit([]log.Append{batch(t, id, 0, fmt.Sprint(i))})
		select {
		case <-k.Done():
			if full++; !errors.Is(wait(t, k)[0].Err(), log.ErrQueueFull) {
				t.Errorf("append %d: %v", i, wait(t, k)[0].Err())
			}
		default:
			waiting = append(waiting, k)
		}
	}
	settles(t, l)
	if len(waiting) < 2 || full == 0 || len(store.sent) > 0 {
		t.Fatalf("%d appends wait, %d did not fit, %d objects were sent", len(waiting), full, len(store.sent))
	}
	must.NoError(t, l.Confirm(ctx))
	l.Unpark()
	for _, err := range results(t, waiting...) {
		must.NoError(t, err)
	}
	slots := prefixes(t, store)
	for i, want := range []uint32{0, 1, 0, 1} { // entries of the index: the topic, an append, none, the others
		h := must.Get(record.DecodeHead(slots[i]))(t)
		if h.IndexCount != want {
			t.Errorf("slot %d has %d entries in its index, want %d", i, h.IndexCount, want)
		}
	}
	if got := contents(t, l, store, id, 0); len(got) != 1+len(waiting) {
		t.Errorf("the log has %q", got)
	}
	must.NoError(t, l.Close(ctx))
	check.ErrorIsf(t, check.Err(l.Park(ctx, false)), log.ErrClosed, "park of a closed log")
}

// TestParkedLeaderThatIsSealed: no append that waited is unknown.
func TestParkedLeaderThatIsSealed(t *testing.T) {
	ctx := t.Context()
	store := objstore.NewMemory()
	l := open(t, standby(store))
	id := topic(t, l, "a", 1)
	o := standby(store)
	o.Core.Standby = true
	next := open(t, o)
	must.Get(l.Park(ctx, true))(t)
	waiting := []*log.Ticket{l.Submit([]log.Append{batch(t, id, 0, "1")}), l.Submit([]log.Append{batch(t, id, 0, "2")})}
	must.NoError(t, next.Stand(ctx))
	l.Unpark()
	for _, err := range results(t, waiting...) {
		check.ErrorIsf(t, err, state.ErrFenced, "an append that waited")
	}
	must.NoError(t, appendOne(t, next, id, "3"))
	check.EqualSlicesf(t, contents(t, next, store, id, 0), []string{"3"}, "the log")
	check.ErrorIsf(t, check.Err(l.Park(ctx, true)), state.ErrNotLeader, "park of a follower")
	l.Unpark()
	l.Show(time.Second, time.Second)
	settles(t, l)
}

// TestParkEnds: what ends the hand-over answers the call of Park, and the appends that wait.
func TestParkEnds(t *testing.T) {
	for name, c := range map[string]struct {
		end          func(ctx context.Context, l *log.Log) error
		park, append error // nil: the append is stored
	}{
		"step down": {func(ctx context.Context, l *log.Log) error { return l.StepDown(ctx, 0) }, state.ErrNotLeader, state.ErrNotLeader},
		"unpark":    {func(_ context.Context, l *log.Log) error { l.Unpark(); return nil }, log.ErrUnparked, nil},
		"close":     {func(ctx context.Context, l *log.Log) error { return l.Close(ctx) }, log.ErrUnparked, nil},
		"kill":      {func(_ context.Context, l *log.Log) error { l.Kill(); return nil }, log.ErrClosed, log.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			store := newGate(objstore.NewMemory())
			o := standby(store)
			o.NoWait = true
			l := open(t, o)
			id := topic(t, l, "a", 1)
			store.closeUntilCanceled()
			sent := l.Submit([]log.Append{batch(t, id, 0, "1")})
			<-store.sent
			parked := make(chan error)
			go func() {
				_, err := l.Park(ctx, true)
				parked <- err
			}()
			for r := report(t, l); !r.Parked; r = report(t, l) {
			}
			queued := l.Submit([]log.Append{batch(t, id, 0, "2")})
			settles(t, l)
			ended := make(chan error)
			go func() { ended <- c.end(ctx, l) }()
			check.ErrorIsf(t, <-parked, c.park, "park")
			store.release()
			must.NoError(t, <-ended)
			check.ErrorIsf(t, wait(t, queued)[0].Err(), c.append, "the append that waited")
			wait(t, sent)
		})
	}
}

// TestParkBeforeUnpark: a call of Unpark ends what began before it, whenever that is waited for.
func TestParkBeforeUnpark(t *testing.T) {
	l := open(t, standby(objstore.NewMemory()))
	id := topic(t, l, "a", 1)
	waits := l.BeginPark(true)
	l.Unpark()
	must.NoError(t, appendOne(t, l, id, "1"))
	if _, err := waits(t.Context()); err != nil && !errors.Is(err, log.ErrUnparked) {
		t.Error(err)
	}
}

// TestCloseWhileParked: a log that nothing waits for makes no request at its end.
func TestCloseWhileParked(t *testing.T) {
	store := newHooked(objstore.NewMemory())
	l := open(t, standby(store))
	must.Get(l.Park(t.Context(), true))(t)
	before := store.requests()
	must.NoError(t, l.Close(t.Context()))
	check.Equalf(t, store.requests()-before, 0, "requests")
}

// TestShowLife: a leader that shows life commits an empty slot in each pace, and promises the next one.
func TestShowLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slow{Store: objstore.NewMemory()}
		o := standby(store)
		o.Batch.Wait = time.Hour // empty slots do not wait for others
		l := open(t, o)
		store.set(0)
		time.Sleep(10 * time.Minute)
		check.Equalf(t, store.set(0), 0, "requests of an idle log")
		began := report(t, l).Pos.Slot
		want := func(what string, slots uint64, promise time.Duration) {
			t.Helper()
			synctest.Wait()
			r := report(t, l)
			if r.Pos.Slot-began != slots || r.Promise != promise {
				t.Errorf("%s: %d slots, promise %v; want %d, %v", what, r.Pos.Slot-began, r.Promise, slots, promise)
			}
			if n := store.set(0); uint64(n) != slots {
				t.Errorf("%s: %d requests for %d slots", what, n, slots)
			}
			began = r.Pos.Slot
		}
		l.Show(time.Second, time.Second)
		want("at once, because it was idle", 1, time.Second)
		time.Sleep(10 * time.Second)
		want("10 s", 10, time.Second)
		l.Show(time.Second, time.Minute)
		time.Sleep(time.Second)
		want("a slower pace is promised", 1, time.Minute)
		l.Show(time.Minute, time.Minute)
		time.Sleep(10 * time.Minute)
		want("10 min", 10, time.Minute)
		must.Get(l.Park(t.Context(), true))(t)
		time.Sleep(10 * time.Minute)
		want("parked", 0, time.Minute)
		l.Unpark()
		want("unparked", 1, time.Minute)
		l.Show(0, 0)
		time.Sleep(24 * time.Hour)
		want("a day without a pace", 0, time.Minute)
		must.NoError(t, l.StepDown(t.Context(), 0))
		l.Kill()
	})
}

// TestTheLastSlotOfALeader: a leader that shows life says with its last slot that it ends, after all
// records. Its follower may then succeed it at once.
func TestTheLastSlotOfALeader(t *testing.T) {
	ctx := t.Context()
	store := objstore.NewMemory()
	l := open(t, standby(store))
	id := topic(t, l, "a", 1)
	o := standby(store)
	o.Core.Standby = true
	next := open(t, o)
	l.Show(time.Hour, time.Hour)
	waiting := l.Submit([]log.Append{batch(t, id, 0, "1")})
	must.NoError(t, l.Close(ctx))
	if errs := results(t, waiting); errs[0] != nil {
		t.Error(errs[0])
	}
	must.NoError(t, next.Confirm(ctx))
	if r := report(t, next); !r.Ends {
		t.Errorf("the newest slot promises the next one within %v", r.Promise)
	}
	must.NoError(t, next.Succeed(ctx))
	if r := report(t, next); r.Ends {
		t.Error("a new epoch has ended at its begin")
	}
	check.EqualSlicesf(t, contents(t, next, store, id, 0), []string{"1"}, "the log")
}

// TestALastSlotThatIsNotStored: the end of a leader waits two seconds for it.
func TestALastSlotThatIsNotStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newGate(objstore.NewMemory())
		l := open(t, standby(store))
		store.closeUntilCanceled()
		l.Show(time.Hour, time.Hour)
		synctest.Wait()
		began := time.Now()
		must.NoError(t, l.Close(t.Context()))
		check.Equalf(t, time.Since(began), 2*time.Second, "the end took")
	})
}

// TestFedSlots: a leader hands its committed slots on while that is wanted, as they are in the bucket,
// with and without a journal.
func TestFedSlots(t *testing.T) {
	for name, store := range map[string]objstore.Store{"objects": objstore.NewMemory(), "journal": disk(t, t.TempDir())} {
		t.Run(name, func(t *testing.T) {
			next, advanced := (*log.Log)(nil), (<-chan struct{})(nil)
			var mu sync.Mutex
			var fed [][]byte
			o := options(store)
			o.Hooks.Fed = func(pos state.Position, prefix []byte) {
				mu.Lock()
				defer mu.Unlock()
				fed = append(fed, prefix)
				if h, err := record.DecodeHead(prefix); err != nil || pos != (state.Position{Epoch: h.Epoch, Slot: h.Slot}) {
					t.Errorf("fed %+v at %+v, %v", h, pos, err)
				}
			}
			leader := open(t, o)
			must.Equalf(t, leader.Status().Journaled, name == "journal", "journal")
			next, advanced = follower(t, store)
			id := topic(t, leader, "a", 2)
			leader.Feeds(true)
			r := wait(t, leader.Submit([]log.Append{batch(t, id, 0, "1"), batch(t, id, 1, "2")}))
			must.NoError(t, r[0].Err())
			must.NoError(t, appendOne(t, leader, id, "3"))
			settles(t, leader)
			leader.Feeds(false)
			must.NoError(t, appendOne(t, leader, id, "4"))
			settles(t, leader)
			if stored := prefixes(t, store); len(fed) != 2 || !slices.EqualFunc(fed, stored[1:3], bytes.Equal) {
				t.Errorf("%d slots were fed, or others than stored", len(fed))
			}
			must.NoError(t, next.Confirm(t.Context()))
			for len(advanced) > 0 {
				<-advanced
			}
			leader.Feeds(true)
			must.NoError(t, appendOne(t, leader, id, "5"))
			settles(t, leader)
			must.NoError(t, next.Feed(fed[2]))
			<-advanced
			check.EqualSlicesf(t, contents(t, next, store, id, 0), []string{"1", "3", "4", "5"}, "the follower")
			must.NoError(t, next.Close(t.Context()))
			must.NoError(t, leader.Close(t.Context()))
		})
	}
	l := open(t, options(objstore.NewMemory()))
	l.Feeds(true) // without a hook
	topic(t, l, "a", 1)
}

// TestRaiseMax: the bucket is raised as far as the option allows.
func TestRaiseMax(t *testing.T) {
	store := objstore.NewMemory()
	must.Get(forged.OldBucket(t.Context(), store))(t)
	o := options(store)
	o.Core.RaiseAfter = 1
	var allowed uint32 = state.LevelFirst
	o.RaiseMax = func() uint32 { return allowed }
	l := open(t, o)
	for i, c := range []struct{ allowed, want uint32 }{
		{0, state.LevelFirst}, {state.LevelFirst, state.LevelFirst}, {state.LevelSecrets, state.LevelSecrets}, {state.LevelAccess, state.LevelSecrets}, {99, state.LevelMax},
	} {
		allowed = c.allowed
		topic(t, l, fmt.Sprint(i), 1)
		settles(t, l)
		if v := l.Level(); v.Now != c.want || v.Max != state.LevelMax || v.Allowed != min(c.allowed, state.LevelMax) || !v.RaiseAt.IsZero() {
			t.Errorf("level %+v with %d allowed, want %d", v, c.allowed, c.want)
		}
	}
}

// TestTermsOfOneJournal: a broker with a journal steps down and leads again, while appends are on
// their way. Its SEAL lies in the folder of its own journal.
func TestTermsOfOneJournal(t *testing.T) {
	ctx := t.Context()
	store := disk(t, t.TempDir())
	o := standby(store)
	o.NoWait = true
	l := open(t, o)
	id := topic(t, l, "a", 1)
	var acked []string
	for round := range 20 {
		var values []string
		var tickets []*log.Ticket
		for i := range 10 {
			values = append(values, fmt.Sprintf("%d-%d", round, i))
			tickets = append(tickets, l.Submit([]log.Append{batch(t, id, 0, values[i])}))
		}
		if round%2 == 0 {
			must.Get(l.Park(ctx, false))(t)
		}
		must.NoError(t, l.StepDown(ctx, 0))
		for i, err := range results(t, tickets...) {
			switch {
			case err == nil:
				acked = append(acked, values[i])
			case !errors.Is(err, state.ErrOutcomeUnknown) && !errors.Is(err, state.ErrNotLeader):
				t.Fatalf("round %d: %v", round, err)
			}
		}
		for err := log.ErrOvertaken; err != nil; {
			must.NoError(t, l.Confirm(ctx))
			if err = l.Stand(ctx); err != nil && !errors.Is(err, log.ErrOvertaken) {
				t.Fatalf("round %d: %v", round, err)
			}
		}
		if s := l.Status(); !s.Journaled {
			t.Fatalf("round %d: %+v", round, s)
		}
		must.NoError(t, appendOne(t, l, id, fmt.Sprint(round)))
		acked = append(acked, fmt.Sprint(round))
	}
	got := contents(t, l, store, id, 0)
	at := 0
	for _, v := range got { // unknown ones may be in between
		if at < len(acked) && v == acked[at] {
			at++
		}
	}
	check.Equalf(t, at, len(acked), "number of acknowledged records %q in order among %q", acked, got)
	must.NoError(t, l.Close(ctx))
}

// TestReportOfALogThatStepsDown: a question that is asked before the log follows is answered as by a
// follower.
func TestReportOfALogThatStepsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := standby(objstore.NewMemory())
		blocks := make(chan struct{})
		o.Hooks.Committed = func(*log.Committed) { <-blocks }
		l := open(t, o)
		go l.Propose(state.Record{Kind: state.TopicCreate, Topic: record.ID{1}, Name: "a", Partitions: 1})
		time.Sleep(time.Second)
		down, told := make(chan error, 1), make(chan error, 1)
		go func() { down <- l.StepDown(t.Context(), 0) }()
		synctest.Wait()
		go func() {
			r, err := l.Report(t.Context())
			if err == nil && (r.Leads || !r.Loaded || r.Pos != (state.Position{Epoch: 1, Slot: 1})) {
				err = fmt.Errorf("report %+v", r)
			}
			told <- err
		}()
		synctest.Wait()
		close(blocks)
		must.NoError(t, <-down)
		must.NoError(t, <-told)
		l.Kill()
	})
}
