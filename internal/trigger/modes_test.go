package trigger

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/trigger/rule"

	"github.com/sebbroker/seb/record"
)

const day = 24 * time.Hour

func TestAFiringComesAtItsInstantOnce(t *testing.T) {
	s := step(t, newLog().broker(true), "")
	s.put(s.definition("week", "signup THEN (NOT use WITHIN 7 days)", nil))
	s.b.post(ev("ann", "signup"))
	s.b.post(ev("bob", "signup"))
	s.b.advance(day)
	s.b.post(ev("bob", "use"))
	s.settle()
	same(t, s.fires(), []string{})
	s.b.advance(6*day - 2*time.Millisecond)
	s.settle()
	same(t, s.fires(), []string{"week ann +604800000 pending"})
	s.b.advance(day)
	s.settle()
	same(t, s.fires(), []string{"week ann +604800000 pending"})
}

func TestABrokerThatWasDownReadsItsBacklogFirst(t *testing.T) {
	s := step(t, newLog().broker(true), "")
	s.put(s.definition("week", "signup THEN (NOT use WITHIN 7 days)", nil))
	s.b.post(ev("ann", "signup"), ev("ann", "x"))
	s.settle()
	s.b.advance(3 * day)
	for range 50 {
		s.b.post(ev("zoe", "x")) // more than is read at a time
	}
	s.b.post(ev("ann", "use"))
	s.b.advance(5 * day)
	s.settle()
	same(t, s.fires(), []string{})
}

// TestFireModes has A at 0, B at 1 s, A at 2 s and B at 3 s.
func TestFireModes(t *testing.T) {
	for _, c := range []struct {
		name   string
		expr   string
		change func(d *rule.Definition)
		want   []string
	}{
		{"once", "A THEN B", func(*rule.Definition) {}, []string{"t e +1000 pending"}},
		{"edge", "A THEN B", func(d *rule.Definition) { d.Fire = rule.OnEdge }, []string{"t e +1000 pending"}},
		{
			"edge that falls", "A THEN (NOT B)", func(d *rule.Definition) { d.Fire = rule.OnEdge },
			[]string{"t e +0 pending", "t e +2000 pending"},
		},
		{"reset", "A THEN B", func(d *rule.Definition) { d.Fire = rule.OnReset }, []string{"t e +1000 pending", "t e +3000 pending"}},
		{
			"cooldown", "A THEN B", func(d *rule.Definition) { d.Fire, d.Cooldown = rule.OnReset, 2001 },
			[]string{"t e +1000 pending", "t e +3000 suppressed"},
		},
		{
			"cooldown that is over", "A THEN B", func(d *rule.Definition) { d.Fire, d.Cooldown = rule.OnReset, 2000 },
			[]string{"t e +1000 pending", "t e +3000 pending"},
		},
		{
			"retraction", "A THEN (NOT B)", func(d *rule.Definition) { d.Fire, d.OnRetract = rule.OnEdge, rule.Notify },
			[]string{"t e +0 retracted taken +1000", "t e +2000 retracted taken +3000"},
		},
		{
			"retraction, once", "A THEN (NOT B)", func(d *rule.Definition) { d.OnRetract = rule.Notify },
			[]string{"t e +0 retracted taken +1000"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := step(t, newLog().broker(true), "")
			s.put(s.definition("t", c.expr, c.change))
			for i, name := range []string{"A", "B", "A", "B"} {
				s.b.post(ev("e", name))
				s.settle()
				s.b.until(time.Duration(i+1) * time.Second)
			}
			s.settle()
			same(t, s.fires(), c.want)
		})
	}
}

