package stats

import (
	"time"

	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/record"
)

// queueTable lists the figures of a queue. Those in seconds are rates of counters.
var queueTable = [...]struct{ name, unit string }{
	{"ready", "messages"},
	{"leased", "messages"},
	{"delayed", "messages"},
	{"retry", "messages"},
	{"dead", "messages"},
	{"oldest", "s"},
	{"sent", perSecond},
	{"done", perSecond},
	{"failed", perSecond},
}

const (
	perSecond = "messages/s"
	queueSize = len(queueTable)
)

// Queue has the figures of a queue at one time, in the order of queueTable: gauges, then counters.
type Queue struct {
	ID     record.ID
	Values [queueSize]float64
}

// A day of a queue has longer steps than that of the broker, because there are many queues.
const (
	queueLongStep, queueLongPoints = 5 * time.Minute, 288
	queueBytes                     = queueSize * (shortPoints + queueLongPoints) * 4
	queuesShare                    = 8 // part of the class that the figures of queues may take
	queueIdle                      = time.Hour
)

// queues has the figures of as many queues as there is memory for. A queue with messages gets that of one
// that has not changed for an hour.
type queues struct {
	class *budget.Class
	read  func() []Queue
	rings map[record.ID]*queueRings
}

type queueRings struct {
	short, long ring
	before      Queue // of short
	at          time.Time
	longer      Queue // as before, of long
	longerAt    time.Time
	changed     time.Time
	memory      *budget.Reservation
}

// add stores the figures of all queues. Those of queues that are gone are dropped.
func (q *queues) add(now time.Time, rows []Queue) {
	q.drop(rows)
	full := false
	for i := range rows {
		row := &rows[i]
		r := q.rings[row.ID]
		if r == nil && !full {
			if r = q.room(now, row); r == nil {
				full = row.busy()
				continue
			}
			q.rings[row.ID] = r
		}
		if r != nil {
			r.add(now, row)
		}
	}
}

// drop forgets the queues that are not in rows.
func (q *queues) drop(rows []Queue) {
	here := map[record.ID]struct{}{}
	for i := range rows {
		here[rows[i].ID] = struct{}{}
	}
	for id, r := range q.rings { //tidy:unordered each is dropped by itself
		if _, ok := here[id]; !ok {
			r.memory.Release()
			delete(q.rings, id)
		}
	}
}

// busy reports whether the queue has messages.
func (q *Queue) busy() bool {
	for i := range queueSize {
		if queueTable[i].unit != perSecond && q.Values[i] > 0 {
			return true
		}
	}
	return false
}

// room returns empty rings, or nil if there is no memory.
func (q *queues) room(now time.Time, row *Queue) *queueRings {
	memory := (*budget.Reservation)(nil)
	if int64(len(q.rings)+1)*int64(queueBytes) <= q.class.Limit()/queuesShare {
		memory, _ = q.class.Reserve(int64(queueBytes)) //nolint:errcheck // then another one may have some
	}
	if memory == nil {
		if memory = q.idle(now, row); memory == nil {
			return nil
		}
	}
	return &queueRings{
		short: newRing(shortStep, shortPoints, queueSize, now), long: newRing(queueLongStep, queueLongPoints, queueSize, now), changed: now, memory: memory,
	}
}

// idle returns the memory of the queue that has not changed for the longest time, if a row needs it more.
func (q *queues) idle(now time.Time, row *Queue) *budget.Reservation {
	var least record.ID
	var old *queueRings
	for id, r := range q.rings { //tidy:unordered the least one
		if old == nil || r.changed.Before(old.changed) {
			least, old = id, r
		}
	}
	if old == nil || !row.busy() || now.Sub(old.changed) < queueIdle {
		return nil
	}
	delete(q.rings, least)
	return old.memory
}

func (r *queueRings) add(now time.Time, row *Queue) {
	if row.Values != r.before.Values {
		r.changed = now
	}
	if fill(r.short.next(now), &r.before, row, now.Sub(r.at), !r.at.IsZero()) {
		r.before, r.at = *row, now
	}
	if fill(r.long.next(now), &r.longer, row, now.Sub(r.longerAt), !r.longerAt.IsZero()) {
		r.longer, r.longerAt = *row, now
	}
}

// fill writes the figures of a row, unless it is nil. The rates of the first one are unknown.
func fill(to []float32, before, now *Queue, over time.Duration, known bool) bool {
	for i := range to {
		switch {
		case queueTable[i].unit != perSecond:
			to[i] = float32(now.Values[i])
		case known:
			to[i] = float32(max(0, now.Values[i]-before.Values[i]) / over.Seconds())
		default:
			to[i] = absent
		}
	}
	return to != nil
}

// QueueValues is the largest number of values in a window of a queue.
const QueueValues = queueSize * max(shortPoints, queueLongPoints)

// QueueWindow returns the figures of a queue over a span that ends now, at most a day. ok is false if there
// are none: the broker does not lead, or has no memory for more queues.
func (s *Sampler) QueueWindow(id record.ID, span time.Duration) (w Window, ok bool) {
	return s.queueWindow(id, span, time.Now())
}

func (s *Sampler) queueWindow(id record.ID, span time.Duration, now time.Time) (w Window, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.queues.rings[id]
	if r == nil {
		return w, false
	}
	of := &r.long
	if span <= shortPoints*shortStep {
		of = &r.short
	}
	return of.window(span, now, func(i int) (string, string) { return queueTable[i].name, queueTable[i].unit }), true
}
