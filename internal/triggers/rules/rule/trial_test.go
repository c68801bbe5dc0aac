package rule

import (
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

func newTrial(t *testing.T, expr string, limit int64) *Trial {
	t.Helper()
	x := must.Get(driplang.Parse(expr))(t)
	r := must.Get(Compile(Definition{ID: "t", Version: 1, Expr: x, Backfill: Replay, Fire: OnEdge}.WithDefaults()))(t)
	return NewTrial(r, TrialOptions{Limit: limit})
}

// addEvent applies an event of a numbered entity; offset is also its time, in ms.
func (t *Trial) addEvent(entity, offset int, name string) error {
	e := Event{Name: name, EntityID: fmt.Sprintf("entity-%09d", entity), ID: "x"}
	h := [16]byte{byte(offset), byte(offset >> 8), byte(offset >> 16), byte(offset >> 24)}
	fresh, err := t.Fresh(h, &e, 0, int64(offset))
	if err != nil || !fresh {
		return err
	}
	return t.Event(&e, 0, int64(offset), int64(offset))
}

func TestTrialMemory(t *testing.T) {
	limit := int64(sebtest.Runs(16<<20, 6<<20))
	before := sebtest.Heap()
	x := newTrial(t, "A THEN (NOT B WITHIN 7 days)", limit)
	n := 0
	for ; !x.Truncated; n++ {
		must.NoError(t, x.addEvent(n, n, "A"))
	}
	if used := sebtest.Heap() - before; used > limit || used < limit/4 {
		t.Errorf("%d entities use %d bytes, the limit is %d", len(x.rows), used, limit)
	}
	most := len(x.rows)
	for i := range 2 * n { // the trial knows its entities completely
		must.NoError(t, x.addEvent(i, n+i, "B"))
	}
	must.NoError(t, x.Finish(int64(8*24*3600*1000)))
	if x.Entities != most || int64(most) < limit/840 || x.Firings != 0 || x.Waiting != 0 {
		t.Errorf("%d entities of %d, %d firings, %d waiting", x.Entities, most, x.Firings, x.Waiting)
	}
	runtime.KeepAlive(x)
}

// TestTrialBeyondMemory: the state of the entities grows beyond the limit.
func TestTrialBeyondMemory(t *testing.T) {
	const limit = 1 << 20
	x := newTrial(t, "A THEN ((B AND NOT C) WITHIN 7 days)", limit)
	var err error
	offset := 0
	for ; err == nil && offset < 1_000_000; offset++ {
		err = x.addEvent(offset%3000, offset, "A")
	}
	if want := fmt.Sprintf("need more than %d bytes", limit); !errors.Is(err, ErrTrialMemory) || x.bytes <= limit {
		t.Errorf("after %d events with %d bytes: %v, want %s", offset, x.bytes, err, want)
	}
	var bytes int64
	for k, row := range x.rows {
		bytes += k.bytes() + int64(cap(row.State))
	}
	if bytes += int64(len(x.seen)) * trialID; bytes != x.bytes {
		t.Errorf("%d bytes held, %d counted", bytes, x.bytes)
	}
	for k := range x.rows {
		x.Erase(k.entity, k.partition)
	}
	x.forget(2 * Horizon)
	if x.bytes != 0 || len(x.seen) != 0 {
		t.Errorf("%d bytes counted without any state", x.bytes)
	}
}

func TestTrialForgetsOldIDs(t *testing.T) {
	x := newTrial(t, "A THEN B", 1<<20)
	for day := range 20 {
		for i := range 8000 { // not in the expression
			e := Event{Name: "X", EntityID: "e", ID: "x"}
			h := [16]byte{byte(i), byte(i >> 8), byte(day)}
			at := int64(day)*2*Horizon + int64(i)
			if fresh, err := x.Fresh(h, &e, 0, at); err != nil || !fresh {
				t.Fatalf("day %d: %v, %v", day, fresh, err)
			}
			if fresh, err := x.Fresh(h, &e, 0, at+Horizon); err != nil || fresh {
				t.Fatalf("day %d, again: %v, %v", day, fresh, err)
			}
		}
	}
	if x.Truncated {
		t.Error("truncated")
	}
}
