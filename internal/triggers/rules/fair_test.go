package rules

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// costlyExpr returns an expression of 15 KB: hundreds of its parts evaluate each A and B.
func costlyExpr() string {
	var parts []string
	for i := range 480 {
		parts = append(parts, fmt.Sprintf("(A THEN (NOT B WITHIN %dd))", i+1))
	}
	return strings.Join(parts, " OR ")
}

// fairEngine returns an engine with a simple trigger and broker sizes.
func fairEngine(t *testing.T, path string) *stepped {
	sizes := DefaultSizes()
	sizes.Unsafe = true
	s := stepBy(t, newLog().broker(true), path, &sizes)
	s.put(s.definition("simple", "S THEN (NOT B WITHIN 1s)", func(d *rule.Definition) { d.Fire = rule.OnEdge }))
	s.settle()
	return s
}

// backlog posts events that are costly for the trigger of 15 KB, then one that starts a deadline of
// the simple trigger, and passes the deadline.
func (s *stepped) backlog(n int) {
	for i := range n {
		s.b.post(ev(fmt.Sprint("u", i%50), "A"))
	}
	s.b.post(ev(fmt.Sprint("s", n), "S"))
	s.b.advance(2 * 1e9)
	s.b.post(ev("end", "X"))
}

// untilSimple runs the engine until the simple trigger has fired that often. It returns the work of
// the largest turn and of all turns, in events of the costly trigger.
func (s *stepped) untilSimple(fired int) (largest, all uint64) {
	s.t.Helper()
	for range 1000 {
		before := s.counted("steps_total")
		wait := s.w.Step(s.t.Context())
		steps := s.counted("steps_total") - before
		largest, all = max(largest, steps), all+steps
		list := must.Get(s.Firings(s.t.Context(), FiringQuery{Trigger: "simple", Limit: LimitMax}))(s.t)
		if len(list) >= fired {
			return largest, all
		}
		if wait > 0 {
			s.b.advance(wait)
		}
	}
	s.t.Fatalf("the simple trigger does not fire\n%s", s.logs)
	return 0, 0
}

// TestCostlyTriggerDoesNotDelayOthers, neither with new events nor with the history. Its own
// firings come later.
func TestCostlyTriggerDoesNotDelayOthers(t *testing.T) {
	events, most := sebtest.Runs(3000, 1100), uint64(sebtest.Runs(1000, 500)) // the work of a turn is about 300 events
	for _, first := range []bool{true, false} {
		if !first && testing.Short() {
			continue // the turns are the same
		}
		t.Run(fmt.Sprintf("created before the events=%t", first), func(t *testing.T) {
			s := fairEngine(t, "")
			costly := func() {
				s.put(s.definition("costly", costlyExpr(), nil))
			}
			if first {
				costly()
				s.settle()
				s.backlog(events)
			} else {
				s.backlog(events)
				s.untilSimple(1)
				costly()
				s.backlog(1)
			}
			largest, all := s.untilSimple(map[bool]int{true: 1, false: 2}[first])
			if largest > most || all > 2*most {
				t.Errorf("%d steps in a turn, %d before the simple trigger fired, of %d", largest, all, events)
			}
			if h, err := s.Head("costly"); err != nil || h.Late != first || h.Backfilling == first {
				t.Errorf("%+v, %v", h, err)
			}
			if first && !strings.Contains(s.logs.String(), "trigger behind: ") {
				t.Errorf("%s", s.logs)
			}
			s.settle()
			if h, err := s.Head("costly"); err != nil || h.Late || h.Backfilling {
				t.Errorf("not caught up: %+v, %v", h, err)
			}
			if n := s.counted("steps_total"); n < uint64(events) {
				t.Errorf("%d steps of %d", n, events)
			}
			s.b.advance(25 * 3600 * 1e9)
			s.b.post(ev("end", "X"))
			s.settle()
			list, err := s.Firings(t.Context(), FiringQuery{Trigger: "costly", Limit: LimitMax})
			if err != nil || len(list) != 50 {
				t.Errorf("%d firings of 50, %v", len(list), err)
			}
		})
	}
}

// TestLateTriggerAfterRestart: the trigger stays late, counts an event ID from before its lateness
// once, and takes a new version only after it has caught up.
func TestLateTriggerAfterRestart(t *testing.T) {
	sebtest.Long(t, "3,000 costly events; TestCostlyTriggerDoesNotDelayOthers remains")
	path := t.TempDir() + "/triggers.db"
	s := fairEngine(t, path)
	s.put(s.definition("costly", "count(C) >= 2 OR ("+costlyExpr()[:14000][:strings.LastIndex(costlyExpr()[:14000], " OR ")]+")", nil))
	s.settle()
	c := ev("c", "C")
	c.ID = "k"
	s.b.post(c)
	s.settle()
	s.backlog(3000)
	s.b.post(c)
	s.untilSimple(1)
	if h, err := s.Head("costly"); err != nil || !h.Late {
		t.Fatalf("%+v, %v", h, err)
	}
	s.end()
	sizes := DefaultSizes()
	sizes.Unsafe = true
	s = stepBy(t, s.b, path, &sizes)
	s.w.Step(t.Context())
	if h, err := s.Head("costly"); err != nil || !h.Late || h.Backfilling {
		t.Fatalf("after a restart: %+v, %v", h, err)
	}
	must.Get(s.Put(t.Context(), newDefinition(t, "costly", "A"), nil))(t)
	if n := s.counted("steps_total"); n < 2000 {
		t.Errorf("new version after %d steps: unread events of the earlier one are lost", n)
	}
	s.settle()
	list, err := s.EntityFirings(t.Context(), "costly", "c", 10)
	if err != nil || len(list) != 0 {
		t.Errorf("duplicate counted: %+v, %v", list, err)
	}
}
