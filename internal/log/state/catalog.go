package state

import (
	"errors"

	"github.com/sebbroker/seb/record"
)

// Why a proposal does not fit the state.
var (
	ErrTopicExists = errors.New("topic exists")
	ErrNoTopic     = errors.New("no such topic")
	ErrNoPartition = errors.New("no such partition")
	ErrShrink      = errors.New("partitions can not be taken away")
	ErrNotNext     = errors.New("not the next offset")
	ErrNoGroup     = errors.New("no such consumer group")
	ErrFull        = errors.New("the table is full")
	ErrSequence    = errors.New("producer sequence out of order")
	ErrOldProducer = errors.New("producer epoch is over")
	ErrPackKnown   = errors.New("pack is installed already")
	ErrBeyondEnd   = errors.New("offset beyond the end")
	ErrStateFull   = errors.New("the tables of the state are full")
	ErrRangesFull  = errors.New("the ranges of the state are full")
	ErrNotLater    = errors.New("the log's time is not later than that")
)

// Propose applies one state record to a catalog, or says why it does not fit and changes nothing. What it accepts, Apply
// accepts in the same order: deciding happens here, before freezing (rule R12).
func (s *State) Propose(r *Record) error {
	t := s.topics[r.Topic]
	switch r.Kind {
	case TopicCreate:
		if t != nil || s.names[r.Name] != nil {
			return ErrTopicExists
		}
	case TopicDelete, TopicChange:
		if t == nil {
			return ErrNoTopic
		}
		if r.Partitions != 0 && r.Partitions < uint32(t.Partitions.Len()) {
			return ErrShrink
		}
	case TopicTrim, OffsetCommit, CompactionDone:
		if t == nil {
			return ErrNoTopic
		}
		if r.Partition >= uint32(t.Partitions.Len()) {
			return ErrNoPartition
		}
		if r.Kind == TopicTrim && r.Offset > t.Partitions.At(int(r.Partition)).Next {
			return ErrBeyondEnd
		}
		if r.Kind == OffsetCommit && s.tally.offsets >= OffsetsMax && !s.hasOffset(r) {
			return ErrFull
		}
	case PackInstall:
		id := PackID{s.Pos.Epoch, r.Pack.ID}
		if s.packs[id].Installed {
			return ErrPackKnown
		}
	case FormatLevel:
		if r.Level <= s.Level {
			return ErrLevelKnown
		}
	case TimeReset:
		if s.Level < LevelRecovery {
			return &LevelError{Needs: LevelRecovery, Has: s.Level}
		}
		if r.Time >= s.AppendTime {
			return ErrNotLater
		}
	case OffsetDelete:
		if s.groups[r.Name] == nil {
			return ErrNoGroup
		}
	}
	if !s.takes(s.growth(r)) {
		return ErrStateFull
	}
	if r.Kind == PackInstall {
		s.packsForWrite()[PackID{s.Pos.Epoch, r.Pack.ID}] = Pack{Installed: true}
	}
	s.applyRecord(r)
	return nil
}

// Reserve takes span offsets of a partition in a catalog and returns the first, or with ErrNotNext the next offset there
// is. expected < 0 asks for nothing.
func (s *State) Reserve(topic record.ID, partition, span uint32, expected int64) (int64, error) {
	t := s.topics[topic]
	if t == nil {
		return 0, ErrNoTopic
	}
	if partition >= uint32(t.Partitions.Len()) {
		return 0, ErrNoPartition
	}
	now := t.Partitions.At(int(partition))
	switch {
	case expected >= 0 && expected != now.Next:
		return now.Next, ErrNotNext
	case now == unwritten && !s.takes(writtenMemory):
		return 0, ErrStateFull
	case s.Room.RangesFull:
		return 0, ErrRangesFull
	}
	p := s.partitionForWrite(t, partition)
	base := p.Next
	p.Next += int64(span)
	return base, nil
}

// Froze notes in a catalog that a slot was frozen: the next one is another, later, and must name this one's head (rule
// R2). The head's checksum is known after it was encoded.
func (s *State) Froze(appendTime int64) {
	s.Pos.Slot++
	s.AppendTime = appendTime
	s.Latest = max(s.Latest, appendTime)
}
