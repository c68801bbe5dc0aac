package trigger

import (
	"errors"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/trigger/rule"
)

// TestAnIDCountsOnceThoughAnotherPartitionIsAhead: an engine that reads old events is further in one partition than in
// another. An event that comes again must be known to it as to one that has read them as they came.
func TestAnIDCountsOnceThoughAnotherPartitionIsAhead(t *testing.T) {
	l := newLog()
	s := step(t, l.broker(true), "")
	s.put(s.definition("twice", "count(A) >= 5", nil))
	topic, _ := l.Topic("events")
	busy, quiet := "a", "b"
	for i := byte('c'); l.partOf(topic, busy) == l.partOf(topic, quiet); i++ {
		quiet = string(rune(i))
	}
	for _, one := range []string{busy, quiet} { // either of them may be read first
		for day := range 4 {
			for i := range 12 {
				if i%6 == 0 {
					l.post(rule.Event{EntityID: one, Name: "A", ID: one + string(rune('0'+day))}) // twice, ten hours apart
				} else {
					l.post(ev(one, "X"))
				}
				l.advance(100 * time.Minute)
			}
			l.advance(4 * time.Hour)
		}
	}
	s.settle()
	same(t, s.fires(), nil)
	l.post(rule.Event{EntityID: busy, Name: "A", ID: "a fifth"})
	s.settle()
	if list := s.fires(); len(list) != 1 {
		t.Errorf("fired %q", list)
	}
}

// TestAnIDIsKeptWhileOlderEventsMayCome: the main reader cannot read a partition for a while, and a reader of the history has
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
			return errors.New("injected fault")
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
