package state

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sebbroker/seb/record"
)

// DecodeMessage reads what EncodeMessage made.
func DecodeMessage(b []byte) (*State, error) {
	s := Genesis(record.ID{}, 0)
	s.Epochs = nil
	err := fields(b, func(num protowire.Number, v uint64, m []byte) error {
		switch num {
		case snapCluster:
			return copyID(&s.Cluster, m)
		case snapShard:
			s.Shard = uint32(v)
		case snapEpoch:
			s.Pos.Epoch = uint32(v)
		case snapSlot:
			s.Pos.Slot = v
		case snapNonce:
			return copyID(&s.Nonce, m)
		case snapPrevCRC:
			s.PrevCRC = uint32(v)
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
		default:
			return fmt.Errorf("field %d: written by a newer version", num)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if n := len(s.Epochs); n == 0 || s.Epochs[n-1] != (Epoch{Number: s.Pos.Epoch, Nonce: s.Nonce}) {
		return nil, fmt.Errorf("chain does not end in epoch %d: %w", s.Pos.Epoch, errWire)
	}
	return s, nil
}

func (s *State) decodeEpoch(b []byte) error {
	var e Epoch
	err := fields(b, func(num protowire.Number, v uint64, m []byte) error {
		switch num {
		case chainNumber:
			e.Number = uint32(v)
		case chainNonce:
			return copyID(&e.Nonce, m)
		case chainSeal:
			e.Seal = v
		}
		return nil
	})
	if n := len(s.Epochs); err == nil && n > 0 && s.Epochs[n-1].Number >= e.Number {
		err = fmt.Errorf("chain at epoch %d: %w", e.Number, errWire)
	}
	s.Epochs = append(s.Epochs, e)
	return err
}

func (s *State) decodeTopic(b []byte) error {
	t := &Topic{}
	err := fields(b, func(num protowire.Number, _ uint64, m []byte) error {
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
				return fmt.Errorf("partition %d: %w", len(t.Partitions), err)
			}
			t.Partitions = append(t.Partitions, p)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("topic %q: %w", t.Name, err)
	}
	if s.topics[t.ID] != nil || s.names[t.Name] != nil || len(t.Partitions) == 0 {
		return fmt.Errorf("topic %q twice or without partitions: %w", t.Name, errWire)
	}
	s.topics[t.ID], s.names[t.Name] = t, t
	for _, p := range t.Partitions {
		s.producers += len(p.Producers)
	}
	return nil
}

func (s *State) decodeGroup(b []byte) error {
	name := ""
	return fields(b, func(num protowire.Number, _ uint64, m []byte) error {
		switch num {
		case groupName:
			name = string(m)
		case groupOffset:
			r, err := decodeRecord(m)
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
	p := &Partition{}
	err := fields(b, func(num protowire.Number, v uint64, m []byte) error {
		switch num {
		case partStart:
			p.Start = int64(v)
		case partNext:
			p.Next = int64(v)
		case partLatest:
			p.LatestCommit = int64(v)
		case partEpochs:
			for len(m) > 0 {
				epoch, n := protowire.ConsumeVarint(m)
				if n < 0 {
					return errWire
				}
				offset, k := protowire.ConsumeVarint(m[n:])
				if k < 0 {
					return errWire
				}
				p.Epochs = append(p.Epochs, EpochStart{Epoch: uint32(epoch), Offset: int64(offset)})
				m = m[n+k:]
			}
		case partRanges:
			return p.decodeRanges(m)
		case partProducers:
			return p.decodeProducers(m)
		case partClean:
			p.Clean = int64(v)
		case partMarks:
			return p.decodeMarks(m)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if n := len(p.Ranges); p.Next < p.Start || n > 0 && (p.Ranges[n-1].End() != p.Next || p.Ranges[0].End() <= p.Start) || n == 0 && p.Next != p.Start {
		return nil, fmt.Errorf("ranges do not reach offset %d: %w", p.Next, errWire)
	}
	return p, nil
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
		r := Range{
			Base: prev.End() + v[0], Span: uint32(v[1]), Records: uint32(v[1] + v[2]), Epoch: uint32(int64(prev.Epoch) + v[3]),
			Slot: uint64(int64(prev.Slot) + v[4]), Pos: uint32(v[5]), Len: uint32(v[6]),
			MinTime: prev.MinTime + v[7], AppendTime: prev.AppendTime + v[9], Pack: v[10] != 0,
		}
		r.MaxTime = r.MinTime + v[8]
		if r.Span == 0 || len(p.Ranges) > 0 && r.Base != prev.End() {
			return fmt.Errorf("range at offset %d is not dense: %w", r.Base, errWire)
		}
		p.Ranges = append(p.Ranges, r)
		p.count(&r, 1)
		prev = r
	}
	return nil
}
