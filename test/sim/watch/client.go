package watch

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/internal/trigger/rule"

	"github.com/sebbroker/seb/record"
)

// expressions are what triggers say. Their windows are those of spans.
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

// entity is one of the newest: now and then a new one comes.
func (s *Sim) entity() string {
	if s.r.IntN(20) == 0 {
		s.entities++
	}
	return fmt.Sprintf("u%d", s.entities+s.r.IntN(s.cfg.Entities))
}

// post posts some events of an entity, and has others follow: at once, or when a window ends, to the millisecond.
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
		if s.r.IntN(2) == 0 { // somebody else is there just before, in the same millisecond
			s.post(s.entity(), 5)
		}
		s.w.After(s.upTo(400*time.Microsecond), func() { s.post(entity, depth+1) })
	})
}

// close lets something happen to a new entity, and what ends a window just as the window ends, to the millisecond: before it,
// with it, or behind it.
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
		if s.r.IntN(3) > 0 { // somebody else is there just before, in the same millisecond
			s.say(s.entity(), "D")
		}
		s.w.After(s.upTo(300*time.Microsecond), func() { s.say(entity, end.name) })
	})
}

// say appends an event of a name.
func (s *Sim) say(entity, name string) {
	if b := s.w.Leader(); b != nil && !s.w.Calm() && !s.silent() {
		s.posted++
		s.send(b, rule.Event{Name: name, EntityID: entity, Data: json.RawMessage(fmt.Sprintf(`{"x":3,"n":%d}`, s.posted))}, 0)
	}
}

// send appends an event. One with an id is sent again, maybe to another broker, when it is not known to be there.
func (s *Sim) send(b *Broker, e rule.Event, times int) {
	value, err := json.Marshal(e)
	if err != nil {
		s.w.Fail("simulator: %v", err)
		return
	}
	t, ok := b.log.Topic(topicEvents)
	if !ok {
		return // no trigger was made yet
	}
	h := fnv.New32a()
	h.Write([]byte(e.EntityID))
	part := h.Sum32() % uint32(t.Partitions)
	s.Counts.Events++
	s.flying[b]++
	b.host.Append(topicEvents, part, []record.Record{{Key: []byte(e.EntityID), Value: value}}, func(_ int64, ok bool) {
		s.flying[b]--
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

// change has a broker change a definition, and gives up at some time.
func (s *Sim) change(f func(ctx context.Context, b *Broker) error) {
	b := s.w.Leader()
	if b == nil || b.engine == nil || b.changing || s.again != nil && !s.again.deleted {
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

// put makes a trigger, or a new version of it.
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
		_, err := b.engine.Put(ctx, d)
		return err
	})
}

// pause pauses a trigger, or ends that.
func (s *Sim) pause() {
	id, paused := s.name(), s.r.IntN(3) == 0
	s.change(func(ctx context.Context, b *Broker) error { return b.engine.Pause(ctx, id, paused) })
}
