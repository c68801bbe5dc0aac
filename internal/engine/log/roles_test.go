package log_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// standby returns the options of a log that follows after it was fenced.
func standby(s objstore.Store) log.Options {
	o := options(s)
	o.Standby = true
	return o
}

// role waits until a log has a role.
func role(t *testing.T, changes <-chan log.Status, want core.Role) log.Status {
	t.Helper()
	late := time.After(sebtest.Limit)
	for {
		select {
		case s := <-changes:
			if s.Role == want {
				return s
			}
		case <-late:
			t.Fatalf("the log has not become %v", want)
		}
	}
}

// watched lets a channel receive the changes of the role.
func watched(o *log.Options) <-chan log.Status {
	changes := make(chan log.Status, 1000)
	o.Hooks.Role = func(s log.Status) { changes <- s }
	return changes
}

func appendOne(t *testing.T, l *log.Log, id record.ID, value string) error {
	t.Helper()
	return wait(t, l.Submit([]log.Append{batch(t, id, 0, value)}))[0].Err()
}

// TestLogsTakeTurns lets two logs take over from each other. A fenced log follows and leads again, in
// the same process, and leaves nothing behind: goroutines (TestMain), reserved memory, open files.
func TestLogsTakeTurns(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) (a, b objstore.Store){
		"memory": func(*testing.T) (a, b objstore.Store) {
			s := objstore.NewMemory()
			return s, s
		},
		"disk": func(t *testing.T) (a, b objstore.Store) {
			dir := t.TempDir()
			return disk(t, dir), disk(t, dir)
		},
	} {
		t.Run(name, func(t *testing.T) { takeTurns(t, name == "disk", open) })
	}
}

func disk(t *testing.T, dir string) objstore.Store {
	t.Helper()
	s := must.Get(objstore.OpenDisk(dir, objstore.DiskOptions{NoSync: true}))(t)
	t.Cleanup(func() { must.NoError(t, s.Close()) })
	return s
}

func takeTurns(t *testing.T, journal bool, stores func(t *testing.T) (a, b objstore.Store)) {
	filled, rounds := sebtest.Runs(70, 19), sebtest.Runs(90, 20) // a disk keeps a bounded number of files open: after filled
	ctx := t.Context()
	var logs [2]*log.Log
	var changes [2]<-chan log.Status
	var s [2]objstore.Store
	s[0], s[1] = stores(t)
	for i := range logs {
		o := standby(s[i])
		o.Core.Standby = i == 1
		o.Core.SnapshotSlots = 7
		changes[i] = watched(&o)
		logs[i] = open(t, o)
	}
	id := topic(t, logs[0], "a", 1)
	var files int
	var took []time.Duration
	for round := range rounds {
		leader, next := logs[round%2], logs[(round+1)%2]
		must.NoError(t, appendOne(t, leader, id, fmt.Sprint(round)))
		must.ErrorIsf(t, appendOne(t, next, id, "x"), state.ErrNotLeader, "round %d: append to a follower", round)
		must.NoError(t, next.Confirm(ctx))
		began := time.Now()
		must.NoError(t, next.Stand(ctx))
		took = append(took, time.Since(began))
		must.Equalf(t, role(t, changes[(round+1)%2], core.RoleLeader).Journaled, journal, "round %d: journal", round)
		err := appendOne(t, leader, id, "y")
		must.ErrorIsf(t, err, state.ErrOutcomeUnknown, "round %d: append to a deposed leader", round)
		role(t, changes[round%2], core.RoleFollower)
		must.Equalf(t, len(contents(t, next, s[0], id, 0)), round+1, "round %d: records", round)
		if round == filled {
			files = openFiles(t)
		}
	}
	slices.Sort(took)
	t.Logf("%d takeovers: median %v, longest %v", rounds, took[rounds/2], took[rounds-1])
	if now := openFiles(t); now > files+4 { // a journal prepares its next file
		t.Errorf("%d files are open after %d rounds, %d after %d", now, rounds, files, filled)
	}
	for _, l := range logs {
		select {
		case <-l.Done():
			t.Error("a log that was fenced has ended")
		default:
		}
		must.NoError(t, l.Close(ctx))
	}
}

