package broker

import (
	"context"
	"time"

	"github.com/sebbroker/seb/internal/engine/base/pause"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/views"
	"github.com/sebbroker/seb/record"
)

// Position returns the time of the newest committed slot, and the bounds of the topics' partitions
// after that slot, up to their last stable offsets. known is false before the state is known.
func (b *Broker) Position(topics ...record.ID) (p views.Position, known bool) {
	p.Topics = make([][]views.Span, len(topics))
	b.log.Read(func(s *state.State) {
		known, p.Time = true, s.AppendTime
		for i, id := range topics {
			t := s.Topic(id)
			if t == nil {
				continue
			}
			p.Topics[i] = make([]views.Span, t.Partitions.Len())
			for j, q := range t.Partitions.All() {
				p.Topics[i][j] = views.Span{Start: q.Start, Next: q.LastStable(), Open: openSince(s, q)}
			}
		}
	})
	return p, known
}

// openSince returns when the oldest of the transactions began that are open in a partition (µs); 0: none is. It may
// have begun in another partition, before its first batch in this one.
func openSince(s *state.State, p *state.Partition) (at int64) {
	for i := range p.Open {
		if t := s.TransactionOf(p.Open[i].Producer); t != nil && (at == 0 || t.Started < at) {
			at = t.Started
		}
	}
	return at
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
		seen = core.Seen{Cluster: s.Cluster, Epoch: s.Pos.Epoch, Nonce: s.Nonce, Slot: s.Pos.Slot, Highest: Highest(s)}
	})
	return seen, known
}

// Highest is the highest next offset of any partition. It visits every partition.
func Highest(s *state.State) (highest int64) {
	for _, t := range s.Topics() {
		for _, p := range t.Partitions.Written() {
			highest = max(highest, p.Next)
		}
	}
	return highest
}

// freshFor is the age up to which Fresh reuses a confirmation. A follower with readers polls as
// often.
const freshFor = time.Second

// endEvery is the time between two confirmations of ConfirmEnd: a client that polls beyond the end of the
// log may do so without a pause.
const endEvery = 500 * time.Millisecond

// freshness is the last confirmation of Fresh, or of ConfirmEnd.
type freshness struct {
	semaphore chan struct{} // semaphore: held to read and write the times, and during a confirmation
	began     time.Time     // when the last confirmation began
	at        time.Time     // when the last successful one did
}

func newFreshness() freshness { return freshness{semaphore: make(chan struct{}, 1)} }

// within ensures that a successful confirmation began at most age before the call, or after it. At most one
// begins in each time of every.
//
// Concurrent calls share one confirmation: a call that waits for the semaphore behind a confirmation
// finds at, and reuses that result. Errors: those of confirm.
func (f *freshness) within(ctx context.Context, age, every time.Duration, confirm func(ctx context.Context) error) error {
	called := time.Now()
	select {
	case f.semaphore <- struct{}{}:
		defer func() { <-f.semaphore }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if called.Sub(f.at) < age {
		return nil
	}
	if wait := every - time.Since(f.began); wait > 0 {
		if err := pause.Wait(ctx, wait); err != nil {
			return err
		}
	}
	f.began = time.Now()
	if err := confirm(ctx); err != nil {
		return err
	}
	f.at = f.began
	return nil
}

// Fresh ensures that a follower has seen all commits up to one second before the call, so that
// lists and names are no older (rule R11). A leader knows its own commits. A follower asks the store
// only if its leader does not tell it. Errors: those of Confirm.
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
	return b.fresh.within(ctx, age, 0, b.Confirm)
}
