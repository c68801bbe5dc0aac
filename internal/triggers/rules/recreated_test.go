package rules

import (
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// missing returns the triggers whose topic is missing.
func (s *stepped) missing() (ids []string) {
	s.t.Helper()
	list, err := s.Triggers()
	if err != nil {
		s.t.Fatalf("%v\n%s", err, s.logs)
	}
	for i := range list {
		if list[i].Missing {
			ids = append(ids, list[i].ID)
		}
	}
	return ids
}

// waits requires that a trigger waits for the end of an entity's window.
func (s *stepped) waits(trigger, entity string) {
	s.t.Helper()
	if x, err := s.Explain(s.t.Context(), trigger, entity); err != nil || !x.Known || x.Next == 0 {
		s.t.Errorf("%s: %+v, %v, want it to wait for the end of its window", entity, x, err)
	}
}

// TestRecreatedTopic: triggers whose topic was deleted report that. They keep their state, and
// follow the next topic of that name from its start.
func TestRecreatedTopic(t *testing.T) {
	restart := func(t *testing.T, _ *bucket, s *stepped) *stepped {
		s.end()
		return step(t, s.b, s.path)
	}
	moved := func(t *testing.T, from *bucket, s *stepped) *stepped {
		lose(t, s)
		return from.step(t, s.b, s.path)
	}
	stays := func(_ *testing.T, _ *bucket, s *stepped) *stepped { return s }
	for _, c := range []struct {
		name           string
		missing, again func(t *testing.T, from *bucket, s *stepped) *stepped
		save           bool // each record
	}{
		{"no restart", stays, stays, false},
		{"a restart while the topic is missing", restart, stays, false},
		{"a restart after the topic was recreated", stays, restart, false},
		{"restarts", restart, restart, false},
		{"a new machine while the topic is missing", moved, stays, true},
		{"a new machine after the topic was recreated", stays, moved, true},
	}[sebtest.Runs(0, 4):] { // a new machine restarts too
		t.Run(c.name, func(t *testing.T) {
			l := newLog()
			from := newBucket()
			s := from.step(t, l.broker(true), "", func(o *Options) {
				every := saving
				if c.save {
					every.SaveRecords = 1
				}
				o.Sizes = &every
			})
			s.define("each", "A", func(d *rule.Definition) { d.Fire = rule.OnEdge })
			s.define("quiet", "A THEN (NOT B WITHIN 100ms)", func(d *rule.Definition) { d.Fire = rule.OnEdge })
			s.define("elsewhere", "A", func(d *rule.Definition) { d.Topic = "others" })
			s.settle()
			l.until(100 * time.Millisecond)
			l.post(ev("ann", "A"))
			l.post(ev("bob", "A"))
			l.until(110 * time.Millisecond)
			s.settle()
			l.remove("events")
			s.settle()
			s = c.missing(t, from, s)
			l.until(150 * time.Millisecond)
			s.settle()
			same(t, s.missing(), []string{"each", "quiet"})
			s.waits("quiet", "ann")
			must.NoError(t, l.Create(t.Context(), "events", 2, AppendTimes))
			l.until(160 * time.Millisecond)
			l.post(ev("bob", "B"))
			l.until(170 * time.Millisecond)
			l.post(ev("zoe", "A"))
			l.post(ev("ann", "A")) // same offset as in the deleted topic
			s.settle()
			s = c.again(t, from, s)
			s.settle()
			if list := s.missing(); len(list) > 0 {
				t.Errorf("topics of %q are missing", list)
			}
			l.until(400 * time.Millisecond)
			s.settle()
			same(t, s.fires(), []string{
				"each ann +100 pending", "each bob +100 pending",
				"each zoe +170 pending",
				"quiet ann +200 pending", "quiet zoe +270 pending",
			})
		})
	}
}
