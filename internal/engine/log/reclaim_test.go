package log_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/storetest"
)

// warm initializes process-wide state outside of any synctest bubble.
func warm(t *testing.T) {
	t.Helper()
	must.Get(state.DecodeSnapshot(state.EncodeSnapshot(state.Genesis(record.NewID(), 0))))(t)
}

// data counts the commit objects that hold batches.
func data(t testing.TB, s objstore.Store) (n int) {
	t.Helper()
	for _, key := range names(t, s, "s0000/wal/") {
		h := must.Get(record.DecodeHead(whole(t, s, key)[:record.HeadSize]))(t)
		if h.IndexCount > 0 {
			n++
		}
	}
	return n
}

func propose(t testing.TB, l *log.Log, r state.Record) {
	t.Helper()
	must.NoError(t, wait(t, l.Propose(r))[0].Err())
}

// silent lets an hour pass without any request.
func silent(t *testing.T, s *storetest.Counter) {
	t.Helper()
	before := s.Counts()
	time.Sleep(time.Hour)
	if n := s.Counts().Sub(before); n.Requests() != 0 {
		t.Fatalf("requests of an idle log at rest: %+v", n)
	}
}

// TestShortBudgetDelaysGarbage: garbage is not deleted while the budget is short, and is deleted later.
func TestShortBudgetDelaysGarbage(t *testing.T) {
	warm(t)
	synctest.Test(t, func(t *testing.T) {
		budget := &fixedBudget{}
		budget.short.Store(true)
		store := newHooked(objstore.NewMemory())
		o := options(store)
		o.Batch.Budget = budget
		l := open(t, o)
		id := topic(t, l, "a", 1)
		must.NoError(t, wait(t, l.Submit([]log.Append{batch(t, id, 0, "x")}))[0].Err())
		propose(t, l, state.Record{Kind: state.TopicTrim, Topic: id, Offset: 1})
		before := store.requests()
		time.Sleep(29 * time.Minute)
		check.Equalf(t, store.requests()-before, 0, "requests in 29 minutes")
		budget.short.Store(false)
		time.Sleep(30 * time.Minute)
		check.Equalf(t, data(t, store), 0, "objects are left")
		l.Kill()
	})
}

// TestIdleLogFreesSpace checks that objects freed by a trim or a deletion are deleted although the
// log is idle. It takes a few requests, and then there are none.
func TestIdleLogFreesSpace(t *testing.T) {
	for name, free := range map[string]func(t *testing.T, l *log.Log, h *history){
		"trim": func(t *testing.T, l *log.Log, h *history) { h.trim(t, l, h.next) },
		"delete": func(t *testing.T, l *log.Log, h *history) {
			propose(t, l, state.Record{Kind: state.TopicDelete, Topic: h.id})
		},
		"trims": func(t *testing.T, l *log.Log, h *history) {
			for start := h.start + 1; start <= h.next; start++ {
				h.trim(t, l, start)
				time.Sleep(time.Second)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			warm(t)
			synctest.Test(t, func(t *testing.T) {
				s := storetest.NewCounter(objstore.NewMemory())
				l := open(t, options(s))
				freed, kept := newHistory(topic(t, l, "freed", 1), 0), newHistory(topic(t, l, "kept", 1), 0)
				for i := range 20 {
					freed.append(t, l, fmt.Sprint(i))
				}
				kept.append(t, l, "kept")
				silent(t, s)
				free(t, l, freed)
				synctest.Wait() // the commit begins a comparison of the bucket with the state (rule R16)
				before := s.Counts()
				time.Sleep(10*time.Minute + time.Second)
				if n := s.Counts().Sub(before); n.Puts != 3 || n.Lists != 3 || n.Gets != 0 || n.Deletes != 1 {
					t.Errorf("it took %+v: want two snapshots and a slot, a page of each kind of names, a DELETE", n)
				}
				check.Equalf(t, data(t, s), 1, "objects with data remain")
				silent(t, s)
				kept.check(t, s, view(l))
				l.Kill()
			})
		})
	}
}