// TestBackfill has ann who is true in the past, bob who was and is no longer, and zoe who becomes so later.
func TestBackfill(t *testing.T) {
	for _, c := range []struct {
		policy rule.Backfill
		want   []string
	}{
		{rule.Silent, []string{"t ann +0 historic", "t bob +0 historic", "t zoe +40 pending"}},
		{rule.Current, []string{"t ann +0 historic", "t bob +0 historic", "t ann +19 pending", "t zoe +40 pending"}},
		{rule.Replay, []string{"t ann +0 pending", "t bob +0 pending", "t zoe +40 pending"}},
		{rule.None, []string{"t ann +40 pending", "t zoe +40 pending"}},
	} {
		t.Run(string(c.policy), func(t *testing.T) {
			s := step(t, newLog().broker(true), "")
			s.put(s.definition("other", "nothing", nil)) // the main reader has read the history
			s.b.post(ev("ann", "A"))
			s.b.post(ev("bob", "A"))
			s.b.advance(10 * time.Millisecond)
			s.b.post(ev("bob", "B"))
			s.settle()
			s.b.advance(10 * time.Millisecond)
			s.b.post(ev("x", "nothing else"))
			s.put(s.definition("t", "A AND NOT B", func(d *rule.Definition) { d.Backfill = c.policy }))
			s.settle()
			s.b.until(40 * time.Millisecond)
			s.b.post(ev("ann", "A"))
			s.b.post(ev("zoe", "A"))
			s.settle()
			same(t, s.fires(), c.want)
		})
	}
}

func TestDuplicatesCountOnceADay(t *testing.T) {
	s := step(t, newLog().broker(true), "")
	s.put(s.definition("two", "count(A) >= 2", nil))
	post := func(id string) {
		e := ev("e", "A")
		e.ID = id
		s.b.post(e)
		s.settle()
	}
	post("1")
	post("1")
	s.b.advance(day - time.Second)
	post("1")
	same(t, s.fires(), []string{})
	s.b.advance(2 * time.Second)
	post("1")
	same(t, s.fires(), []string{"two e +86401000 pending"})
	for id, want := range map[string]bool{"1": true, "2": false, "": false} {
		part := s.b.partOf(Topic{Partitions: 2}, "e")
		if at, is, known := s.Duplicate(t.Context(), "events", part, "e", id); !known || is != want || is && at != 3 {
			t.Errorf("id %q: %v, at %d, %v", id, is, at, known)
		}
	}
	// What the engine has not read it can not tell of.
	unread := ev("e", "A")
	unread.ID = "3"
	s.b.post(unread)
	if err := s.b.Create(t.Context(), "nobody's", 1, AppendTimes); err != nil {
		t.Fatal(err)
	}
	s.b.postTo("nobody's", unread)
	for _, c := range []struct {
		topic, id   string
		want, known bool
	}{{"events", "1", true, true}, {"events", "3", false, false}, {"events", "", false, true}, {"nobody's", "3", false, false}} {
		part := s.b.partOf(Topic{Partitions: 2}, "e")
		if c.topic != "events" {
			part = 0
		}
		if _, is, known := s.Duplicate(t.Context(), c.topic, part, "e", c.id); is != c.want || known != c.known {
			t.Errorf("%+v: %v %v", c, is, known)
		}
	}
	s.settle()
	if _, is, known := s.Duplicate(t.Context(), "events", s.b.partOf(Topic{Partitions: 2}, "e"), "e", "3"); !is || !known {
		t.Errorf("once it is read: %v %v", is, known)
	}
	if n := s.counted(`events_skipped_total{why="duplicate"}`); n != 2 {
		t.Errorf("%d duplicates", n)
	}
}

func TestWhatIsNoEventIsSkipped(t *testing.T) {
	s := step(t, newLog().broker(true), "")
	s.put(s.definition("a", "A", nil))
	topic, _ := s.b.Topic("events")
	for _, value := range []string{``, `{`, `[]`, `{"event":"A"}`, `{"event":"A","entity_id":"other"}`, `{"event":"","entity_id":"e"}`} {
		s.b.mu.Lock()
		s.b.appendLocked(topic.ID, 0, []record.Record{{Key: []byte("e"), Value: []byte(value)}})
		s.b.mu.Unlock()
	}
	s.b.post(ev("e", "A"))
	s.settle()
	same(t, s.fires(), []string{"a e +0 pending"})
	if n := s.counted(`events_skipped_total{why="malformed"}`); n != 6 {
		t.Errorf("%d were skipped", n)
	}
}

// report reports an attempt as the engine would follow it.
func (s *stepped) report(rec rule.Record) {
	s.t.Helper()
	t, _ := s.b.Topic("firings")
	s.b.mu.Lock()
	s.b.appendLocked(t.ID, 0, []record.Record{rec.Encoded()})
	s.b.mu.Unlock()
	s.settle()
}

