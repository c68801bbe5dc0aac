package sim

import (
	"fmt"
	"hash/maphash"

	"github.com/sebbroker/seb/record"
)

// The fields of a batch (record/FORMAT.md) that may differ from the sent ones.
const (
	posLength      = 8  // after the base offset, which the log assigns
	posLeaderEpoch = 12 // assigned by the log too
	posChecksum    = 17
	posAttributes  = 21
	posLastDelta   = 23
	posMaxTime     = 35
	posProducer    = 43
)

// SentBatches are batches as producers sent them. They detect forbidden changes of batches in the
// log.
type SentBatches struct {
	seed maphash.Seed
	sent map[uint64]struct{} // two checksums per batch: see sum
}

// NewSentBatches returns an empty set.
func NewSentBatches() *SentBatches {
	return &SentBatches{seed: maphash.MakeSeed(), sent: map[uint64]struct{}{}}
}

// Note adds whole batches of a producer. It does not keep them.
func (s *SentBatches) Note(batches []byte) {
	for len(batches) > 0 {
		b, rest, err := record.Split(batches)
		if err != nil {
			panic("sent: half a batch: " + err.Error())
		}
		s.sent[s.sum(b, false)], s.sent[s.sum(b, true)] = struct{}{}, struct{}{}
		batches = rest
	}
}

// Check returns an error for a batch in the log that equals no sent one. It ignores base offset and
// leader epoch. If the log stamps the append time, it also ignores the bit for that, the max
// timestamp and the checksum, which other checks cover.
func (s *SentBatches) Check(batches []byte, stamped bool) error {
	for len(batches) > 0 {
		b, rest, err := record.Split(batches)
		if err != nil {
			return err
		}
		if _, ok := s.sent[s.sum(b, stamped)]; !ok {
			return fmt.Errorf("the batch at offset %d equals no sent batch (stamped %v)", b.BaseOffset(), stamped)
		}
		batches = rest
	}
	return nil
}

// sum returns a checksum of everything that must be as sent.
func (s *SentBatches) sum(b record.Batch, stamped bool) uint64 {
	var h maphash.Hash
	h.SetSeed(s.seed)
	h.Write(b[posLength:posLeaderEpoch])
	h.Write(b[posLeaderEpoch+4 : posChecksum])
	if stamped {
		h.WriteByte(1)
		h.WriteByte(byte(b.Attributes() &^ record.AttrLogAppendTime))
		h.WriteByte(byte(b.Attributes() >> 8))
	} else {
		h.WriteByte(0)
		h.Write(b[posChecksum:posLastDelta])
		h.Write(b[posMaxTime:posProducer])
	}
	h.Write(b[posLastDelta:posMaxTime])
	h.Write(b[posProducer:])
	return h.Sum64()
}
