package monitor

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/driplangtest"
	"github.com/sebbroker/seb/test/must"
)

// millis returns a time of a case in ms since the table's time zero.
func millis(at time.Time) int64 { return at.Sub(driplangtest.Base).Milliseconds() }

// caseHistory returns the events of a case without duplicates, which the engine drops.
func caseHistory(c *driplangtest.Case) (history []testEvent) {
	seen := map[string]bool{"": false}
	for _, e := range c.Events {
		if !seen[e.ID] {
			history = append(history, testEvent{name: e.Event, at: millis(e.At)})
			seen[e.ID] = e.ID != ""
		}
	}
	return history
}

func TestCases(t *testing.T) {
	for _, c := range driplangtest.Cases(t) {
		t.Run(c.ID, func(t *testing.T) {
			e, err := driplang.Parse(c.Expr)
			if c.Error != "" {
				var fault *driplang.Error
				if !errors.As(err, &fault) || !strings.HasPrefix(err.Error(), c.Error) {
					t.Fatalf("%s: got %v, want %s", c.Expr, err, c.Error)
				}
				return
			}
			must.NoErrorf(t, err, "%s", c.Expr)
			checkCase(t, e, &c)
		})
	}
}

func checkCase(t *testing.T, e driplang.Expr, c *driplangtest.Case) {
	p := must.Get(Compile(e, Options{}))(t)
	check.Equalf(t, p.Initially() == True, c.Initially, "initially %v", p.Initially())
	f := &follower{m: New(p), policy: c.Policy}
	f.follow(caseHistory(c), millis(c.At))
	plain := &follower{m: New(p)}
	plain.follow(caseHistory(c), millis(c.At))
	check.Equalf(t, plain.m.Value() == True, c.Value, "%s at %s is %v: %s", c.Expr, c.At, plain.m.Value(), c.Why)
	var fires []time.Time
	for _, at := range f.fires {
		fires = append(fires, time.UnixMilli(driplangtest.Base.UnixMilli()+at).UTC())
	}
	if c.FiresKnown && !slices.Equal(fires, c.Fires) {
		t.Errorf("%s fires at %v, want %v: %s", c.Expr, fires, c.Fires, c.Why)
	}
	if next, ok := f.m.Next(); c.NextKnown && ((c.Next != nil) != ok || ok && next != millis(*c.Next)) {
		t.Errorf("%s: next change at %d, %v, want %v: %s", c.Expr, next, ok, c.Next, c.Why)
	}
}

// follower drives a monitor as an engine does: it stops at every deadline.
type follower struct {
	m      *Monitor
	policy string
	out    bool
	fires  []int64
	last   int64
	ref    uint64
}

func (f *follower) follow(history []testEvent, until int64) {
	for _, e := range history {
		f.advance(max(e.at, f.last) - 1)
		f.step(e)
	}
	f.advance(until)
}

func (f *follower) note(v Value, at int64) {
	was := f.out
	f.last, f.out = at, v == True
	if was || !f.out || f.policy == "once" && len(f.fires) > 0 {
		return
	}
	f.fires = append(f.fires, at)
	if f.policy == "reset" {
		f.m.Reset()
		f.out = false
	}
}

func (f *follower) step(e testEvent) {
	f.ref++
	if k := f.m.program.Match(e.name, []byte(e.data)); k != 0 {
		at := max(e.at, f.last)
		f.note(f.m.Step(k, at, f.ref), at)
	}
}

func (f *follower) advance(to int64) {
	for {
		at, ok := f.m.Next()
		if !ok || at > to {
			break
		}
		f.note(f.m.Advance(at), at)
	}
	if to >= f.last {
		f.last = to
		f.m.Advance(to)
	}
}
