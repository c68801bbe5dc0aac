package fsck_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/budget"
	"github.com/sebbroker/seb/internal/fsck"
	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/internal/objstore"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// gated is a store whose GETs wait for the gate, or for the end of their context.
type gated struct {
	objstore.Store
	gate chan struct{}
}

func (g *gated) Get(ctx context.Context, key string, r objstore.Range) (objstore.Object, error) {
	select {
	case <-g.gate:
		return g.Store.Get(ctx, key, r)
	case <-ctx.Done():
		return objstore.Object{}, context.Cause(ctx)
	}
}

func newJob(t *testing.T, s objstore.Store, limit int64) (*fsck.Job, *budget.Class) {
	t.Helper()
	memory := budget.New(limit).Class(budget.Fetch)
	j := fsck.NewJob(fsck.JobOptions{Store: s, Memory: memory, Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() {
		j.Close()
		check.Equalf(t, memory.Used(), 0, "bytes are still reserved")
	})
	return j, memory
}

// jobEnded waits for the end of the check.
func jobEnded(t *testing.T, j *fsck.Job) (p fsck.Progress) {
	t.Helper()
	sebtest.Eventually(t, "the check has ended", func() bool {
		p = j.Progress()
		return p.Status != fsck.Running
	})
	return p
}

func TestJobFindsDamageBesideABroker(t *testing.T) {
	s := objstore.NewMemory()
	records := live(t, s, 1000)
	j, _ := newJob(t, s, 64<<20)
	if p := j.Progress(); p.Status != fsck.Idle || !p.Started.IsZero() {
		t.Errorf("%+v", p)
	}
	b := open(t, options(s, 1000))
	for _, want := range []int{0, 1} {
		must.NoError(t, j.Start(state.Memory{}))
		p := jobEnded(t, j)
		if p.Status != fsck.Done || p.Err != nil || p.Damages != want || p.Report.Damages != want || p.Report.Records != records || p.Ended.Before(p.Started) {
			t.Errorf("%+v", p)
		}
		if p.Listed.Objects < 20 || p.Checked.Objects == 0 || p.Checked.Bytes == 0 || p.Checked.Objects > p.Listed.Objects+2 {
			t.Errorf("listed %+v, checked %+v", p.Listed, p.Checked)
		}
		if want > 0 && (p.Kinds["damage: corrupt batches"] != 1 || len(p.Findings) == 0 || len(p.Findings[len(p.Findings)-1].Lost) == 0) {
			t.Errorf("%+v", p)
		}
		all := withData(t, s)
		change(t, s, all[len(all)-1], flip(-1))
	}
	closeBroker(t, b)
}

func TestJobIsCancelled(t *testing.T) {
	s := &gated{objstore.NewMemory(), make(chan struct{})}
	live(t, s.Store, 1000)
	j, memory := newJob(t, s, 64<<20)
	if err := j.Cancel(t.Context()); err != nil || j.Progress().Status != fsck.Idle {
		t.Errorf("%v, %+v", err, j.Progress())
	}
	must.NoError(t, j.Start(state.Memory{Ranges: 10 * state.RangeMemory}))
	sebtest.Eventually(t, "the bucket is listed", func() bool { return j.Progress().Listed.Objects > 0 })
	if n := memory.Used(); n < 1<<20 {
		t.Errorf("%d bytes are reserved", n)
	}
	if err := j.Start(state.Memory{}); !errors.Is(err, fsck.ErrRunning) || !strings.Contains(err.Error(), "since 20") {
		t.Errorf("a second one: %v", err)
	}
	must.NoError(t, j.Cancel(t.Context()))
	if p := j.Progress(); p.Status != fsck.Cancelled || p.Err != nil || p.Ended.IsZero() || p.Listed.Objects == 0 || memory.Used() != 0 {
		t.Errorf("%+v, %d bytes", p, memory.Used())
	}
	must.NoError(t, j.Start(state.Memory{}))
	j.Close()
	if p := j.Progress(); p.Status != fsck.Cancelled {
		t.Errorf("after Close: %+v", p)
	}
	check.ErrorIsf(t, j.Start(state.Memory{}), fsck.ErrClosed, "after Close")
}

// TestJobStaysWithinItsMemory: a check that would need more is refused, and one that turns out to
// need more fails. Both name the limit.
func TestJobStaysWithinItsMemory(t *testing.T) {
	s := objstore.NewMemory()
	live(t, s, 1000)
	j, memory := newJob(t, s, budget.LimitMin+budget.LimitMin/16)
	var over *fsck.MemoryError
	if err := j.Start(state.Memory{Ranges: 10_000 * state.RangeMemory}); !errors.As(err, &over) || over.Max != memory.Limit()/2 || !strings.Contains(err.Error(), "raise --memory-limit, or run seb fsck") {
		t.Errorf("%v", err)
	}
	taken := must.Get(memory.Reserve(memory.Limit() - 1<<10))(t)
	check.ErrorIs(t, j.Start(state.Memory{}), budget.ErrOver)
	taken.Release()
	if p := j.Progress(); p.Status != fsck.Idle {
		t.Errorf("%+v", p)
	}
	// The bucket has more topics than the broker said.
	b := open(t, options(s, 1000))
	for i := 0; ; i++ {
		if held, _ := b.StateMemory(); held.Sum() > memory.Limit()/2-1<<20 {
			break
		}
		create(t, b, fmt.Sprintf("%d-%s", i, strings.Repeat("t", 200)), 200)
	}
	closeBroker(t, b)
	must.NoError(t, j.Start(state.Memory{}))
	if p := jobEnded(t, j); p.Status != fsck.Failed || !errors.As(p.Err, &over) {
		t.Errorf("%+v", p)
	}
}

// TestJobKeepsDamageOfManyFindings: among many findings it keeps damage, and the first ones of each
// other kind. It counts all.
func TestJobKeepsDamageOfManyFindings(t *testing.T) {
	s := objstore.NewMemory()
	b := open(t, options(s, 1000))
	create(t, b, "a", 1)
	const many = fsck.FindingsMax + 20
	for i := range many {
		produce(t, b, "a", 0, fmt.Sprint(i))
		put(t, s, fmt.Sprintf("stray/%d", i), []byte("x"))
	}
	closeBroker(t, b)
	j, _ := newJob(t, s, 256<<20)
	changed := 0
	for _, c := range []struct{ damages, findings int }{{1, 11}, {many, fsck.FindingsMax}} {
		for _, key := range withData(t, s)[changed:c.damages] {
			change(t, s, key, flip(-1))
		}
		changed = c.damages
		must.NoError(t, j.Start(state.Memory{}))
		p := jobEnded(t, j)
		kept := 0
		for _, f := range p.Findings {
			if f.Severity == fsck.Damage {
				kept++
			}
		}
		if p.Status != fsck.Done || p.Damages != c.damages || kept != min(c.damages, fsck.FindingsMax) || len(p.Findings) != c.findings || p.Kinds["note: unknown name"] != many {
			t.Errorf("%d findings with %d damages of %d: %v", len(p.Findings), kept, c.damages, p.Kinds)
		}
	}
}
