package trigger

import (
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/trigger/rule"
	"github.com/sebbroker/seb/internal/trigger/store"
)

// define puts a trigger through the engine. The clock stands still meanwhile.
func (s *stepped) define(id, expr string, change func(d *rule.Definition)) {
	s.t.Helper()
	s.park = func() { s.w.Step(s.t.Context()) }
	defer func() { s.park = nil }()
	d := aDefinition(s.t, id, expr)
	if change != nil {
		change(&d)
	}
	if _, err := s.Put(s.t.Context(), d); err != nil {
		s.t.Fatalf("put %s: %v\n%s", id, err, s.logs)
	}
}

// topics creates the topics that triggers of the topic events need.
func (s *stepped) topics() {
	s.t.Helper()
	if _, err := s.ready(s.t.Context(), &rule.Definition{Topic: "events"}); err != nil {
		s.t.Fatal(err)
	}
}

// TestTheAppendTimeOfADefinitionIsItsBorder: the topic is quiet when a trigger is put. A window that ended since the last event
// is past.
func TestTheAppendTimeOfADefinitionIsItsBorder(t *testing.T) {
	const window = "A THEN (NOT B WITHIN 10ms)"
	for _, c := range []struct {
		policy rule.Backfill
		want   []string
	}{
		{rule.Silent, []string{"t ann +10 historic", "t zoe +110 pending"}},
		{rule.Current, []string{"t ann +10 historic", "t ann +59 pending", "t zoe +110 pending"}},
		{rule.Replay, []string{"t ann +10 pending", "t zoe +110 pending"}},
		{rule.None, []string{"t zoe +110 pending"}},
	} {
		t.Run("backfill "+string(c.policy), func(t *testing.T) {
			l := newLog()
			s := step(t, l.broker(true), "")
			s.topics()
			l.post(ev("ann", "A"))
			l.until(60 * time.Millisecond)
			s.define("t", window, func(d *rule.Definition) { d.Backfill = c.policy })
			s.settle()
			if x, err := s.Trigger(t.Context(), "t"); err != nil || x.At != start+59 || x.Created != start+59 {
				t.Errorf("the border is +%d, made +%d, %v; its record was appended at +60", x.At-start, x.Created-start, err)
			}
			l.until(100 * time.Millisecond)
			l.post(ev("zoe", "A"))
			s.settle()
			l.until(120 * time.Millisecond)
			s.settle()
			same(t, s.fires(), c.want)
		})
	}
}

// TestTheBorderAndTheLog: what the log has when a definition is appended, and what it has later.
func TestTheBorderAndTheLog(t *testing.T) {
	const window = "A THEN (NOT B WITHIN 10ms)"
	t.Run("time passes between the last look at the log and the append", func(t *testing.T) {
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
	t.Run("a new version", func(t *testing.T) {
		l := newLog()
		s := step(t, l.broker(true), "")
		s.define("t", "A THEN (NOT B WITHIN 3d)", nil)
		l.post(ev("ann", "A"))
		s.settle()
		l.until(60 * time.Millisecond)
		s.define("t", window, nil)
		s.settle()
		same(t, s.fires(), []string{"t ann +10 historic"})
	})
	t.Run("a topic of definitions without append times", func(t *testing.T) {
		l := newLog()
		s := step(t, l.broker(true), "")
		if err := l.Create(t.Context(), "triggers", 1, map[string]string{"cleanup-policy": "compact"}); err != nil {
			t.Fatal(err)
		}
		s.put(s.definition("old", window, nil))
		l.post(ev("ann", "A"))
		l.until(60 * time.Millisecond)
		s.define("t", window, nil)
		s.settle()
		same(t, s.fires(), []string{"old ann +10 pending", "t ann +10 historic"})
	})
	t.Run("of the first record, not of a later change", func(t *testing.T) {
		l := newLog()
		s := step(t, l.broker(true), "")
		s.define("t", window, nil)
		l.until(5 * time.Millisecond)
		l.post(ev("ann", "A"))
		l.until(60 * time.Millisecond)
		s.settle()
		for _, paused := range []bool{true, false} {
			if err := s.Pause(t.Context(), "t", paused); err != nil {
				t.Fatal(err)
			}
		}
		before, _ := s.Trigger(t.Context(), "t")
		s.end()
		if err := store.Remove(s.path); err != nil {
			t.Fatal(err)
		}
		l.trim("triggers", 0, 2) // as compaction does
		s = step(t, s.b, s.path)
		s.settle()
		if x, err := s.Trigger(t.Context(), "t"); err != nil || x.At != before.At || x.Created != before.Created {
			t.Errorf("read anew the border is +%d, made +%d, %v; it was +%d, +%d", x.At-start, x.Created-start, err, before.At-start, before.Created-start)
		}
		same(t, s.fires(), []string{"t ann +15 pending"})
	})
}
