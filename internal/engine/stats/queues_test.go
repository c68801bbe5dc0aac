package stats

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// queuesSampler samples rows.
func queuesSampler(limit int64, rows *[]Queue, now time.Time) (*Sampler, *budget.Class) {
	s := newSampler(func(io.Writer) {}, now)
	s.queues.class, s.queues.read = budget.New(limit).Class(budget.Tail), func() []Queue { return *rows }
	return s, s.queues.class
}

// queueRow is a queue with messages that are ready, and a number that were done.
func queueRow(id byte, ready, done float64) Queue {
	return Queue{ID: record.ID{id}, Values: [queueSize]float64{0: ready, 7: done}}
}

func TestFiguresOfQueues(t *testing.T) {
	began := time.Unix(1_800_000_000, 0)
	rows := []Queue{queueRow(1, 5, 0)}
	s, _ := queuesSampler(64<<20, &rows, began)
	for i := range 4 {
		rows[0] = queueRow(1, float64(5-i), float64(20*i))
		s.sample(began.Add(time.Duration(i) * shortStep))
	}
	now := began.Add(3 * shortStep)
	w, ok := s.queueWindow(rows[0].ID, time.Hour, now)
	must.Equal(t, ok, true)
	for name, want := range map[string]string{"ready": "- 5 4 3 2", "done": "- - 2 2 2", "sent": "- - 0 0 0"} {
		var got []string
		for at := -5; at < 0; at++ {
			got = append(got, w.value(t, name, at))
		}
		check.Equalf(t, strings.Join(got, " "), want, "%s", name)
	}
	day, ok := s.queueWindow(rows[0].ID, 24*time.Hour, now)
	if !ok || len(day.Times) != queueLongPoints || day.Step != queueLongStep || day.value(t, "ready", -1) != "5" {
		t.Errorf("a day: %d steps of %s", len(day.Times), day.Step)
	}
	rows = nil // deleted, or another broker leads
	if s.sample(now.Add(shortStep)); len(s.queues.rings) != 0 {
		t.Error("a queue that is gone has figures")
	}
}

// TestFiguresOfManyQueues: a queue with messages gets the memory of one that has not changed for an hour.
func TestFiguresOfManyQueues(t *testing.T) {
	began := time.Unix(1_800_000_000, 0)
	var rows []Queue
	s, class := queuesSampler(64<<20, &rows, began)
	most := int(class.Limit() / queuesShare / int64(queueBytes))
	must.Equalf(t, most > 1 && most < 200, true, "%d queues fit", most)
	for i := range most + 2 {
		rows = append(rows, queueRow(byte(i), 1, 0))
	}
	has := func(i int) bool { return s.queues.rings[record.ID{byte(i)}] != nil }
	s.sample(began)
	if len(s.queues.rings) != most || has(most) || class.Used() != int64(most*queueBytes) {
		t.Fatalf("%d queues have figures, %d bytes, want %d queues", len(s.queues.rings), class.Used(), most)
	}
	rows[most] = queueRow(byte(most), 0, 0)
	for i := range most {
		if i != 1 {
			rows[i] = queueRow(byte(i), 2, 0)
		}
	}
	s.sample(began.Add(queueIdle - shortStep))
	if has(most) || has(most+1) {
		t.Fatal("a queue has lost its figures within an hour")
	}
	s.sample(began.Add(queueIdle))
	if has(1) || has(most) || !has(most+1) || len(s.queues.rings) != most {
		t.Errorf("the queue that did not change has figures: %t, an empty one: %t, one with messages: %t", has(1), has(most), has(most+1))
	}
	if s.queues.drop(nil); class.Used() != 0 {
		t.Errorf("%d bytes are not released", class.Used())
	}
}
