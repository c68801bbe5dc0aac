package state

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/sebbroker/seb/record"
)

const (
	// OffsetsMax bounds the committed offsets of all groups together.
	OffsetsMax = 100_000
	// CommitMin and CommitMax bound a committed offset. Kafka clients commit negative offsets, such
	// as -2 for the earliest, and treat them as no offset.
	CommitMin = -1024
	CommitMax = math.MaxInt64 + CommitMin
)

// PartitionID identifies a partition of a topic.
type PartitionID struct {
	Topic     record.ID
	Partition uint32
}

// Committed is a group's offset in a partition.
type Committed struct {
	Offset   int64 // next offset to read; negative: none, committed by a Kafka client
	Metadata string
	Time     int64 // of the commit, µs
}

// Group is the committed offsets of a consumer group. Read-only outside this package.
type Group struct {
	Name    string
	Offsets map[PartitionID]Committed
	gen     uint64
}

// Group returns a group, or nil.
func (s *State) Group(name string) *Group { return s.groups[name] }

// Groups returns all groups by name.
func (s *State) Groups() []*Group {
	all := make([]*Group, 0, len(s.groups))
	for _, g := range s.groups {
		all = append(all, g)
	}
	slices.SortFunc(all, func(a, b *Group) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// CommittedOffset is the offset that a group has committed, -1 if none.
func (s *State) CommittedOffset(group string, p PartitionID) int64 {
	if g := s.groups[group]; g != nil {
		if c, ok := g.Offsets[p]; ok {
			return max(-1, c.Offset)
		}
	}
	return -1
}

func (s *State) hasOffset(r *Record) bool {
	g := s.groups[r.Name]
	if g == nil {
		return false
	}
	_, ok := g.Offsets[PartitionID{r.Topic, r.Partition}]
	return ok
}

// groupForWrite returns a group that no view shares, creating it if needed.
func (s *State) groupForWrite(name string) *Group {
	g := s.groups[name]
	if g != nil && g.gen == s.gen {
		return g
	}
	n := &Group{Name: name, gen: s.gen, Offsets: map[PartitionID]Committed{}}
	if g != nil {
		n.Offsets = maps.Clone(g.Offsets)
	} else {
		s.tally.text += len(name)
	}
	s.groups[name] = n
	return n
}

func (s *State) commitOffset(r *Record) {
	g, id := s.groupForWrite(r.Name), PartitionID{r.Topic, r.Partition}
	if old, known := g.Offsets[id]; known {
		s.tally.countOffset(&old, -1)
	}
	c := Committed{r.Offset, r.Metadata, r.Time}
	s.tally.countOffset(&c, 1)
	g.Offsets[id] = c
}

// deleteOffset deletes one offset or a whole group. A group without offsets does not exist.
func (s *State) deleteOffset(r *Record) {
	if s.groups[r.Name] == nil {
		return
	}
	g := s.groupForWrite(r.Name)
	forget := func(id PartitionID, c Committed) {
		s.tally.countOffset(&c, -1)
		delete(g.Offsets, id)
	}
	id := PartitionID{r.Topic, r.Partition}
	if r.Topic.IsZero() {
		for id, c := range g.Offsets {
			forget(id, c)
		}
	} else if c, known := g.Offsets[id]; known {
		forget(id, c)
	}
	if len(g.Offsets) == 0 {
		delete(s.groups, r.Name)
		s.tally.text -= len(r.Name)
	}
}

// forgetTopic removes a deleted topic from groups, packs and the memory count.
func (s *State) forgetTopic(t *Topic) {
	s.tally.countTopic(t, -1)
	if s.changes != nil {
		s.changes.forgetTopic(s, t)
	}
	for _, p := range t.Partitions.Written() {
		s.tally.countPartition(p, -1)
		for i := range p.Ranges {
			s.dereference(&p.Ranges[i])
		}
	}
	s.transactionsWithout(t.ID)
	for _, g := range s.Groups() {
		for id := range g.Offsets {
			if id.Topic == t.ID {
				s.deleteOffset(&Record{Name: g.Name, Topic: id.Topic, Partition: id.Partition})
			}
		}
	}
}
