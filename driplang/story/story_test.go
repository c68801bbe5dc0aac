package story_test

import (
	"fmt"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/driplang/story"
	"github.com/sebbroker/seb/test/driplangtest"
)

// verify evaluates stories by definition.
func verify(e driplang.Expr, a story.Answer) error {
	x := driplangtest.Of(e)
	initially := x.Value(nil, driplangtest.Point{At: -1, Done: true}) == driplangtest.True
	if initially != (a.NoneFires == story.TrueAtStart) || initially && len(a.Stories) > 0 {
		return fmt.Errorf("%v at the start, but %+v", initially, a)
	}
	fires := false
	for i := range a.Stories {
		s := &a.Stories[i]
		if err := checkOutcome(x, s); err != nil {
			return fmt.Errorf("story %d: %s: %w", i, s.Text, err)
		}
		fires = fires || s.Outcome == story.Fires
		if s.DiffersFrom >= i {
			return fmt.Errorf("story %d differs from %d", i, s.DiffersFrom)
		}
		if s.DiffersFrom >= 0 {
			if err := checkChange(&a.Stories[s.DiffersFrom], s); err != nil {
				return fmt.Errorf("story %d: %s: from %d: %w", i, s.Text, s.DiffersFrom, err)
			}
		}
	}
	if len(a.Stories) > story.MaxStories {
		return fmt.Errorf("%d stories", len(a.Stories))
	}
	if fires == (a.NoneFires != "") || fires && a.Stories[0].Outcome != story.Fires {
		return fmt.Errorf("%q, and the stories are %+v", a.NoneFires, a.Stories)
	}
	return nil
}

func history(s *story.Story) []driplangtest.Event {
	events := make([]driplangtest.Event, len(s.Events))
	for i, e := range s.Events {
		events[i] = driplangtest.Event{Name: e.Name, At: e.After, Data: string(e.Data)}
	}
	return events
}

func checkOutcome(x *driplangtest.Expr, s *story.Story) error {
	events := history(s)
	firings := x.Firings(events, driplangtest.Once)
	switch s.Outcome {
	case story.Fires:
		if len(firings) == 0 || firings[0].At != s.End {
			return fmt.Errorf("fires at %d, by definition %+v", s.End, firings)
		}
	case story.DoesNotFire:
		if len(firings) > 0 {
			return fmt.Errorf("by definition %+v", firings)
		}
		if v := x.Value(events, driplangtest.Point{Events: len(events), At: s.End, Done: true}); v != driplangtest.False {
			return fmt.Errorf("is %d at its end", v)
		}
	default:
		v := x.Value(events, driplangtest.Point{Events: len(events), At: s.End, Done: true})
		if v != driplangtest.Pending || len(firings) > 0 && firings[0].At <= s.End {
			return fmt.Errorf("is %d, and fires %+v", v, firings)
		}
	}
	return nil
}
