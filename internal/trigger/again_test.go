package trigger

import (
	"slices"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/trigger/rule"
)

// missing is which triggers say that their topic is missing.
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

// waits wants a trigger to wait for the end of an entity's window.
func (s *stepped) waits(trigger, entity string) {
	s.t.Helper()
	if x, err := s.Explain(s.t.Context(), trigger, entity); err != nil || !x.Known || x.Next == 0 {
		s.t.Errorf("%s: %+v, %v, want that it waits for the end of its window", entity, x, err)
	}
}

// TestATopicIsDeletedAndCreatedAgain: triggers say that their topic is missing, what they wait for goes on, and they follow the
// next topic of that name from its beginning.
func TestATopicIsDeletedAndCreatedAgain(t *testing.T) {
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
	}{
		{"the engine goes on", stays, stays},
		{"a restart while the topic is missing", restart, stays},
		{"a restart after it was created again", stays, restart},
		{"restarts", restart, restart},
		{"a new machine while the topic is missing", moved, stays},
		{"a new machine after it was created again", stays, moved},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLog()
			from := newBucket()
			s := from.step(t, l.broker(true), "", func(o *Options) {
				every := saving
				every.SaveRecords = 1
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
			if err := l.Create(t.Context(), "events", 2, AppendTimes); err != nil {
				t.Fatal(err)
			}
			l.until(160 * time.Millisecond)
			l.post(ev("bob", "B"))
			l.until(170 * time.Millisecond)
			l.post(ev("zoe", "A"))
			l.post(ev("ann", "A")) // as it was at the same offset of the topic before
			s.settle()
			s = c.again(t, from, s)
			s.settle()
			if list := s.missing(); len(list) > 0 {
				t.Errorf("%q say that their topic is missing", list)
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

// TestAnEventOfATopicThatWasCreatedAgain: an event at an offset that the topic before had too is another cause, and the events
// of a firing are those of its own topic.
func TestAnEventOfATopicThatWasCreatedAgain(t *testing.T) {
	l := newLog()
	s := step(t, l.broker(true), "")
	s.define("each", "A", func(d *rule.Definition) { d.Fire = rule.OnReset })
	s.define("both", "A THEN B", nil)
	l.until(10 * time.Millisecond)
	l.post(ev("ann", "A"))
	s.settle()
	l.remove("events")
	if err := l.Create(t.Context(), "events", 2, AppendTimes); err != nil {
		t.Fatal(err)
	}
	l.until(20 * time.Millisecond)
	l.post(ev("ann", "A"))
	l.until(30 * time.Millisecond)
	l.post(ev("ann", "B"))
	s.settle()
	same(t, s.fires(), []string{"each ann +10 pending", "each ann +20 pending", "both ann +30 pending"})
	list, err := s.Firings(t.Context(), FiringQuery{Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range list {
		events, err := s.Witnesses(t.Context(), &list[i])
		if err != nil {
			t.Fatal(err)
		}
		text := list[i].Trigger
		for _, w := range events {
			text += " " + w.Name + time.Duration(w.Time-start).String()
		}
		got = append(got, text)
	}
	slices.Sort(got)
	// Of "both" the A that it uses may be the one of the topic before, which is no longer there.
	if len(got) != 3 || got[1] != "each" || got[2] != "each A20ns" || got[0] != "both A20ns B30ns" && got[0] != "both B30ns" {
		t.Errorf("the events of the firings: %q", got)
	}
}

// TestPutAfterATopicWasCreatedAgain: the same definition is no new version, another one is.
func TestPutAfterATopicWasCreatedAgain(t *testing.T) {
	l := newLog()
	s := step(t, l.broker(true), "")
	s.define("t", "A", func(d *rule.Definition) { d.Fire = rule.OnEdge })
	l.until(10 * time.Millisecond)
	l.post(ev("ann", "A"))
	s.settle()
	l.remove("events")
	s.settle()
	s.define("t", "A", func(d *rule.Definition) { d.Fire = rule.OnEdge }) // creates the topic
	if x, err := s.Trigger(t.Context(), "t"); err != nil || x.Version != 1 {
		t.Fatalf("version %d, %v, want 1", x.Version, err)
	}
	l.until(20 * time.Millisecond)
	l.post(ev("bob", "A"))
	s.settle()
	s.define("t", "A OR B", func(d *rule.Definition) { d.Fire = rule.OnEdge })
	l.until(30 * time.Millisecond)
	l.post(ev("zoe", "B"))
	s.settle()
	if x, err := s.Trigger(t.Context(), "t"); err != nil || x.Version != 2 || x.Missing {
		t.Fatalf("%+v, %v, want version 2", x, err)
	}
	same(t, s.fires(), []string{"t ann +10 pending", "t bob +20 pending", "t bob +20 historic", "t zoe +30 pending"})
}

// TestATopicOfNoTriggerIsDeleted: what the file has of it stays as it is.
func TestATopicOfNoTriggerIsDeleted(t *testing.T) {
	l := newLog()
	s := step(t, l.broker(true), "")
	s.define("t", "A", nil)
	s.define("gone", "A", func(d *rule.Definition) { d.Topic = "others" })
	l.until(10 * time.Millisecond)
	l.postTo("others", ev("ann", "A"))
	s.settle()
	if err := s.Delete(t.Context(), "gone"); err != nil {
		t.Fatal(err)
	}
	l.remove("others")
	s.settle()
	if n := s.counted("rebuilds_total"); n != 0 {
		t.Errorf("the file was made again %d times\n%s", n, s.logs)
	}
	s.end()
	s = step(t, s.b, s.path)
	s.settle()
	if n := s.counted("rebuilds_total"); n != 0 {
		t.Errorf("after a restart the file was made again %d times\n%s", n, s.logs)
	}
}

// TestTheTopicOfFiringsIsDeleted: what fires later is recorded in the next topic of that name, and what has fired before is not
// recorded again.
func TestTheTopicOfFiringsIsDeleted(t *testing.T) {
	l := newLog()
	s := step(t, l.broker(true), "")
	s.define("t", "A", nil)
	for _, entity := range []string{"ann", "bob", "cid"} {
		l.advance(10 * time.Millisecond)
		l.post(ev(entity, "A"))
		s.settle()
	}
	l.remove("firings")
	s.settle()
	l.until(100 * time.Millisecond)
	l.post(ev("zoe", "A"))
	s.settle()
	topic, ok := l.Topic("firings")
	if !ok {
		t.Fatalf("there is no topic of firings\n%s", s.logs)
	}
	if p, _ := s.b.Position(topic.ID); len(p.Topics[0]) != 1 || p.Topics[0][0].Next < 1 {
		t.Errorf("the topic of firings is %+v, want a record of zoe's firing", p.Topics[0])
	}
	list, err := s.Firings(t.Context(), FiringQuery{Limit: 10})
	if err != nil || len(list) != 4 {
		t.Fatalf("%d firings, %v, want 4", len(list), err)
	}
	for _, x := range list {
		if before := x.Entity != "zoe"; x.Recorded == 0 || before != (x.Recorded < start+100) {
			t.Errorf("the firing for %s was recorded at +%d", x.Entity, x.Recorded-start)
		}
	}
}
