package rules

import (
	"maps"
	"slices"
	"testing"

	"github.com/sebbroker/seb/driplang/monitor"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"

	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
)

// logEvent is an event of an entity in the log; an erasure has no name.
type logEvent struct {
	rule.Event
	at, offset int64
}

// histories returns the events of each entity of a partition, without duplicates.
func (l *fakeLog) histories(t testing.TB, part uint32) map[string][]logEvent {
	topic, _ := l.Topic("events")
	l.mu.Lock()
	defer l.mu.Unlock()
	all, seen := map[string][]logEvent{}, map[[2]string]int64{}
	var r record.Reader
	for _, b := range l.topicLocked(topic.ID).parts[part].batches {
		for r.Reset(b, 0); r.Next(); {
			rec := r.Record()
			h := logEvent{at: rec.Timestamp, offset: rec.Offset}
			if rec.Value != nil {
				var err error
				if h.Event, err = rule.ParseEvent(rec.Key, rec.Value); err != nil {
					continue
				}
				k := [2]string{h.EntityID, h.ID}
				if before, ok := seen[k]; h.ID != "" && ok && h.at-before <= rule.Horizon {
					continue
				}
				seen[k] = h.at
			}
			all[string(rec.Key)] = append(all[string(rec.Key)], h)
		}
		must.NoError(t, r.Err())
	}
	return all
}

// expected is a firing that follows from the definition.
type expected struct {
	entity, cause string
	at, retracted int64
	state         rule.State
	erased        bool // the entity was erased later: the firing may be recorded
}

// bruteForce finds the firings of a version by evaluating every millisecond up to an instant. It
// shares only the monitor with the engine, and uses neither its states nor its deadlines.
type bruteForce struct {
	d            rule.Definition
	part         uint32
	program      *monitor.Program
	m            *monitor.Monitor
	value        bool
	fired        bool
	startChecked bool
	last         int64
	retractable  *expected
	found        []*expected
	entity       string
}

func (b *bruteForce) run(history []logEvent, until int64) []*expected {
	b.reset()
	i := 0
	for t := history[0].at; t <= until+1; t++ { // the next instant may have only some of its events
		for ; i < len(history) && history[i].at == t; i++ {
			h := history[i]
			past := h.at <= b.d.At || int(b.part) < len(b.d.From) && h.offset < b.d.From[b.part]
			if !past {
				b.checkStart()
			}
			if h.Name == "" {
				b.erase()
				continue
			}
			if past && b.d.Backfill == rule.None {
				continue
			}
			if k := b.program.Match(h.Name, h.Data); k != 0 {
				b.m.Step(k, t, uint64(h.offset))
				b.observe(t, rule.EventCause(b.part, h.offset), past)
			}
		}
		if t > until {
			break
		}
		if t > b.d.At {
			b.checkStart()
		}
		b.m.Advance(t)
		b.observe(t, rule.DeadlineCause(t, b.part), t <= b.d.At)
	}
	return b.found
}

func (b *bruteForce) reset() {
	b.m = monitor.New(b.program)
	b.value, b.fired, b.last, b.retractable = false, false, 0, nil
}

func (b *bruteForce) erase() {
	for _, x := range b.found {
		x.erased = true
	}
	b.reset()
	b.startChecked = false
}

func (b *bruteForce) checkStart() {
	if b.d.Backfill != rule.Current || b.startChecked {
		return
	}
	b.startChecked = true
	if b.value {
		b.fire(b.d.At, rule.StartCause(b.d.At, b.part, b.d.From[b.part]), false)
	}
}

func (b *bruteForce) observe(at int64, cause string, past bool) {
	is := b.m.Value() == monitor.True
	if is && !b.value && (b.d.Fire != rule.Once || !b.fired) {
		b.fire(at, cause, past)
	}
	if !is && b.value && b.retractable != nil {
		b.retractable.retracted, b.retractable = at, nil
	}
	b.value = b.m.Value() == monitor.True // a reset may have changed the value
}

func (b *bruteForce) fire(at int64, cause string, past bool) {
	x := &expected{entity: b.entity, cause: cause, at: at, state: rule.Pending}
	cool := b.d.Cooldown > 0 && b.fired && at < b.last+b.d.Cooldown
	switch {
	case past && b.d.Backfill != rule.Replay:
		x.state = rule.Historic
	case cool:
		x.state = rule.Suppressed
	case b.d.OnRetract == rule.Notify:
		b.retractable = x
	}
	if !cool {
		b.last = at
	}
	b.fired = true
	b.found = append(b.found, x)
	if b.d.Fire == rule.OnReset {
		b.m.Reset()
	}
}

// expect returns all firings that a version must have by an instant, by ID.
func (l *fakeLog) expect(t testing.TB, d rule.Definition, until int64) map[rule.ID]*expected {
	program := must.Get(monitor.Compile(d.Expr, monitor.Options{}))(t)
	all := map[rule.ID]*expected{}
	for part := range uint32(2) {
		histories := l.histories(t, part)
		for _, entity := range slices.Sorted(maps.Keys(histories)) {
			b := bruteForce{d: d, part: part, program: program, entity: entity}
			for _, x := range b.run(histories[entity], until) {
				all[rule.MakeID(d.ID, d.Version, entity, x.cause)] = x
			}
		}
	}
	return all
}
