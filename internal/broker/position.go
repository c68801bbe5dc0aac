package broker

import (
	"context"
	"time"

	"github.com/sebbroker/seb/internal/follow"
	"github.com/sebbroker/seb/internal/log/core"
	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/record"
)

// Position returns the time of the newest committed slot, and the bounds of the topics' partitions
// after that slot. known is false before the state is known.
func (b *Broker) Position(topics ...record.ID) (p follow.Position, known bool) {
	p.Topics = make([][]follow.Span, len(topics))
	b.log.Read(func(s *state.State) {
		known, p.Time = true, s.AppendTime
		for i, id := range topics {
			t := s.Topic(id)
			if t == nil {
				continue
			}
			p.Topics[i] = make([]follow.Span, t.Partitions.Len())
			for j, q := range t.Partitions.All() {
				p.Topics[i][j] = follow.Span{Start: q.Start, Next: q.Next}
			}
		}
	})
	return p, known
}

// TopicRef identifies a topic, with its settings.
type TopicRef struct {
	Name       string
	ID         record.ID
	Partitions int
	AppendTime bool              // the records' timestamps are the log's append times
	Settings   map[string]string // explicit settings only; read-only
}

// TopicNamed finds a topic by its name; ok is false if there is none.
func (b *Broker) TopicNamed(name string) (r TopicRef, ok bool) {
	b.log.Read(func(s *state.State) { r, ok = refTo(s.TopicByName(name)) })
	return r, ok
}

// TopicOf finds a topic by its id.
func (b *Broker) TopicOf(id record.ID) (r TopicRef, ok bool) {
	b.log.Read(func(s *state.State) { r, ok = refTo(s.Topic(id)) })
	return r, ok
}

// TopicRefs lists all topics, by name.
func (b *Broker) TopicRefs() (refs []TopicRef) {
	b.log.Read(func(s *state.State) {
		refs = make([]TopicRef, 0, s.Len())
		for _, t := range s.Topics() {
			r, _ := refTo(t)
			refs = append(refs, r)
		}
	})
	return refs
}

func refTo(t *state.Topic) (TopicRef, bool) {
	if t == nil {
		return TopicRef{}, false
	}
	return TopicRef{Name: t.Name, ID: t.ID, Partitions: t.Partitions.Len(), AppendTime: t.LogAppendTime(), Settings: t.Settings}, true
}

// LogPosition returns the committed position and the nonce of its epoch. known is false before the
// state is known.
func (b *Broker) LogPosition() (pos state.Position, nonce record.ID, known bool) {
	b.log.Read(func(s *state.State) { pos, nonce, known = s.Pos, s.Nonce, true })
	return pos, nonce, known
}

// Passed reports whether a position, with the nonce of its epoch, is part of this log up to the
// known end. A position of an epoch that the state has forgotten counts as passed.
func (b *Broker) Passed(pos state.Position, nonce record.ID) (passed bool) {
	b.log.Read(func(s *state.State) {
		if pos.Epoch == s.Pos.Epoch {
			passed = nonce == s.Nonce && !s.Pos.Less(pos)
			return
		}
		passed = pos.Epoch < s.Pos.Epoch
		for _, e := range s.Epochs {
			if e.Number == pos.Epoch {
				passed = passed && e.Nonce == nonce && pos.Slot <= e.Seal
			}
		}
	})
	return passed
}

// Seen returns the end of the committed log in the form that the data directory records. known is
// false before the state is known. It visits every partition.
func (b *Broker) Seen() (seen core.Seen, known bool) {
	b.log.Read(func(s *state.State) {
		known = true
		seen = core.Seen{Cluster: s.Cluster, Epoch: s.Pos.Epoch, Nonce: s.Nonce, Slot: s.Pos.Slot}
		for _, t := range s.Topics() {
			for _, p := range t.Partitions.Written() {
				seen.Highest = max(seen.Highest, p.Next)
			}
		}
	})
	return seen, known
}

// freshFor is the age up to which Fresh reuses a confirmation. A follower with readers polls as
// often.
const freshFor = time.Second

// freshness is the last confirmation that Fresh made.
type freshness struct {
	semaphore chan struct{} // semaphore: held to read and write at, and during a confirmation
	at        time.Time     // when the last successful confirmation began
}

// Fresh ensures that a follower has seen all commits up to one second before the call, so that
// lists and names are no older (rule R11). A leader knows its own commits. A follower asks the store
// only if its leader does not tell it.
//
// Concurrent calls share one confirmation. A call that waits for the semaphore behind a
// confirmation finds at within freshFor of its own start, and reuses that result. Errors: those of
// Confirm.
func (b *Broker) Fresh(ctx context.Context) error { return b.FreshWithin(ctx, freshFor) }

// FreshWithin is Fresh with another age of the state.
func (b *Broker) FreshWithin(ctx context.Context, age time.Duration) error {
	if !b.Follows() {
		return nil
	}
	if b.opt.Told != nil {
		if pos, old, ok := b.opt.Told(); ok && old < age && b.Applied(pos) {
			return nil
		}
	}
	called := time.Now()
	select {
	case b.fresh.semaphore <- struct{}{}:
		defer func() { <-b.fresh.semaphore }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if called.Sub(b.fresh.at) < age {
		return nil
	}
	began := time.Now()
	if err := b.Confirm(ctx); err != nil {
		return err
	}
	b.fresh.at = began
	return nil
}
