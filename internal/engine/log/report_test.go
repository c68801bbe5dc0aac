package log_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sebbroker/seb/internal/engine/cluster"
	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

func report(t *testing.T, l *log.Log) cluster.Report {
	t.Helper()
	r := must.Get(l.Report(t.Context()))(t)
	return r
}

// TestReport: a leader and its follower report their positions, and when they last saw a commit and an
// answer of the store. Time passes only while requests are under way.
func TestReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := objstore.NewMemory()
		store := &slow{Store: memory}
		o := standby(store)
		o.Core.Advertised, o.Batch.Wait = "http://a", 0
		leader := open(t, o)
		id := topic(t, leader, "a", 1)
		o = standby(memory)
		o.Core.Standby = true
		follower := open(t, o)
		began := time.Now()
		time.Sleep(10 * time.Second)
		store.set(100 * time.Millisecond)
		acked := make(chan error)
		go func() { acked <- appendOne(t, leader, id, "1") }()
		time.Sleep(30 * time.Millisecond)
		r := report(t, leader)
		if !r.Leads || !r.Loaded || r.Stands || r.InFlight != 1 || r.Oldest != 30*time.Millisecond || r.Pos != (state.Position{Epoch: 1, Slot: 1}) {
			t.Errorf("leader with a slot in flight: %+v", r)
		}
		if !r.Life.Equal(began) || !r.Verdict.Equal(began) || !r.Looked.Equal(began) {
			t.Errorf("leader with a slot in flight: life %v, verdict %v, looked %v, want %v", r.Life, r.Verdict, r.Looked, began)
		}
		must.NoError(t, <-acked)
		now := time.Now()
		r = report(t, leader)
		if r.InFlight != 0 || r.Oldest != 0 || r.Pos != (state.Position{Epoch: 1, Slot: 2}) || r.SealerURL != "http://a" || r.Level != state.LevelMax {
			t.Errorf("leader: %+v", r)
		}
		if !r.Life.Equal(now) || !r.Verdict.Equal(now) || !r.Looked.Equal(now.Add(-100*time.Millisecond)) {
			t.Errorf("leader: life %v, verdict %v, looked %v, want %v", r.Life, r.Verdict, r.Looked, now)
		}
		if !r.Foreign {
			t.Error("a SEAL without a run is that of a broker")
		}
		if f := report(t, follower); f.Leads || f.Stands || !f.Loaded || f.Pos != (state.Position{Epoch: 1, Slot: 1}) || !f.Life.Equal(began) || f.SealerURL != "http://a" {
			t.Errorf("follower: %+v", f)
		}
		must.NoError(t, follower.Confirm(t.Context()))
		f := report(t, follower)
		if f.Pos != r.Pos || f.Nonce != r.Nonce || f.PrevCRC != r.PrevCRC || !f.Committed.Equal(r.Committed) || !f.Life.Equal(now) || !f.Looked.IsZero() {
			t.Errorf("follower %+v, leader %+v", f, r)
		}
		store.set(0)
		must.NoError(t, follower.Close(t.Context()))
		check.ErrorIsf(t, check.Err(follower.Report(t.Context())), log.ErrClosed, "report of a closed log")
		leader.Kill()
	})
}

// TestReportOfAnAttempt: a follower reports that it stands until it leads, and a leader that another
// one has deposed reports that it follows.
func TestReportOfAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := objstore.NewMemory()
		leader := open(t, standby(memory))
		id := topic(t, leader, "a", 1)
		store := &slow{Store: memory}
		o := standby(store)
		o.Core.Standby = true
		next := open(t, o)
		store.set(100 * time.Millisecond)
		standing := make(chan error)
		go func() { standing <- next.Stand(t.Context()) }()
		time.Sleep(50 * time.Millisecond)
		if r := report(t, next); !r.Stands || r.Leads || !r.Loaded || r.Pos.Epoch != 1 {
			t.Errorf("report of an attempt: %+v", r)
		}
		must.NoError(t, <-standing)
		sealed := time.Now()
		if r := report(t, next); r.Stands || !r.Leads || r.Pos.Epoch != 2 || !r.Life.Equal(sealed) {
			t.Errorf("report after the attempt, at %v: %+v", sealed, r)
		}
		time.Sleep(time.Second)
		check.ErrorIsf(t, appendOne(t, leader, id, "1"), state.ErrOutcomeUnknown, "append to a deposed leader")
		synctest.Wait()
		if r := report(t, leader); r.Leads || !r.Loaded || r.Pos.Epoch != 2 || !r.Life.Equal(time.Now()) || !r.Looked.IsZero() {
			t.Errorf("report of a deposed leader at %v: %+v", time.Now(), r)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := leader.Report(ctx); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("report with a canceled context: %v", err)
		}
		leader.Kill()
		next.Kill()
	})
}
