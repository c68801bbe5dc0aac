package state

import (
	"fmt"
	"slices"

	"github.com/sebbroker/seb/record"
)

// ChainError: an object does not belong at the position where it was found, which is corruption
// (rule R9).
type ChainError struct {
	Pos    Position
	Reason string
}

func (e *ChainError) Error() string {
	return fmt.Sprintf("epoch %d slot %d: %s", e.Pos.Epoch, e.Pos.Slot, e.Reason)
}

// Check checks that a commit object's head belongs at the state's position: identity, chain of head
// checksums, and for a SEAL the number of the next epoch.
func (s *State) Check(h *record.Head) error {
	fail := func(format string, args ...any) error {
		return &ChainError{Pos: s.Pos, Reason: fmt.Sprintf(format, args...)}
	}
	switch {
	case h.Kind != record.KindData && h.Kind != record.KindSeal:
		return fail("kind %d in a slot", h.Kind)
	case h.Cluster != s.Cluster:
		return fail("cluster %s, want %s", h.Cluster, s.Cluster)
	case h.Shard != s.Shard || h.Epoch != s.Pos.Epoch || h.Slot != s.Pos.Slot || h.Nonce != s.Nonce:
		return fail("holds shard %d epoch %d nonce %s slot %d", h.Shard, h.Epoch, h.Nonce, h.Slot)
	case h.PrevCRC != s.PrevCRC && !(h.Kind == record.KindSeal && h.Flags&record.FlagAhead != 0):
		return fail("checksum %08x of the previous head, want %08x", h.PrevCRC, s.PrevCRC)
	case h.Kind == record.KindData && s.Pos.Epoch == 0:
		return fail("data in epoch 0")
	case h.Kind == record.KindSeal && h.NextEpoch != s.Pos.Epoch+1 && h.Flags&record.FlagRecovery == 0:
		return fail("seal names epoch %d", h.NextEpoch)
	}
	return nil
}

// checkTime checks that append times grow, except after a TimeReset.
func (s *State) checkTime(h *record.Head, recs []Record) error {
	after := s.AppendTime
	for i := range recs {
		if recs[i].Kind == TimeReset {
			after = recs[i].Time
		}
	}
	if h.Time <= after {
		return &ChainError{Pos: s.Pos, Reason: fmt.Sprintf("append time %d is not after %d", h.Time, after)}
	}
	return nil
}

// Apply applies a commit object at the state's position. An error means corruption (rule R9) and
// nothing was applied; a valid log never fails (rule R12).
func (s *State) Apply(h *record.Head, recs []Record, index []record.IndexEntry) error {
	if s.frozen {
		panic("state: apply to a view")
	}
	if err := s.Check(h); err != nil {
		return err
	}
	if h.Kind == record.KindSeal {
		return s.applySeal(h, recs)
	}
	if err := s.checkTime(h, recs); err != nil {
		return err
	}
	if err := s.validate(h, recs, index); err != nil {
		return err
	}
	s.slotTime = h.Time
	for i := range recs {
		if recs[i].Kind == PackInstall {
			s.installPack(h.Epoch, recs[i].Pack)
			continue
		}
		s.applyRecord(&recs[i])
	}
	for i := range index {
		s.applyEntry(h, &index[i])
	}
	s.promise(recs)
	s.Pos.Slot++
	s.PrevCRC = h.CRC
	s.AppendTime = h.Time
	s.Latest = max(s.Latest, h.Time)
	return nil
}

func (s *State) applySeal(h *record.Head, recs []Record) error {
	if err := s.checkSealRecords(h, recs); err != nil {
		return err
	}
	s.slotTime = s.AppendTime         // a seal has none, and a snapshot knows that of the last slot only
	s.Epochs = slices.Clone(s.Epochs) // a view may share the array
	s.Epochs[len(s.Epochs)-1].Seal = h.Slot
	s.Pos = Position{Epoch: h.NextEpoch}
	s.Nonce = h.NextNonce
	s.PrevCRC = h.CRC
	s.forgetPacks()
	s.forgetEpochs()
	s.Epochs = append(s.Epochs, Epoch{Number: h.NextEpoch, Nonce: h.NextNonce})
	s.Sealer, s.Promise = Run{}, 0
	for i := range recs {
		switch r := &recs[i]; r.Kind {
		case FormatLevel:
			s.Level = r.Level
		case LossAccepted:
			s.acceptLoss(h, r.Loss)
		case LeaderRun:
			s.Sealer = *r.Run
		}
	}
	return nil
}

