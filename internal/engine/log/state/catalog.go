package state

import "github.com/sebbroker/seb/record"

// Propose applies one state record to a catalog, or returns why it is refused and changes nothing.
// Apply accepts the accepted records in the same order. All decisions are made here, before
// freezing, so that Apply is a pure fold (rule R12).
func (s *State) Propose(r *Record) error {
	if err := s.Refuses(r); err != nil {
		return err
	}
	if !s.fits(s.growth(r)) {
		return s.full(false)
	}
	if r.Kind == PackInstall {
		s.packsForWrite()[PackID{s.Pos.Epoch, r.Pack.ID}] = Pack{Installed: true}
	}
	s.applyRecord(r)
	return nil
}

// Refuses returns the error of Propose, except for a lack of memory, and changes nothing.
func (s *State) Refuses(r *Record) error {
	t := s.topics[r.Topic]
	switch r.Kind {
	case TopicCreate:
		if t != nil || s.names[r.Name] != nil {
			return ErrTopicExists
		}
	case TopicDelete, TopicChange:
		if t == nil {
			return ErrUnknownTopic
		}
		if r.Partitions != 0 && r.Partitions < uint32(t.Partitions.Len()) {
			return ErrShrink
		}
	case TopicTrim, OffsetCommit, CompactionDone, QueueUpdate:
		if t == nil {
			return ErrUnknownTopic
		}
		if r.Partition >= uint32(t.Partitions.Len()) {
			return ErrUnknownPartition
		}
		if r.Kind == QueueUpdate && s.Level < LevelQueues {
			return &LevelError{Needs: LevelQueues, Has: s.Level}
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
	case TransactionUpdate:
		return s.refusesTransaction(r)
	case ProducersForget:
		if s.Level < LevelProducers {
			return &LevelError{Needs: LevelProducers, Has: s.Level}
		}
	case TimeReset:
		if s.Level < LevelRecovery {
			return &LevelError{Needs: LevelRecovery, Has: s.Level}
		}
		if r.Time >= s.AppendTime {
			return ErrNotLater
		}
	case AccessChange:
		if err := s.proposeAccess(r.Access); err != nil {
			return err
		}
	case OffsetDelete:
		if s.groups[r.Name] == nil {
			return ErrUnknownGroup
		}
	}
	return nil
}

// Reserve assigns span offsets of a partition in a catalog and returns the first. expected < 0
// means any offset.
func (s *State) Reserve(topic record.ID, partition, span uint32, expected int64) (int64, error) {
	t := s.topics[topic]
	if _, err := s.reservable(t, partition, expected, 0); err != nil {
		return 0, err
	}
	p := s.partitionForWrite(t, partition)
	base := p.Next
	p.Next += int64(span)
	return base, nil
}

// Reservable returns the error of Reserve if the tables have grown by held bytes before, and changes
// nothing. grown is held with the growth by this partition.
func (s *State) Reservable(topic record.ID, partition uint32, expected, held int64) (grown int64, err error) {
	return s.reservable(s.topics[topic], partition, expected, held)
}

func (s *State) reservable(t *Topic, partition uint32, expected, held int64) (grown int64, err error) {
	if t == nil {
		return held, ErrUnknownTopic
	}
	if partition >= uint32(t.Partitions.Len()) {
		return held, ErrUnknownPartition
	}
	now := t.Partitions.At(int(partition))
	if now == unwritten {
		held += writtenMemory
	}
	switch {
	case expected >= 0 && expected != now.Next:
		return held, &OffsetMismatchError{Expected: expected, Next: now.Next}
	case now == unwritten && !s.fits(held):
		return held, s.full(false)
	case s.Room.RangesFull:
		return held, s.full(true)
	}
	return held, nil
}

// Unreserve gives back the offsets of the last Reserve of a partition.
func (s *State) Unreserve(topic record.ID, partition, span uint32) {
	s.partitionForWrite(s.topics[topic], partition).Next -= int64(span)
}

// Freezing tells a catalog the append time of the next slot before batches of producers are proposed
// for it.
func (s *State) Freezing(appendTime int64) { s.slotTime = appendTime }

// Froze records in a catalog that a slot was frozen: the next slot has the next number and a later
// append time. It must also name this slot's head (rule R2), whose checksum is known only after
// encoding.
func (s *State) Froze(appendTime int64) {
	s.Pos.Slot++
	s.AppendTime = appendTime
	s.Latest = max(s.Latest, appendTime)
}
