package watch

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"

	"github.com/sebbroker/seb/record"
)

// expressions are those of the triggers. Their windows are those of spans.
var expressions = []string{
	"A THEN (NOT B WITHIN 1h)", "A THEN (NOT B WITHIN 3d)", "A THEN (NOT B WITHIN 6h)", "A THEN (NOT C WITHIN 1d)", "A THEN (B WITHIN 6h)", "A THEN (NOT B WITHIN 10m) THEN C",
	"A THEN ((NOT B WITHIN 6h) AND (NOT C WITHIN 1d))", "A THEN (NOT B WITHIN 10m) THEN (NOT C WITHIN 1h)",
	"A OR (B THEN (NOT C WITHIN 3d))", "B THEN (NOT (A THEN C) WITHIN 1d)", "A THEN (C AFTER 1h)", "A THEN (B WITHIN 1d AFTER 10m)",
	"A", "A THEN B", "(NOT A) THEN B", "A THEN (NOT B)", "A AND NOT C", "count(A) >= 3", "A[x > 2] THEN (NOT B[x < 2] WITHIN 6h)",
}

var spans = []time.Duration{10 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour, 3 * 24 * time.Hour}

// clients post events and change triggers until the calm.
func (s *Sim) clients() {
	every := func(mean time.Duration, f func()) {
		if mean == 0 {
			return
		}
		var next func()
		next = func() {
			if s.w.Calm() {
				return
			}
			f()
			s.w.After(s.around(mean), next)
		}
		s.w.After(s.upTo(mean), next)
	}
	for range s.cfg.Triggers {
		s.w.After(s.upTo(2*time.Hour), s.put)
	}
	every(s.cfg.EventEvery, func() { s.post(s.entity(), 0) })
	every(2*s.cfg.EventEvery, s.close)
	every(s.cfg.PutEvery, s.put)
	every(s.cfg.PauseEvery, s.pause)
	every(s.cfg.QuietEvery, s.quietly)
	every(s.cfg.RemoveEvery, s.remove)
}

// entity returns one of the newest entities; sometimes it adds one.
func (s *Sim) entity() string {
	if s.r.IntN(20) == 0 {
		s.entities++
	}
	return fmt.Sprintf("u%d", s.entities+s.r.IntN(s.cfg.Entities))
}

// post posts events of an entity and schedules others: immediately, or exactly when a window ends.
func (s *Sim) post(entity string, depth int) {
	b := s.w.Leader()
	if b == nil || s.w.Calm() || s.silent() {
		return
	}
	for range 1 + s.r.IntN(5)/4 {
		e := rule.Event{Name: string(rune('A' + s.r.IntN(4))), EntityID: entity}
		s.posted++
		e.Data = json.RawMessage(fmt.Sprintf(`{"x":%d,"n":%d}`, s.r.IntN(5), s.posted))
		if s.r.IntN(3) == 0 {
			e.ID = fmt.Sprint("i", s.r.IntN(40))
		}
		s.send(b, e, 3)
	}
	if depth > 4 || s.r.IntN(2) == 0 {
		return
	}
	span := spans[s.r.IntN(len(spans))]
	switch s.r.IntN(4) {
	case 0:
		span = s.upTo(span)
	case 1:
		span = s.upTo(20 * time.Millisecond)
	default:
		span += time.Duration(s.r.IntN(5)-2) * time.Millisecond
	}
	s.w.After(span, func() {
		if s.r.IntN(2) == 0 { // another entity's event comes just before, in the same millisecond
			s.post(s.entity(), 5)
		}
		s.w.After(s.upTo(400*time.Microsecond), func() { s.post(entity, depth+1) })
	})
}