// TestNextLeaderFreesSpace checks that an idle leader deletes the garbage of its predecessor.
func TestNextLeaderFreesSpace(t *testing.T) {
	warm(t)
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewCounter(objstore.NewMemory())
		l := open(t, options(s))
		h := newHistory(topic(t, l, "a", 1), 0)
		for i := range 20 {
			h.append(t, l, fmt.Sprint(i))
		}
		h.trim(t, l, 19)
		time.Sleep(7 * time.Minute) // its one snapshot no longer shows the garbage
		must.Equalf(t, len(names(t, s, "s0000/snap/")), 1, "snapshots")
		l.Kill()
		l = open(t, options(s))
		before := s.Counts()
		time.Sleep(11 * time.Minute)
		if n := s.Counts().Sub(before); n.Requests() > 10 {
			t.Errorf("it took %+v", n)
		}
		check.Equalf(t, data(t, s), 1, "objects with data remain")
		silent(t, s)
		h.check(t, s, view(l))
		l.Kill()
	})
}

// TestBusyRetentionIsCheap checks that a log with constant writes and trims takes at most one
// snapshot in five minutes for them.
func TestBusyRetentionIsCheap(t *testing.T) {
	sebtest.Long(t, "TestPassIsBounded and TestCollection remain")
	warm(t)
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewCounter(objstore.NewMemory())
		l := open(t, options(s))
		h := newHistory(topic(t, l, "a", 1), 0)
		for i := range 2 * 3600 {
			h.append(t, l, "x")
			if i%60 == 59 {
				h.trim(t, l, h.next-60)
			}
			time.Sleep(time.Second)
		}
		n := s.Counts()
		slots := int64(h.next) + 120 + 1
		snapshots := n.Puts - slots - 3 // meta/cluster, the SEAL twice
		t.Logf("%d slots: %+v, %d snapshots", slots, n, snapshots)
		if snapshots > 24 || snapshots < 20 || n.Lists > 24*3+10 {
			t.Errorf("%d snapshots, %+v", snapshots, n)
		}
		if left := data(t, s); left > 60+10*60+60 {
			t.Errorf("%d objects with data remain", left)
		}
		l.Kill()
	})
}

// noDelete is a store that refuses DELETE.
type noDelete struct{ objstore.Store }

func (noDelete) Delete(context.Context, ...string) error {
	return fmt.Errorf("delete: %w", objstore.ErrRefused)
}

// TestFutileCollectionBacksOff checks that collections become rarer on a store that deletes
// nothing.
func TestFutileCollectionBacksOff(t *testing.T) {
	warm(t)
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewCounter(noDelete{objstore.NewMemory()})
		l := open(t, options(s))
		h := newHistory(topic(t, l, "a", 1), 0)
		h.append(t, l, "x")
		h.trim(t, l, 1)
		before := s.Counts()
		time.Sleep(24 * time.Hour)
		n := s.Counts().Sub(before)
		t.Logf("a day: %+v", n)
		if n.Deletes < 5 || n.Deletes > 12 || n.Puts != 3 {
			t.Errorf("in a day: %+v", n)
		}
		l.Kill()
	})
}

// TestSealsAreReadOnce checks that a leader reads each SEAL of earlier epochs only once, whatever
// it deletes.
func TestSealsAreReadOnce(t *testing.T) {
	const starts = 60
	warm(t)
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewCounter(objstore.NewMemory())
		var l *log.Log
		for range starts {
			if l != nil {
				l.Kill()
			}
			l = open(t, options(s))
		}
		h := newHistory(topic(t, l, "a", 1), 0)
		for pass, want := range []int64{starts - state.EpochsKept, 0, 0} {
			h.append(t, l, "x")
			h.trim(t, l, h.next)
			before := s.Counts()
			time.Sleep(time.Hour)
			if n := s.Counts().Sub(before); n.Gets > want || n.KeysDeleted == 0 {
				t.Errorf("pass %d: %+v, at most %d GETs", pass, n, want)
			}
		}
		checkSeals(t, s, view(l))
		if n := len(names(t, s, "s0000/wal/")); n > starts+5 {
			t.Errorf("%d commit objects remain", n)
		}
		l.Kill()
	})
}
