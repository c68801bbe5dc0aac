package rules

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/record"
)

// corrupt changes bytes of the batch with an offset. repair reverts that.
func (l *fakeLog) corrupt(name string, part uint32, offset int64, how func(b []byte)) (repair func()) {
	t, _ := l.Topic(name)
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.topicLocked(t.ID).parts[part]
	i := slices.IndexFunc(p.batches, func(b record.Batch) bool { return b.BaseOffset()+b.Span() > offset })
	good := p.batches[i]
	bad := slices.Clone(good)
	how(bad)
	p.batches[i] = bad
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		p.batches[i] = good
	}
}

var corruptions = map[string]func(b []byte){
	"length":  func(b []byte) { b[8] ^= 0x40 },
	"records": func(b []byte) { b[len(b)-1-len(b)/4] ^= 0xff; b[61] = 1 }, // the first record gets a negative length
}

// calm runs the engine until it waits.
func (s *stepped) calm() {
	s.t.Helper()
	for range 10_000 {
		if s.w.Step(s.t.Context()) > 0 {
			return
		}
	}
	s.t.Fatalf("the engine does not become idle\n%s", s.logs)
}

// TestUnreadableEventBatch: an unreadable batch blocks the time of its topic and nothing else. An
// event that no reader could read must not count as absent.
func TestUnreadableEventBatch(t *testing.T) {
	for name, how := range corruptions {
		t.Run(name, func(t *testing.T) { unreadableEvents(t, how, nil) })
	}
	t.Run("not read", func(t *testing.T) {
		unreadableEvents(t, nil, func(topic string, part uint32, offset int64) error {
			if topic == "events" && offset == 2 {
				return errors.New("checksum mismatch")
			}
			return nil
		})
	})
}

func unreadableEvents(t *testing.T, how func(b []byte), ill func(topic string, part uint32, offset int64) error) {
	b := newLog().broker(true)
	s := step(t, b, "")
	s.put(s.definition("quiet", "A THEN (NOT B WITHIN 10ms)", nil))
	s.put(s.definition("a", "A", nil))
	s.put(s.definition("other", "A THEN (NOT B WITHIN 10ms)", func(d *rule.Definition) { d.Topic = "others" }))
	topic, _ := b.Topic("events")
	one, two := "a", "b"
	for b.partOf(topic, one) == b.partOf(topic, two) {
		two += "b"
	}
	part := b.partOf(topic, one)
	for _, e := range []string{"X", "A", "B", "A"} {
		b.post(ev(one, e))
	}
	repair := func() { b.readFault = nil }
	if how != nil {
		repair = b.corrupt("events", part, 2, how)
	} else {
		b.readFault = ill
	}
	b.post(ev(two, "A"))
	b.postTo("others", ev("zoe", "A"))
	want := []string{"a a +0 pending", "a " + two + " +0 pending", "other zoe +10 pending"}
	for range 50 {
		b.advance(11 * time.Millisecond) // retries within a minute: small.Retry
		b.postTo("others", ev("x", "X"))
		s.calm()
	}
	same(t, s.fires(), want)
	log := s.logs.String()
	if says := fmt.Sprintf("topic=events partition=%d offset=2", part); strings.Count(log, says) != 1 {
		t.Errorf("want %q once in the log:\n%s", says, log)
	}
	if n := s.counted("rebuilds_total"); n != 0 || strings.Contains(log, "trigger file rebuilt") {
		t.Errorf("%d files rebuilt, want 0\n%s", n, log)
	}
	if p, _, err := s.follower.Peek(); err != nil || p.Unreadable != 1 || p.Lag != 2 {
		t.Errorf("%+v, %v", p, err)
	}
	repair()
	b.advance(20 * time.Millisecond)
	s.settle()
	list := s.fires()
	for _, x := range append(want, "quiet "+two+" +10 pending", "quiet a +10 pending") { // the second A
		if !slices.Contains(list, x) {
			t.Errorf("%s is not in %q", x, list)
		}
	}
	if p, _, err := s.follower.Peek(); err != nil || p.Unreadable != 0 || p.Lag != 0 || !strings.Contains(s.logs.String(), "readable again") {
		t.Errorf("%+v, %v\n%s", p, err, s.logs)
	}
}

// TestTrimPastUnreadableBatch: after a trim past an unreadable batch the engine continues, also for
// a trigger that reads the history.
func TestTrimPastUnreadableBatch(t *testing.T) {
	b := newLog().broker(true)
	s := step(t, b, "")
	s.put(s.definition("a", "A", nil))
	for _, e := range []string{"A", "B", "C", "C"} {
		b.post(ev("e", e))
	}
	s.settle()
	topic, _ := b.Topic("events")
	part := b.partOf(topic, "e")
	b.corrupt("events", part, 1, corruptions["records"])
	s.put(s.definition("c", "C", nil))
	b.post(ev("e", "D"))
	s.calm()
	if list, err := s.Triggers(); err != nil || !list[1].Backfilling || list[0].Backfilling {
		t.Errorf("%+v, %v", list, err)
	}
	b.trim("events", part, 2)
	b.advance(20 * time.Millisecond)
	s.settle()
	same(t, s.fires(), []string{"a e +0 pending", "c e +0 historic"})
}

// TestUnreadableDefinition: without all definitions and firings the engine delivers nothing. Its
// file stays open.
func TestUnreadableDefinition(t *testing.T) {
	for _, topic := range []string{"triggers", "firings"} {
		t.Run(topic, func(t *testing.T) {
			b := newLog().broker(true)
			s := step(t, b, "")
			s.put(s.definition("a", "A", nil))
			b.post(ev("e", "A"))
			s.settle()
			if ids, _, err := s.Due(t.Context(), b.now()); err != nil || len(ids) != 1 {
				t.Fatal(ids, err)
			}
			id, _ := b.Topic(topic)
			b.mu.Lock()
			next := b.topicLocked(id.ID).parts[0].next
			b.appendLocked(id.ID, 0, []record.Record{{Key: []byte("a")}})
			b.mu.Unlock()
			repair := b.corrupt(topic, 0, next, corruptions["records"])
			for range 20 {
				b.advance(20 * time.Millisecond)
				s.calm()
			}
			if ids, _, err := s.Due(t.Context(), b.now()); !errors.Is(err, ErrUnavailable) || len(ids) != 0 {
				t.Errorf("%v are due, %v", ids, err)
			}
			if !strings.Contains(s.logs.String(), fmt.Sprintf("topic %s, partition 0, offset %d", id.ID, next)) || s.counted("rebuilds_total") != 0 {
				t.Errorf("%s", s.logs)
			}
			repair()
			b.advance(20 * time.Millisecond)
			s.calm()
			list, err := s.Triggers()
			if want := map[string]int{"triggers": 0, "firings": 1}[topic]; err != nil || len(list) != want {
				t.Errorf("%+v, %v", list, err)
			}
		})
	}
}
