package state

import (
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

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
		s.skipTo(s.partitionForWrite(t, n.Partition), h.NextEpoch, n.Next)
	}
	for _, t := range s.Topics() {
		for i, p := range t.Partitions.Written() {
			if len(p.Producers) > 0 {
				w := s.partitionForWrite(s.topicForWrite(t.ID), uint32(i))
				s.tally.producers -= len(w.Producers)
				w.Producers = nil
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

// Fields of a Loss: 1 last epoch, 2 partition (repeated: 1 topic, 2 partition, 3 next offset).
var (
	lossFields = schemaOf(2, 1)
	nextFields = schemaOf(3, 2, 3)
)

func encodeLoss(l *Loss) []byte {
	b := appendVarint(nil, 1, uint64(l.LastEpoch))
	for i := range l.Next {
		n := &l.Next[i]
		m := appendBytes(nil, 1, n.Topic[:])
		m = appendVarint(m, 2, uint64(n.Partition))
		b = appendBytes(b, 2, appendVarint(m, 3, uint64(n.Next)))
	}
	return b
}

func decodeLoss(l *Loss, b []byte) error {
	return fields(b, lossFields, func(num protowire.Number, v uint64, m []byte) (err error) {
		switch num {
		case 1:
			l.LastEpoch, err = uint32Of(v)
		case 2:
			var n LostOffsets
			err = decodeNext(&n, m)
			l.Next = append(l.Next, n)
		}
		return err
	})
}

func decodeNext(n *LostOffsets, b []byte) error {
	return fields(b, nextFields, func(num protowire.Number, v uint64, m []byte) (err error) {
		switch num {
		case 1:
			return copyID(&n.Topic, m)
		case 2:
			n.Partition, err = uint32Of(v)
		case 3:
			if n.Next = int64(v); n.Next < 0 {
				err = fmt.Errorf("next offset %d: %w", n.Next, errWire)
			}
		}
		return err
	})
}

func encodeLost(branches []LostBranch) []byte {
	var b []byte
	for _, l := range branches {
		b = protowire.AppendVarint(b, uint64(l.From.Epoch))
		b = protowire.AppendVarint(b, l.From.Slot)
		b = protowire.AppendVarint(b, uint64(l.LastEpoch))
	}
	return b
}

func decodeLost(b []byte) (branches []LostBranch, err error) {
	for len(b) > 0 {
		var v [3]uint64
		var ok bool
		if b, ok = consumeVarints(b, v[:]); !ok || v[0] > math.MaxUint32 || v[2] > math.MaxUint32 {
			return nil, fmt.Errorf("lost branches: %w", errWire)
		}
		branches = append(branches, LostBranch{From: Position{Epoch: uint32(v[0]), Slot: v[1]}, LastEpoch: uint32(v[2])})
	}
	return branches, nil
}