// openFiles is the number of open files of the process; 0 where it is not known.
func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(entries)
}

// slow is a store whose requests all take as long, in virtual time.
type slow struct {
	objstore.Store
	mu    sync.Mutex
	takes time.Duration
	count int
	until time.Time // later requests are not counted; zero: all are
}

func (s *slow) request() {
	s.mu.Lock()
	if s.until.IsZero() || time.Now().Before(s.until) {
		s.count++
	}
	takes := s.takes
	s.mu.Unlock()
	time.Sleep(takes)
}

func (s *slow) set(takes time.Duration) (count int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	count, s.takes, s.count = s.count, takes, 0
	return count
}

func (s *slow) Put(ctx context.Context, key string, body objstore.Body) error {
	s.request()
	return s.Store.Put(ctx, key, body)
}

func (s *slow) Get(ctx context.Context, key string, r objstore.Range) (objstore.Object, error) {
	s.request()
	return s.Store.Get(ctx, key, r)
}

func (s *slow) List(ctx context.Context, o objstore.ListOptions) ([]objstore.Entry, bool, error) {
	s.request()
	return s.Store.List(ctx, o)
}

// TestRequestsAtOnce: a walk that may read further ahead has at most 40 requests at a time.
func TestRequestsAtOnce(t *testing.T) {
	warm(t)
	synctest.Test(t, func(t *testing.T) {
		memory := objstore.NewMemory()
		leader := open(t, options(memory))
		id := topic(t, leader, "a", 1)
		for range 300 {
			must.NoError(t, appendOne(t, leader, id, "v"))
		}
		leader.Kill()
		store := newHooked(memory)
		var running, most atomic.Int64
		store.onGet = func(context.Context, string, objstore.Range) error {
			if n := running.Add(1); n > most.Load() {
				most.Store(n)
			}
			time.Sleep(time.Millisecond) // the other requests of the bubble begin meanwhile
			running.Add(-1)
			return nil
		}
		o := options(store)
		o.Core.ReadAhead = 200
		next := open(t, o)
		check.Equalf(t, len(contents(t, next, memory, id, 0)), 300, "records")
		check.Equalf(t, most.Load(), 40, "requests at a time")
		next.Kill()
	})
}

// TestWarmTakeover measures a takeover by a follower, after a thousand slots and several snapshots of
// the leader: three round trips, and nine requests if the leader fed the newest slots. A leader that
// has ended may leave slots that it has not fed: that needs requests, but no round trip. Appends wait
// for the takeover.
func TestWarmTakeover(t *testing.T) {
	for name, c := range map[string]takeover{"read": {requests: 5}, "fed": {fed: true, requests: 9}, "left": {fed: true, left: 3, requests: 16}} {
		t.Run(name, func(t *testing.T) {
			warm(t)
			synctest.Test(t, c.measure)
		})
	}
}

type takeover struct {
	fed      bool
	left     int // slots of a leader that has ended, which the follower does not have
	requests int // at most
}

func (c takeover) measure(t *testing.T) {
	memory := objstore.NewMemory()
	o := standby(memory)
	o.Core.SnapshotSlots = 300
	leader := open(t, o)
	id := topic(t, leader, "a", 1)
	store := &slow{Store: memory}
	o = standby(store)
	o.Core.Standby, o.Batch.Wait = true, 0
	next := open(t, o)
	for range 1000 {
		must.NoError(t, appendOne(t, leader, id, "v"))
	}
	if c.fed {
		for _, slot := range prefixes(t, memory) {
			must.NoError(t, next.Feed(slot))
		}
	}
	must.NoError(t, next.Confirm(t.Context()))
	synctest.Wait() // for requests that read ahead of the end
	stand := next.Stand
	for range c.left {
		must.NoError(t, appendOne(t, leader, id, "v"))
		stand = next.Succeed
	}
	store.set(100 * time.Millisecond)
	began := time.Now()
	store.until = began.Add(300 * time.Millisecond) // a leader lists garbage
	waiting := make(chan error)
	standing := make(chan error)
	go func() { standing <- stand(t.Context()) }()
	synctest.Wait()
	go func() { waiting <- appendOne(t, next, id, "w") }()
	must.NoError(t, <-standing)
	took := time.Since(began)
	check.Equalf(t, took, 300*time.Millisecond, "the takeover took")
	must.NoError(t, <-waiting)
	if n := store.set(0); n > c.requests {
		t.Errorf("the takeover took %d requests, want %d", n, c.requests)
	}
	check.Equalf(t, len(contents(t, next, memory, id, 0)), 1001+c.left, "records")
	leader.Kill()
	next.Kill()
}

