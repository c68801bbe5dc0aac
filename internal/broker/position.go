package broker

import (
	"github.com/sebbroker/seb/internal/follow"
	"github.com/sebbroker/seb/internal/log/core"
	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/record"
)

// Position is the newest committed slot with the partitions of topics as that slot left them. known is false while no state is
// known.
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

// TopicRef says how to find a topic, and what its records' timestamps are.
type TopicRef struct {
	Name       string
	ID         record.ID
	Partitions int
	AppendTime bool              // they are the log's append times
	Settings   map[string]string // those that are set; read-only
}

// TopicNamed finds a topic by its name; ok is false if it is not there.
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

// Leads is whether this broker leads, as far as it knows: another one may have taken over without its having noticed. What
// others committed before it began to lead is in its state then.
func (b *Broker) Leads() bool { return b.log.Status().Role == core.RoleLeader }

// Place is the committed position, with the nonce of its epoch; known is false while no state is known.
func (b *Broker) Place() (pos state.Position, nonce record.ID, known bool) {
	b.log.Read(func(s *state.State) { pos, nonce, known = s.Pos, s.Nonce, true })
	return pos, nonce, known
}

// Passed is whether a position, of an epoch with a nonce, is one of this log up to where it is known. Of an epoch that the
// state has forgotten that is not known any more: then it is taken to be.
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

// Seen is the end of the committed log as a data folder remembers it; known is false while no state is known. It goes over
// every partition.
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