// validate checks that every record and entry can be applied in order, without applying any, so
// that Apply changes either everything or nothing.
func (s *State) validate(h *record.Head, recs []Record, index []record.IndexEntry) error {
	fail := func(format string, args ...any) error {
		return &ChainError{Pos: s.Pos, Reason: fmt.Sprintf(format, args...)}
	}
	var counts map[record.ID]uint32  // partitions of topics that this object changes; 0: deleted
	var names map[string]bool        // names taken (true) or freed (false) by this object
	var created map[record.ID]string // names of topics created by this object
	if len(recs) > 0 {
		counts, names, created = map[record.ID]uint32{}, map[string]bool{}, map[record.ID]string{}
	}
	parts := func(id record.ID) uint32 {
		if n, ok := counts[id]; ok {
			return n
		}
		if t := s.topics[id]; t != nil {
			return uint32(t.Partitions.Len())
		}
		return 0
	}
	for i := range recs {
		r := &recs[i]
		n := parts(r.Topic)
		switch r.Kind {
		case TopicCreate:
			taken, known := names[r.Name]
			if !known {
				taken = s.names[r.Name] != nil
			}
			if n != 0 || taken || r.Partitions == 0 || r.Partitions > PartitionsMax {
				return fail("record %d: topic %q cannot be created", i, r.Name)
			}
			counts[r.Topic], names[r.Name], created[r.Topic] = r.Partitions, true, r.Name
		case TopicDelete:
			if n == 0 {
				return fail("record %d: no topic %s to delete", i, r.Topic)
			}
			counts[r.Topic] = 0
			if name, new := created[r.Topic]; new {
				names[name] = false
			} else if t := s.topics[r.Topic]; t != nil {
				names[t.Name] = false
			}
		case TopicChange:
			if n == 0 || r.Partitions != 0 && r.Partitions < n || r.Partitions > PartitionsMax {
				return fail("record %d: topic %s cannot be changed to %d partitions", i, r.Topic, r.Partitions)
			}
			counts[r.Topic] = max(n, r.Partitions)
		case TopicTrim, OffsetCommit, ProducerAppend, CompactionDone, QueueUpdate:
			if r.Partition >= n {
				return fail("record %d: no partition %s/%d", i, r.Topic, r.Partition)
			}
		case OffsetDelete, FormatLevel, TimeReset, AccessChange, NextSlot, ProducersForget:
		case TransactionUpdate:
			if j := slices.IndexFunc(r.Transaction.Marks, func(m TransactionMark) bool { return m.Partition >= parts(m.Topic) }); j >= 0 {
				return fail("record %d: no partition of mark %d", i, j)
			}
		case PackInstall:
			if r.Pack == nil || r.Pack.ID == 0 || s.packs[PackID{h.Epoch, r.Pack.ID}].Installed {
				return fail("record %d: pack cannot be installed", i)
			}
		default:
			return fail("record %d: kind %d", i, r.Kind)
		}
		if err := s.validateLevel(fail, recs, i); err != nil {
			return err
		}
	}
	return s.validateIndex(fail, parts, index)
}

// validateLevel checks a record that raises the format level, or that needs a level. The level may
// have been raised earlier in the object.
func (s *State) validateLevel(fail func(string, ...any) error, recs []Record, i int) error {
	r, needs := &recs[i], uint32(LevelFirst)
	switch {
	case r.Kind == TimeReset:
		needs = LevelRecovery
	case r.Kind == AccessChange:
		needs = accessLevel(r.Access)
	case r.Kind == NextSlot:
		needs = LevelStandby
	case r.Kind == TransactionUpdate || r.Transactional:
		needs = LevelTransactions
	case r.Kind == ProducersForget || r.Owner != 0:
		needs = LevelProducers
	case r.Kind == QueueUpdate:
		needs = LevelQueues
	}
	if needs <= s.Level && r.Kind != FormatLevel {
		return nil
	}
	level := s.Level
	for j := range recs[:i] {
		if recs[j].Kind == FormatLevel {
			level = recs[j].Level
		}
	}
	switch {
	case r.Kind == FormatLevel && r.Level <= level:
		return fail("record %d: format level %d, but the bucket is at %d", i, r.Level, level)
	case level < needs:
		return fail("record %d: a %s at format level %d", i, r.Kind, level)
	}
	return nil
}

func (s *State) validateIndex(fail func(string, ...any) error, parts func(record.ID) uint32, index []record.IndexEntry) error {
	for i := range index {
		e := &index[i]
		if e.Partition >= parts(e.Topic) {
			return fail("entry %d: no partition %s/%d", i, e.Topic, e.Partition)
		}
		var next int64
		if t := s.topics[e.Topic]; t != nil && e.Partition < uint32(t.Partitions.Len()) {
			next = t.Partitions.At(int(e.Partition)).Next
		}
		if e.Base != next || e.Span == 0 {
			return fail("entry %d: %s/%d at offset %d span %d, next is %d", i, e.Topic, e.Partition, e.Base, e.Span, next)
		}
	}
	if i := repeated(index); i >= 0 {
		return fail("entry %d: duplicate partition", i)
	}
	return nil
}

