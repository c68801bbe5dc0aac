package log_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// turnsBudget counts the turns of a log's owner, because each asks it.
type turnsBudget struct {
	fixedBudget
	turns atomic.Int64
	then  func() // if not nil, called in the next turn
}

func (b *turnsBudget) Short() bool {
	b.turns.Add(1)
	if then := b.then; then != nil {
		b.then = nil
		then()
	}
	return false
}

// TestSubmitsWithinTheLimitsDoNotWake: while an object collects appends, only a message that the owner
// must see wakes it.
func TestSubmitsWithinTheLimitsDoNotWake(t *testing.T) {
	warm(t)
	size := int64(len(batch(t, [16]byte{1}, 0, "v").Data))
	for name, c := range map[string]struct {
		bytes  int64 // limit of an object
		items  int   // the same
		report bool  // another message follows the appends
		wakes  bool
	}{
		"within the limits":     {3*size + 1, 4, false, false},
		"at the limit of bytes": {3 * size, 4, false, true},
		"at the limit of items": {3*size + 1, 3, false, true},
		"another message":       {3*size + 1, 4, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, budget := objstore.NewMemory(), &turnsBudget{fixedBudget: fixedBudget{pace: log.Pace{Wait: 10 * time.Second, Busy: 10 * time.Second}}}
				o := options(store)
				o.Batch = log.Config{Budget: budget, BytesMax: c.bytes, ItemsMax: c.items}
				l := open(t, o)
				id := topic(t, l, "a", 1)
				submit := func() (ticket *log.Ticket, woken bool) {
					before := budget.turns.Load()
					ticket = l.Submit([]log.Append{batch(t, id, 0, "v")})
					synctest.Wait()
					return ticket, budget.turns.Load() > before
				}
				_, first := submit()
				check.Equalf(t, first, true, "woken by the first append")
				_, second := submit()
				check.Equalf(t, second, false, "woken by the second append")
				before := budget.turns.Load()
				last, _ := submit()
				if c.report {
					report(t, l)
				}
				check.Equalf(t, budget.turns.Load() > before, c.wakes, "woken")
				must.NoError(t, wait(t, last)[0].Err())
				check.Equalf(t, len(contents(t, l, store, id, 0)), 3, "records")
				_, next := submit()
				check.Equalf(t, next, true, "woken by the first append of the next object")
				before, budget.then = budget.turns.Load(), func() { l.Submit([]log.Append{batch(t, id, 0, "v")}) }
				report(t, l)
				synctest.Wait()
				check.Equalf(t, budget.turns.Load()-before, 2, "turns with an append during the first one")
				l.Kill()
			})
		})
	}
}
