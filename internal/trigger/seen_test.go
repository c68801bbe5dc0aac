package trigger

import (
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