// TestStandInVain: a log that does not know all slots does not take over, and continues to follow.
func TestStandInVain(t *testing.T) {
	ctx := t.Context()
	store := objstore.NewMemory()
	leader := open(t, options(store))
	id := topic(t, leader, "a", 1)
	o := standby(store)
	o.Core.Standby = true
	follower := open(t, o)
	must.NoError(t, appendOne(t, leader, id, "1"))
	must.ErrorIsf(t, follower.Stand(ctx), log.ErrOvertaken, "stand behind the end")
	must.NoError(t, appendOne(t, leader, id, "2"))
	must.NoError(t, follower.Confirm(ctx))
	must.Equalf(t, follower.Status().Role, core.RoleFollower, "role")
	if got := len(contents(t, follower, store, id, 0)); got != 2 {
		t.Fatalf("the follower has %d records", got)
	}
	check.NoErrorf(t, leader.Stand(ctx), "stand of a leader")
	o = options(store)
	o.Core.ReadOnly = true
	check.ErrorIsf(t, open(t, o).Stand(ctx), state.ErrReadOnly, "stand of a read-only log")
	must.NoError(t, follower.Close(ctx))
	check.ErrorIsf(t, follower.Stand(ctx), log.ErrClosed, "stand of a closed log")
}

// TestStandTogether: of followers that stand at the same time one leads, again and again.
func TestStandTogether(t *testing.T) {
	ctx := t.Context()
	store := objstore.NewMemory()
	first := open(t, options(store))
	id := topic(t, first, "a", 1)
	var logs [4]*log.Log
	for i := range logs {
		o := standby(store)
		o.Core.Standby = true
		logs[i] = open(t, o)
	}
	acked := 0
	for range 20 {
		errs := make([]error, len(logs))
		var wg sync.WaitGroup
		for i, l := range logs {
			wg.Go(func() {
				if err := l.Confirm(ctx); err != nil && !errors.Is(err, state.ErrFenced) {
					t.Error(err)
				}
				errs[i] = l.Stand(ctx)
			})
		}
		wg.Wait()
		for i, err := range errs {
			switch {
			case errors.Is(err, log.ErrOvertaken):
			case err != nil:
				t.Fatalf("stand: %v", err)
			case appendOne(t, logs[i], id, fmt.Sprint(acked)) == nil:
				acked++
			}
		}
	}
	must.NoError(t, logs[0].Confirm(ctx))
	if got := len(contents(t, logs[0], store, id, 0)); got != acked || acked == 0 {
		t.Errorf("%d records, %d were acknowledged", got, acked)
	}
}

// TestFollowerHasTheEpochOfTheLeader: the status of a read-only log changes with the leader.
func TestFollowerHasTheEpochOfTheLeader(t *testing.T) {
	store := objstore.NewMemory()
	open(t, options(store))
	o := options(store)
	o.Core.ReadOnly = true
	follower := open(t, o)
	next := open(t, options(store))
	must.NoError(t, follower.Confirm(t.Context()))
	if got, want := follower.Status().Epoch, next.Status().Epoch; got != want {
		t.Errorf("the follower is in epoch %d, the leader in %d", got, want)
	}
}