// close posts events of a new entity so that a window ends with an event: just before it, exactly
// with it, or just after it.
func (s *Sim) close() {
	ends := []struct {
		name string
		span time.Duration
	}{
		{"B", 10 * time.Minute},
		{"B", time.Hour},
		{"B", 6 * time.Hour},
		{"B", 3 * 24 * time.Hour},
		{"C", time.Hour},
		{"C", 24 * time.Hour},
		{"C", 70 * time.Minute},
	}
	end := ends[s.r.IntN(len(ends))]
	s.closed++
	entity := fmt.Sprintf("w%d", s.closed)
	s.say(entity, "A")
	s.w.After(end.span+time.Duration((s.r.IntN(6)-2)/2)*time.Millisecond, func() {
		if s.r.IntN(3) > 0 { // another entity's event comes just before, in the same millisecond
			s.say(s.entity(), "D")
		}
		s.w.After(s.upTo(300*time.Microsecond), func() { s.say(entity, end.name) })
	})
}

// say posts an event with a name.
func (s *Sim) say(entity, name string) {
	if b := s.w.Leader(); b != nil && !s.w.Calm() && !s.silent() {
		s.posted++
		s.send(b, rule.Event{Name: name, EntityID: entity, Data: json.RawMessage(fmt.Sprintf(`{"x":3,"n":%d}`, s.posted))}, 0)
	}
}

// send appends an event. It repeats an event with an ID, possibly at another broker, until it is
// known to be stored.
func (s *Sim) send(b *Broker, e rule.Event, times int) {
	value, err := json.Marshal(e)
	if err != nil {
		s.w.Fail("simulator: %v", err)
		return
	}
	t, ok := b.log.Topic(topicEvents)
	if !ok {
		return // no trigger exists yet
	}
	h := fnv.New32a()
	h.Write([]byte(e.EntityID))
	part := h.Sum32() % uint32(t.Partitions)
	s.Counts.Events++
	s.inflight[b]++
	b.host.Append(topicEvents, part, []record.Record{{Key: []byte(e.EntityID), Value: value}}, func(_ int64, ok bool) {
		s.inflight[b]--
		if ok && s.r.IntN(10) > 0 || e.ID == "" || times == 0 {
			return
		}
		s.w.After(s.around(time.Hour), func() {
			if b := s.w.Leader(); b != nil && !s.w.Calm() && !s.silent() {
				s.send(b, e, times-1)
			}
		})
	})
}

// change changes a definition at a broker, with a timeout.
func (s *Sim) change(f func(ctx context.Context, b *Broker) error) {
	b := s.w.Leader()
	if b == nil || b.engine == nil || b.changing || s.recreating != nil && !s.recreating.deleted {
		return
	}
	b.changing = true
	b.begin(func(ctx context.Context, c *call) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		s.w.After(s.around(2*time.Hour), func() {
			cancel()
			c.wake(0)
		})
		err := f(ctx, b)
		b.changing = false
		if err == nil {
			s.Counts.Puts++
			return
		}
		s.w.Logf("%s: a change of a trigger: %v", b.host.Name(), err)
	})
}

func (s *Sim) name() string { return fmt.Sprint("t", s.r.IntN(s.cfg.Triggers)) }

// put creates a trigger or a new version of it.
func (s *Sim) put() { s.putAs(s.name()) }

func (s *Sim) putAs(id string) {
	expr, err := driplang.Parse(expressions[s.r.IntN(len(expressions))])
	if err != nil {
		s.w.Fail("simulator: %v", err)
		return
	}
	d := rule.Definition{ID: id, Expr: expr, CarryFired: s.r.IntN(2) == 0}
	d.Fire = []rule.Fire{rule.Once, rule.OnEdge, rule.OnReset}[s.r.IntN(3)]
	d.Backfill = []rule.Backfill{rule.Silent, rule.Current, rule.Replay, rule.None}[s.r.IntN(4)]
	if d.Fire != rule.Once && s.r.IntN(3) == 0 {
		d.Cooldown = spans[s.r.IntN(len(spans))].Milliseconds()
	}
	if d.Fire != rule.OnReset && s.r.IntN(2) == 0 {
		d.OnRetract = rule.Notify
	}
	s.change(func(ctx context.Context, b *Broker) error {
		_, err := b.engine.Put(ctx, d, nil)
		return err
	})
}

// pause pauses or resumes a trigger.
func (s *Sim) pause() {
	id, paused := s.name(), s.r.IntN(3) == 0
	s.change(func(ctx context.Context, b *Broker) error { return b.engine.Pause(ctx, id, paused) })
}