func TestRetractionOfWhatWasHeard(t *testing.T) {
	outcome := json.RawMessage(`{"status":500}`)
	for _, c := range []struct {
		name   string
		before *rule.Record // what came of the first message before it was taken back
		after  *rule.Record // and after
		want   string
	}{
		{"not sent", nil, nil, "t e +0 retracted taken +10"},
		{"tried", &rule.Record{Kind: rule.Attempt, NextTry: 1, Outcome: outcome}, nil, "t e +0 pending taken +10"},
		{"delivered", &rule.Record{Kind: rule.Done, State: rule.Delivered}, nil, "t e +0 pending taken +10"},
		{"dead", &rule.Record{Kind: rule.Done, State: rule.Dead}, nil, "t e +0 dead taken +10"},
		{"on its way, delivered", nil, &rule.Record{Kind: rule.Done, State: rule.Delivered}, "t e +0 pending taken +10"},
		{"on its way, failed", nil, &rule.Record{Kind: rule.Attempt, NextTry: 1}, "t e +0 pending taken +10"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := step(t, newLog().broker(true), "")
			s.put(s.definition("t", "A THEN (NOT B)", func(d *rule.Definition) { d.OnRetract = rule.Notify }))
			s.b.post(ev("e", "A"))
			s.settle()
			id := rule.MakeID("t", 1, "e", rule.EventCause(s.b.partOf(Topic{Partitions: 2}, "e"), 0)).String()
			if c.before != nil {
				c.before.ID = id
				s.report(*c.before)
			}
			s.b.advance(10 * time.Millisecond)
			s.b.post(ev("e", "B"))
			s.settle()
			if c.after != nil {
				c.after.ID = id
				s.report(*c.after)
			}
			same(t, s.fires(), []string{c.want})
			list, err := s.Firings(t.Context(), FiringQuery{Limit: 1})
			if err != nil || (list[0].State == rule.Pending) != list[0].Retraction {
				t.Errorf("%+v, %v", list, err)
			}
			s.report(rule.Record{Kind: rule.Done, ID: id, State: rule.Delivered, Retraction: true})
			s.crashed()
			if got := s.fires(); list[0].Retraction != (got[0] == "t e +0 delivered taken +10") {
				t.Errorf("made anew: %q", got)
			}
		})
	}
}

// crashed begins again without the file.
func (s *stepped) crashed() {
	s.t.Helper()
	s.end()
	*s = *step(s.t, s.b, "")
	s.settle()
}

// TestAnIDIsKeptWhileOlderEventsMayCome: the main reader can not read a partition for a while, and a reader of the history has
// read days of the other partition meanwhile. An event whose id was there an hour before is a duplicate to both.
func TestAnIDIsKeptWhileOlderEventsMayCome(t *testing.T) {
	b := newLog().broker(true)
	s := step(t, b, "")
	s.put(s.definition("main", "count(A) >= 2", nil))
	topic, _ := b.Topic("events")
	one, two := "a", "b"
	for b.partOf(topic, one) == b.partOf(topic, two) {
		two += "b"
	}
	twice := ev(one, "A")
	twice.ID = "1"
	b.post(twice)
	for range 60 { // by so much the reader of the history is behind the main reader
		b.post(ev(two, "X"))
	}
	s.settle()
	s.put(s.definition("history", "count(A) >= 2", func(d *rule.Definition) { d.Backfill = rule.Replay }))
	for range 100 {
		if _, err := s.Head("history"); err == nil {
			break
		}
		s.w.Step(t.Context())
	}
	b.ill = func(topic string, part uint32, offset int64) error {
		if topic == "events" && part == b.partOf(Topic{Partitions: 2}, one) && offset == 1 {
			return errors.New("can not be read now")
		}
		return nil
	}
	b.advance(time.Hour)
	b.post(twice)
	for range 100 {
		b.advance(time.Hour)
		b.post(ev(two, "X"))
	}
	for range 1000 {
		if s.counted("events_total") >= 270 { // of 60 + 1 + 100 for each reader, and 1 that is not read
			break
		}
		if s.w.Step(t.Context()) > 0 {
			b.advance(time.Millisecond)
		}
	}
	if h, err := s.Head("history"); err != nil || !h.Backfilling {
		t.Fatalf("%+v, %v, %d events", h, err, s.counted("events_total"))
	}
	b.ill = nil
	b.advance(time.Minute) // it is tried again
	s.settle()
	if h, err := s.Head("history"); err != nil || h.Backfilling {
		t.Errorf("%+v, %v", h, err)
	}
	same(t, s.fires(), []string{})
}