// repeated returns the index of the first entry whose partition an earlier entry has, or -1.
func repeated(index []record.IndexEntry) int {
	type key struct {
		topic     record.ID
		partition uint32
	}
	if len(index) < 2 {
		return -1
	}
	seen := make(map[key]struct{}, len(index))
	for i := range index {
		k := key{index[i].Topic, index[i].Partition}
		if _, ok := seen[k]; ok {
			return i
		}
		seen[k] = struct{}{}
	}
	return -1
}

func (s *State) applyRecord(r *Record) {
	switch r.Kind {
	case TopicCreate:
		t := &Topic{ID: r.Topic, Name: r.Name, Settings: r.Settings, gen: s.gen}
		t.Partitions.grow(int(r.Partitions))
		s.topics[t.ID], s.names[t.Name] = t, t
		s.tally.countTopic(t, 1)
	case TopicDelete:
		t := s.topics[r.Topic]
		delete(s.topics, t.ID)
		delete(s.names, t.Name)
		s.forgetTopic(t)
	case TopicChange:
		t := s.topicForWrite(r.Topic)
		s.tally.countTopic(t, -1)
		t.Settings = r.Settings
		t.Partitions.grow(int(r.Partitions))
		s.tally.countTopic(t, 1)
	case TopicTrim:
		s.applyTrim(r)
	case OffsetCommit:
		s.commitOffset(r)
	case OffsetDelete:
		s.deleteOffset(r)
	case ProducerAppend:
		s.applyProducer(r)
	case ProducersForget:
		s.forgetProducers(r)
	case FormatLevel:
		s.Level = r.Level
	case TimeReset:
		s.resetQueues(r.Time)
		s.AppendTime = r.Time
		s.resetProducers(r.Time)
	case AccessChange:
		s.Access.Apply(r.Access)
	case QueueUpdate:
		s.updateQueue(r)
	case TransactionUpdate:
		s.updateTransaction(r)
	case CompactionDone:
		p := s.partitionForWrite(s.topicForWrite(r.Topic), r.Partition)
		s.tally.countPartition(p, -1)
		p.compacted(&r.Clean)
		p.forgetAborted(r.Clean.To)
		s.tally.countPartition(p, 1)
	}
}

// applyTrim raises a partition's start and drops the ranges that lie completely below it.
func (s *State) applyTrim(r *Record) {
	if s.topics[r.Topic].Partitions.At(int(r.Partition)) == unwritten {
		return
	}
	p := s.partitionForWrite(s.topicForWrite(r.Topic), r.Partition)
	s.tally.countPartition(p, -1)
	defer func() { s.tally.countPartition(p, 1) }()
	p.Start = max(p.Start, min(r.Offset, p.Next))
	n := 0
	for n < len(p.Ranges) && p.Ranges[n].End() <= p.Start {
		p.count(&p.Ranges[n], -1)
		s.dereference(&p.Ranges[n])
		n++
	}
	if p.Ranges = p.Ranges[n:]; n > 0 && cap(p.Ranges) > 2*len(p.Ranges)+16 {
		p.Ranges = slices.Clone(p.Ranges) // release the memory of dropped ranges
	}
	p.forgetAborted(p.Start)
	for len(p.Epochs) > 1 && p.Epochs[1].Offset <= p.Start {
		p.Epochs = p.Epochs[1:]
	}
	if p.queue != nil {
		p.queueForWrite(s.gen).trimmed(p.Start, s.slotTime)
		p.queueMemory = p.queue.memory()
	}
}

// count adds a range to the partition's sums (sign 1) or subtracts it (sign -1).
func (p *Partition) count(r *Range, sign int64) {
	p.Bytes += sign * int64(r.Len)
	p.Records += sign * int64(r.Records)
}

func (s *State) applyEntry(h *record.Head, e *record.IndexEntry) {
	t := s.topicForWrite(e.Topic)
	p := s.partitionForWrite(t, e.Partition)
	p.Next = e.Base + int64(e.Span)
	if s.noRange {
		return
	}
	p.Ranges = append(p.Ranges, Range{
		Base: e.Base, Span: e.Span, Records: e.Records, Epoch: h.Epoch, Slot: h.Slot, Pos: e.Pos, Len: e.Len,
		MinTime: e.MinTime, MaxTime: e.MaxTime, AppendTime: e.AppendTime,
	})
	p.count(&p.Ranges[len(p.Ranges)-1], 1)
	s.tally.ranges++
	p.LatestCommit = e.AppendTime
	if n := len(p.Epochs); n == 0 || p.Epochs[n-1].Epoch != h.Epoch {
		p.Epochs = append(p.Epochs, EpochStart{Epoch: h.Epoch, Offset: e.Base})
		s.tally.starts++
	}
}
