package rules

import (
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/test/must"
)

// define puts a trigger through the engine. The clock does not move meanwhile.
func (s *stepped) define(id, expr string, change func(d *rule.Definition)) {
	s.t.Helper()
	s.park = func() { s.w.Step(s.t.Context()) }
	defer func() { s.park = nil }()
	d := newDefinition(s.t, id, expr)
	if change != nil {
		change(&d)
	}
	if _, err := s.Put(s.t.Context(), d, nil); err != nil {
		s.t.Fatalf("put %s: %v\n%s", id, err, s.logs)
	}
}

// topics creates the topics that triggers of the topic events need.
func (s *stepped) topics() {
	s.t.Helper()
	must.Get(s.ensureTopics(s.t.Context(), &rule.Definition{Topic: "events"}))(s.t)
}

// TestBorder: events before and after the append of a definition.
func TestBorder(t *testing.T) {
	const window = "A THEN (NOT B WITHIN 10ms)"
	t.Run("time passes between the last read and the append", func(t *testing.T) {
		l := newLog()
		b := l.broker(true)
		s := step(t, b, "")
		s.topics()
		l.post(ev("ann", "A"))
		b.fault = func(topic string) (kept, ok bool) {
			if topic == "triggers" {
				l.wall += (50 * time.Millisecond).Microseconds()
			}
			return true, true
		}
		s.define("t", window, nil)
		b.fault = nil
		s.settle()
		same(t, s.fires(), []string{"t ann +10 historic"})
	})
	t.Run("a topic of definitions without append times", func(t *testing.T) {
		l := newLog()
		s := step(t, l.broker(true), "")
		must.NoError(t, l.Create(t.Context(), "triggers", 1, map[string]string{"cleanup-policy": "compact"}))
		s.put(s.definition("old", window, nil))
		l.post(ev("ann", "A"))
		l.until(60 * time.Millisecond)
		s.define("t", window, nil)
		s.settle()
		same(t, s.fires(), []string{"old ann +10 pending", "t ann +10 historic"})
	})
}
