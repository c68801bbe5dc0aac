package state

import (
	"fmt"
	"math"

	"github.com/sebbroker/seb/internal/engine/base/protobuf"
	"github.com/sebbroker/seb/record"
)

// checkSealRecords checks that a SEAL holds only the kinds of records that it may hold. Programs of
// level 1 would ignore other kinds and so reach another state.
func (s *State) checkSealRecords(h *record.Head, recs []Record) error {
	fail := func(format string, args ...any) error {
		return &ChainError{Pos: s.Pos, Reason: fmt.Sprintf(format, args...)}
	}
	level, losses := s.Level, 0
	for i := range recs {
		switch r := &recs[i]; r.Kind {
		case LeaderHint:
		case FormatLevel:
			if level = r.Level; r.Level <= s.Level || h.Epoch != 0 && h.Flags&record.FlagRecovery == 0 {
				return fail("record %d: format level %d in a seal of a bucket at level %d", i, r.Level, s.Level)
			}
		case LossAccepted:
			if losses++; r.Loss.LastEpoch < h.Epoch || r.Loss.LastEpoch+1 != h.NextEpoch {
				return fail("record %d: loss up to epoch %d, but the seal names epoch %d", i, r.Loss.LastEpoch, h.NextEpoch)
			}
		case LeaderRun:
			if level < LevelStandby {
				return fail("record %d: a %s at format level %d", i, r.Kind, level)
			}
		default:
			return fail("record %d: a %s in a seal", i, r.Kind)
		}
	}
	if recovery := h.Flags&record.FlagRecovery != 0; recovery != (losses == 1) || recovery && level < LevelRecovery {
		return fail("%d losses accepted in a seal with flags %d at format level %d", losses, h.Flags, level)
	}
	return nil
}

// acceptLoss cuts a branch off the log. Offsets that the branch may have assigned are not assigned
// again: a range without an object takes their place. The sequences of idempotent producers are
// unknown from here on, so their next batches are accepted as they come.
func (s *State) acceptLoss(h *record.Head, l *Loss) {
	s.LostBranches = append(s.LostBranches[:len(s.LostBranches):len(s.LostBranches)],
		LostBranch{From: Position{Epoch: h.Epoch, Slot: h.Slot}, LastEpoch: l.LastEpoch})
	for i := range l.Next {
		n := &l.Next[i]
		t := s.topicForWrite(n.Topic)
		if t == nil || n.Partition >= uint32(t.Partitions.Len()) {
			continue // the topic was created on the lost branch
		}
		if n.Next <= t.Partitions.At(int(n.Partition)).Next {
			continue // an unwritten partition stays so
		}
		p := s.partitionForWrite(t, n.Partition)
		from := p.Next
		s.skipTo(p, h.NextEpoch, n.Next)
		s.queueLost(t, p, from)
	}
	s.transactionsLost()
	for _, t := range s.Topics() {
		for i, p := range t.Partitions.Written() {
			if p.Producers.n > 0 {
				s.dropProducers(PartitionID{t.ID, uint32(i)}, func(*Producer) bool { return true })
			}
		}
	}
}

// skipTo raises a partition's next offset.
func (s *State) skipTo(p *Partition, epoch uint32, next int64) {
	for p.Next < next {
		span := uint32(min(next-p.Next, math.MaxUint32))
		if !s.noRange {
			at := s.AppendTime / 1000
			if n := len(p.Ranges); n > 0 {
				at = p.Ranges[n-1].MaxTime
			}
			r := Range{Base: p.Next, Span: span, Epoch: epoch, MinTime: at, MaxTime: at, AppendTime: s.AppendTime}
			p.Ranges = append(p.Ranges, r)
			s.tally.ranges++
			p.LatestCommit = s.AppendTime
			if n := len(p.Epochs); n == 0 || p.Epochs[n-1].Epoch != epoch {
				p.Epochs = append(p.Epochs, EpochStart{Epoch: epoch, Offset: p.Next})
				s.tally.starts++
			}
		}
		p.Next += int64(span)
	}
}

// OnLostBranch reports whether a recovery has cut a position off the log.
func (s *State) OnLostBranch(p Position) bool {
	for _, b := range s.LostBranches {
		if b.Holds(p) {
			return true
		}
	}
	return false
}

// LossAccepted reports whether a recovery has accepted the loss of an epoch's objects that are not
// on the log. A recovery examines all of them (rule R14).
func (s *State) LossAccepted(epoch uint32) bool {
	for _, b := range s.LostBranches {
		if epoch <= b.LastEpoch {
			return true
		}
	}
	return false
}

// fields lists the fields of a loss (FORMAT.md).
func (l *Loss) fields(c *protobuf.Codec) {
	c.KeepZeros(true)
	protobuf.Int(c, 1, "last epoch", &l.LastEpoch)
	protobuf.Messages(c, 2, "partition", &l.Next, (*LostOffsets).fields)
}

func (n *LostOffsets) fields(c *protobuf.Codec) {
	c.KeepZeros(true)
	c.Fixed(1, "topic", n.Topic[:])
	protobuf.Int(c, 2, "partition", &n.Partition)
	if protobuf.Int(c, 3, "next offset", &n.Next); n.Next < 0 {
		c.Fail(fmt.Errorf("next offset %d: %w", n.Next, errWire))
	}
}

func lostRow(_, l *LostBranch, c *protobuf.Codec) {
	protobuf.Varint(c, &l.From.Epoch)
	protobuf.Varint(c, &l.From.Slot)
	protobuf.Varint(c, &l.LastEpoch)
}
