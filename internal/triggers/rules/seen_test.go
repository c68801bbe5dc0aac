package rules

import (
	"errors"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/triggers/rules/rule"
)

// TestDuplicateWithUnevenPartitions: an engine that reads old events is further in one partition
// than in another. It must find the same duplicates as an engine that reads events as they arrive.
func TestDuplicateWithUnevenPartitions(t *testing.T) {
	l := newLog()
	s := step(t, l.broker(true), "")
	s.put(s.definition("twice", "count(A) >= 5", nil))
	topic, _ := l.Topic("events")
	busy, quiet := "a", "b"
	for i := byte('c'); l.partOf(topic, busy) == l.partOf(topic, quiet); i++ {
		quiet = string(rune(i))
	}
	for _, one := range []string{busy, quiet} { // either may be read first
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

// TestDuplicateDuringBackfill: the main reader cannot read one partition for a while, and a reader
// of the history has read days of the other one. Both find a duplicate of an event of an hour
// before.
func TestDuplicateDuringBackfill(t *testing.T) {
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
	for range 60 { // the distance between both readers
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
	b.readFault = func(topic string, part uint32, offset int64) error {
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
		if s.counted("events_total") >= 270 { // 60 + 1 + 100 for each reader, and one unread
			break
		}
		if s.w.Step(t.Context()) > 0 {
			b.advance(time.Millisecond)
		}
	}
	if h, err := s.Head("history"); err != nil || !h.Backfilling {
		t.Fatalf("%+v, %v, %d events", h, err, s.counted("events_total"))
	}
	b.readFault = nil
	b.advance(time.Minute) // the engine retries
	s.settle()
	if h, err := s.Head("history"); err != nil || h.Backfilling {
		t.Errorf("%+v, %v", h, err)
	}
	same(t, s.fires(), []string{})
}
