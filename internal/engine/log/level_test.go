package log_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/forged"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/storetest"
)

func contentsOf(t *testing.T, store objstore.Store) map[string]uint32 {
	t.Helper()
	c := must.Get(storetest.Checksums(t.Context(), store))(t)
	return c
}

// TestNewerBucketIsRefused checks that a leader and a follower refuse it with one error and write
// nothing.
func TestNewerBucketIsRefused(t *testing.T) {
	type bucket = struct {
		Name  string
		Found func(context.Context, objstore.Store) error
	}
	buckets := append([]bucket{{"in its layout", forged.NewerLayout}}, forged.NewerBuckets...)
	for _, c := range buckets {
		for _, readOnly := range []bool{false, true} {
			t.Run(c.Name, func(t *testing.T) {
				store := newHooked(objstore.NewMemory())
				must.NoError(t, c.Found(t.Context(), store.Store))
				before := contentsOf(t, store.Store)
				o := options(store)
				o.Core.ReadOnly = readOnly
				_, err := log.Open(t.Context(), o)
				if !errors.Is(err, state.ErrNewer) || !strings.Contains(err.Error(), "newer") {
					t.Errorf("read-only %v: %v", readOnly, err)
				}
				if after := contentsOf(t, store.Store); !maps.Equal(before, after) || len(store.puts) > 0 {
					t.Errorf("read-only %v: %d PUTs; objects before %v, after %v", readOnly, len(store.puts), before, after)
				}
			})
		}
	}
}

// TestFollowerStopsAtUnknownLevel checks a follower at the end of the log when a newer program
// raises the bucket.
func TestFollowerStopsAtUnknownLevel(t *testing.T) {
	store := objstore.NewMemory()
	b := must.Get(forged.OldBucket(t.Context(), store))(t)
	o := options(store)
	o.Core.ReadOnly = true
	l := open(t, o)
	must.NoError(t, b.Raise(t.Context()))
	check.Error(t, l.Confirm(t.Context()), "the follower confirmed a log that it cannot read")
	<-l.Done()
	if s := l.Status(); s.Role != core.RoleStopped || !errors.Is(s.Err, state.ErrNewer) {
		t.Errorf("status %+v", s)
	}
}

// oldLog opens a log on a bucket at level 1 that it raises after a time.
func oldLog(t *testing.T, after time.Duration) (*log.Log, *hooked) {
	t.Helper()
	store := newHooked(objstore.NewMemory())
	must.Get(forged.OldBucket(t.Context(), store.Store))(t)
	o := options(store)
	o.Core.RaiseAfter = core.Duration(after)
	return open(t, o), store
}

func TestRaiseLevel(t *testing.T) {
	t.Run("by the first commit after the delay", func(t *testing.T) {
		l, store := oldLog(t, time.Nanosecond)
		idle := store.requests()
		if v := l.Level(); v.Now != state.LevelFirst || v.RaiseAt.IsZero() || time.Since(v.RaiseAt) < 0 || store.requests() != idle {
			t.Errorf("level %+v", v)
		}
		topic(t, l, "a", 1)
		if v := l.Level(); v.Now != state.LevelMax || !v.RaiseAt.IsZero() {
			t.Errorf("level %+v", v)
		}
	})
	t.Run("not before the delay", func(t *testing.T) {
		before := time.Now()
		l, _ := oldLog(t, 0)
		topic(t, l, "a", 1)
		v := l.Level()
		if first, last := before.Add(10*time.Minute), time.Now().Add(10*time.Minute); v.Now != state.LevelFirst || v.RaiseAt.Before(first) || v.RaiseAt.After(last) {
			t.Errorf("level %+v, want a raise between %s and %s", v, first, last)
		}
	})
	t.Run("on demand", func(t *testing.T) {
		l, _ := oldLog(t, -1)
		topic(t, l, "a", 1)
		if v := l.Level(); v.Now != state.LevelFirst || !v.RaiseAt.IsZero() {
			t.Errorf("level %+v", v)
		}
		must.NoError(t, wait(t, l.Propose(state.RaiseTo(state.LevelMax)))[0].Err())
		if v := l.Level(); v.Now != state.LevelMax {
			t.Errorf("level %+v", v)
		}
		check.ErrorIsf(t, wait(t, l.Propose(state.RaiseTo(state.LevelMax)))[0].Err(), state.ErrLevelKnown, "second raise")
	})
}
