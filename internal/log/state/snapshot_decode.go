package state

import (
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sebbroker/seb/record"
)

var (
	snapFields  = schemaOf(snapSealer, snapShard, snapEpoch, snapSlot, snapPrevCRC, snapAppendTime, snapLatest, snapPromise)
	chainFields = schemaOf(chainSeal, chainNumber, chainSeal)
	topicFields = schemaOf(topicPartition)
	groupFields = schemaOf(groupOffset)
	partFields  = schemaOf(partSwept, partStart, partNext, partLatest, partClean, partSwept)
)

// DecodeMessage decodes the output of EncodeMessage.
func DecodeMessage(b []byte) (*State, error) {
	s := Genesis(record.ID{}, 0)
	s.Epochs = nil
	err := fields(b, snapFields, func(num protowire.Number, v uint64, m []byte) (err error) {
		switch num {
		case snapCluster:
			return copyID(&s.Cluster, m)
		case snapShard:
			s.Shard, err = uint32Of(v)
		case snapEpoch:
			s.Pos.Epoch, err = uint32Of(v)
		case snapSlot:
			s.Pos.Slot = v
		case snapNonce:
			return copyID(&s.Nonce, m)
		case snapPrevCRC:
			s.PrevCRC, err = uint32Of(v)
		case snapAppendTime:
			s.AppendTime = int64(v)
		case snapChain:
			return s.decodeEpoch(m)
		case snapTopic:
			return s.decodeTopic(m)
		case snapGroup:
			return s.decodeGroup(m)
		case snapPacks:
			return s.decodePacks(m)
		case snapLevel:
			s.Level, err = decodeLevel(m)
		case snapLost:
			s.LostBranches, err = decodeLost(m)
		case snapLatest:
			s.Latest = int64(v)
		case snapAccess:
			return s.decodeTable(m)
		case snapPromise:
			s.Promise, err = uint32Of(v)
		case snapSealer:
			return decodeRun(&s.Sealer, m)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := s.checkStandby(); err != nil {
		return nil, err
	}
	s.tally = s.recount()
	s.Latest = max(s.Latest, s.AppendTime)
	if n := len(s.Epochs); n == 0 || s.Epochs[n-1] != (Epoch{Number: s.Pos.Epoch, Nonce: s.Nonce}) {
		return nil, fmt.Errorf("chain does not end in epoch %d: %w", s.Pos.Epoch, errWire)
	}
	return s, nil
}

func (s *State) decodeEpoch(b []byte) error {
	var e Epoch
	err := fields(b, chainFields, func(num protowire.Number, v uint64, m []byte) (err error) {
		switch num {
		case chainNumber:
			e.Number, err = uint32Of(v)
		case chainNonce:
			return copyID(&e.Nonce, m)
		case chainSeal:
			e.Seal = v
		}
		return err
	})
	if n := len(s.Epochs); err == nil && n > 0 && s.Epochs[n-1].Number >= e.Number {
		err = fmt.Errorf("chain at epoch %d: %w", e.Number, errWire)
	}
	s.Epochs = append(s.Epochs, e)
	return err
}

func (s *State) decodeTopic(b []byte) error {
	t := &Topic{}
	var parts []*Partition
	err := fields(b, topicFields, func(num protowire.Number, _ uint64, m []byte) error {
		switch num {
		case topicID:
			return copyID(&t.ID, m)
		case topicNameField:
			t.Name = string(m)
		case topicSetting:
			return decodeSetting(&t.Settings, m)
		case topicPartition:
			p, err := decodePartition(m)
			if err != nil {
				return fmt.Errorf("partition %d: %w", len(parts), err)
			}
			parts = append(parts, p)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("topic %q: %w", t.Name, err)
	}
	if s.topics[t.ID] != nil || s.names[t.Name] != nil || len(parts) == 0 || len(parts) > PartitionsMax {
		return fmt.Errorf("topic %q twice or with %d partitions: %w", t.Name, len(parts), errWire)
	}
	t.Partitions = partitionsOf(parts)
	s.topics[t.ID], s.names[t.Name] = t, t
	return nil
}

func (s *State) decodeGroup(b []byte) error {
	name := ""
	return fields(b, groupFields, func(num protowire.Number, _ uint64, m []byte) error {
		switch num {
		case groupName:
			name = string(m)
		case groupOffset:
			r, err := decodeRecord(m)
			if err == nil && r.Kind != OffsetCommit {
				err = fmt.Errorf("record of kind %d: %w", r.Kind, errWire)
			}
			if err != nil {
				return fmt.Errorf("group %q: %w", name, err)
			}
			r.Name = name
			s.commitOffset(&r)
		}
		return nil
	})
}

func decodePartition(b []byte) (*Partition, error) {
	if len(b) == 0 {
		return unwritten, nil
	}
	p := &Partition{}
	err := fields(b, partFields, func(num protowire.Number, v uint64, m []byte) error {
		switch num {
		case partStart:
			p.Start = int64(v)
		case partNext:
			p.Next = int64(v)
		case partLatest:
			p.LatestCommit = int64(v)
		case partEpochs:
			for len(m) > 0 {
				var v [2]uint64
				var ok bool
				if m, ok = consumeVarints(m, v[:]); !ok || v[0] > math.MaxUint32 {
					return fmt.Errorf("epochs: %w", errWire)
				}
				p.Epochs = append(p.Epochs, EpochStart{Epoch: uint32(v[0]), Offset: int64(v[1])})
			}
		case partRanges:
			return p.decodeRanges(m)
		case partProducers:
			return p.decodeProducers(m)
		case partClean:
			p.Clean = int64(v)
		case partMarks:
			return p.decodeMarks(m)
		case partSwept:
			p.Swept = int64(v)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if n := len(p.Ranges); p.Start < 0 || p.Next < p.Start || n > 0 && (p.Ranges[n-1].End() != p.Next || p.Ranges[0].End() <= p.Start) || n == 0 && p.Next != p.Start {
		return nil, fmt.Errorf("ranges do not reach offset %d: %w", p.Next, errWire)
	}
	if p.Next == 0 && len(p.Epochs) == 0 && len(p.Producers) == 0 && p.LatestCommit == 0 {
		return unwritten, nil // as written by earlier versions
	}
	return p, nil
}

// rangeFits reports whether the numbers of a range fit into their fields.
func rangeFits(v *[rangeWidth]int64, prev *Range) bool {
	span, records, epoch := v[1], v[1]+v[2], int64(prev.Epoch)+v[3]
	for _, n := range [...]int64{span, records, epoch, v[5], v[6]} {
		if n < 0 || n > math.MaxUint32 {
			return false
		}
	}
	return span > 0 && records <= span && (v[10] == 0 || v[10] == 1)
}

func (p *Partition) decodeRanges(b []byte) error {
	var prev Range
	for len(b) > 0 {
		var v [rangeWidth]int64
		for i := range v {
			u, n := protowire.ConsumeVarint(b)
			if n < 0 {
				return errWire
			}
			v[i], b = protowire.DecodeZigZag(u), b[n:]
		}
		if !rangeFits(&v, &prev) {
			return fmt.Errorf("range after offset %d: %w", prev.End(), errWire)
		}
		r := Range{
			Base: prev.End() + v[0], Span: uint32(v[1]), Records: uint32(v[1] + v[2]), Epoch: uint32(int64(prev.Epoch) + v[3]),
			Slot: uint64(int64(prev.Slot) + v[4]), Pos: uint32(v[5]), Len: uint32(v[6]),
			MinTime: prev.MinTime + v[7], AppendTime: prev.AppendTime + v[9], Pack: v[10] != 0,
		}
		r.MaxTime = r.MinTime + v[8]
		if r.Base < 0 || r.End() < r.Base || len(p.Ranges) > 0 && r.Base != prev.End() {
			return fmt.Errorf("range at offset %d is not dense: %w", r.Base, errWire)
		}
		p.Ranges = append(p.Ranges, r)
		p.count(&r, 1)
		prev = r
	}
	return nil
}
