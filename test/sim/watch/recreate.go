package watch

import (
	"context"
	"fmt"
	"time"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/triggers/rules"
	"github.com/sebbroker/seb/record"
)

// quietly triggers an action, then stops events for a while, and puts new triggers between two
// events: windows have ended since the last one.
func (s *Sim) quietly() {
	s.say(s.entity(), []string{"A", "A", "B"}[s.r.IntN(3)])
	s.Counts.Quiet++
	s.quiet = s.w.Now() + int64(s.around(2*24*time.Hour))
	for range 2 {
		s.late++
		id := fmt.Sprint("late", s.late)
		s.w.After(spans[s.r.IntN(len(spans))]+s.upTo(time.Hour), func() { s.putAs(id) })
	}
}

// silent reports whether no events are posted now.
func (s *Sim) silent() bool { return s.recreating != nil || s.w.Now() < s.quiet }

// recreation is the deletion by force and recreation of a topic of events.
type recreation struct {
	id      record.ID
	deleted bool
}

// remove deletes the topic of events by force, after everything in it was read. Unread events would
// be lost, and the definitions would require firings that no engine can know.
func (s *Sim) remove() {
	b := s.w.Leader()
	if b == nil || s.recreating != nil || s.w.Calm() {
		return
	}
	t, ok := b.log.Topic(topicEvents)
	if !ok {
		return
	}
	s.recreating = &recreation{id: t.ID}
	s.w.After(time.Hour, s.removing)
}

// removing repeats a deletion until the topic is deleted, and schedules its creation.
func (s *Sim) removing() {
	next := func() { s.w.After(s.around(30*time.Minute), s.removing) }
	b := s.w.Leader()
	if b == nil {
		next()
		return
	}
	if t, ok := b.log.Topic(topicEvents); !ok || t.ID != s.recreating.id {
		s.recreating.deleted = true
		s.Counts.Removed++
		s.w.After(s.around(24*time.Hour), s.create)
		return
	}
	if s.w.Calm() {
		s.recreating = nil
		return
	}
	if b.engine == nil || b.changing || s.inflight[b] > 0 || !b.read() {
		next()
		return
	}
	// The result is checked later.
	b.host.Change(topicEvents, &state.Record{Kind: state.TopicDelete}, func(bool) {})
	next()
}

// read reports whether the engine has read all events for all triggers, those included whose client
// has not waited for the engine.
func (b *Broker) read() bool {
	list, err := b.engine.Triggers()
	if err != nil || b.engine.Lag() != 0 || len(list) != len(b.s.truth.ids) {
		return false
	}
	for i := range list {
		versions := b.s.truth.versions[list[i].ID]
		if list[i].Backfilling || list[i].Late || list[i].Version != versions[len(versions)-1].Version {
			return false
		}
	}
	return b.log.events == b.log.eventsEnd()
}

// create creates the topic of events again, unless a new trigger has done so.
func (s *Sim) create() {
	b := s.w.Leader()
	if b != nil {
		if _, ok := b.log.Topic(topicEvents); ok {
			s.recreating = nil
			return
		}
		b.begin(func(ctx context.Context, _ *call) {
			_ = b.log.Create(ctx, topicEvents, eventParts, rules.AppendTimes) // it is tried again
		})
	}
	s.w.After(s.around(30*time.Minute), s.create)
}

// Removed processes the deletion of a topic, by its name and ID.
func (s *Sim) Removed(topic string, id record.ID) {
	if s != nil && topic == topicEvents {
		s.truth.removed = append(s.truth.removed, id.String())
	}
}