// TestEmptyBucket: followers of a bucket without a log wait, with a request each second, until one of
// them stands. A read-only log refuses the bucket.
func TestEmptyBucket(t *testing.T) {
	warm(t)
	synctest.Test(t, func(t *testing.T) {
		memory := objstore.NewMemory()
		o := options(memory)
		o.Core.ReadOnly = true
		check.ErrorIsf(t, check.Err(log.Open(t.Context(), o)), core.ErrNoLog, "read-only log")
		var logs [3]*log.Log
		stores := [3]*slow{}
		for i := range logs {
			stores[i] = &slow{Store: memory}
			o := standby(stores[i])
			o.Core.Standby = true
			logs[i] = open(t, o)
			stores[i].set(0)
		}
		time.Sleep(10*time.Second + time.Millisecond)
		check.Equalf(t, stores[0].set(0), 10, "requests in 10 seconds")
		if r := report(t, logs[0]); !r.Loaded || r.Leads || r.Stands || r.Pos != (state.Position{}) {
			t.Errorf("report: %+v", r)
		}
		check.ErrorIsf(t, appendOne(t, logs[0], record.NewID(), "v"), state.ErrNotLeader, "append")
		confirmed := make(chan error, 1)
		go func() { confirmed <- logs[2].Confirm(t.Context()) }()
		errs := make(chan error)
		for _, l := range logs[:2] {
			go func() { errs <- l.Stand(t.Context()) }()
		}
		if a, b := <-errs, <-errs; (a == nil) == (b == nil) || !errors.Is(errors.Join(a, b), log.ErrOvertaken) {
			t.Fatalf("stand: %v, %v", a, b)
		}
		must.NoError(t, <-confirmed)
		time.Sleep(time.Hour)
		for i, s := range stores {
			s.set(0)
			check.Equalf(t, logs[i].Status().Epoch, 1, "log %d: %+v", i, logs[i].Status())
		}
		time.Sleep(time.Hour)
		for i, s := range stores {
			if n := s.set(0); n != 0 {
				t.Errorf("log %d made %d requests in an idle hour", i, n)
			}
		}
		for _, l := range logs {
			l.Kill()
		}
	})
}

// TestStandAfterStepDown: a log whose own SEAL is the newest, and which does not lead, stands at once.
// Slots that were in flight when it stepped down are in the log or never will be.
func TestStandAfterStepDown(t *testing.T) {
	for name, store := range map[string]func(t *testing.T) objstore.Store{
		"memory": func(*testing.T) objstore.Store { return objstore.NewMemory() },
		"disk":   func(t *testing.T) objstore.Store { return disk(t, t.TempDir()) },
	} {
		t.Run(name, func(t *testing.T) { standAfterStepDown(t, store(t)) })
	}
}

func standAfterStepDown(t *testing.T, s objstore.Store) {
	const rounds = 8
	o := standby(s)
	o.Core.Run = state.Run{Node: record.ID{1}, ID: record.ID{2}}
	changes := watched(&o)
	l := open(t, o)
	id := topic(t, l, "a", 1)
	role(t, changes, core.RoleLeader)
	must.NoError(t, appendOne(t, l, id, "first"))
	acked := 1
	for range rounds {
		var flying []*log.Ticket
		for i := range 3 {
			flying = append(flying, l.Submit([]log.Append{batch(t, id, 0, fmt.Sprint(i))}))
		}
		must.NoError(t, l.StepDown(t.Context(), 0))
		role(t, changes, core.RoleFollower)
		must.NoError(t, l.Confirm(t.Context()))
		if r := report(t, l); r.Leads || r.Sealer.ID != o.Core.Run.ID {
			t.Fatalf("report after the end of the leadership: %+v", r)
		}
		must.NoError(t, l.Stand(t.Context()))
		role(t, changes, core.RoleLeader)
		for _, f := range flying {
			if wait(t, f)[0].Err() == nil {
				acked++
			}
		}
		must.NoError(t, appendOne(t, l, id, "v"))
		acked++
	}
	got := contents(t, l, s, id, 0)
	if len(got) < acked || len(got) > acked+3*rounds {
		t.Errorf("%d records, %d were acknowledged", len(got), acked)
	}
	must.NoError(t, l.Close(t.Context()))
	check.EqualSlicesf(t, contents(t, open(t, options(s)), s, id, 0), got, "after a start the log")
}
