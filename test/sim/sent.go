package sim

import (
	"fmt"
	"hash/maphash"

	"github.com/sebbroker/seb/record"
)

// The fields of a batch (record/FORMAT.md) that are not always as they were sent.
const (
	posLength      = 8  // behind the base offset, which the log gives
	posLeaderEpoch = 12 // and this too
	posChecksum    = 17
	posAttributes  = 21
	posLastDelta   = 23
	posMaxTime     = 35
	posProducer    = 43
)

// sentBatches are batches as producers sent them: they tell in which the log has changed what it may not.
type sentBatches struct {
	seed maphash.Seed
	sent map[uint64]struct{} // each of them twice: see sum
}

func newSentBatches() *sentBatches {
	return &sentBatches{seed: maphash.MakeSeed(), sent: map[uint64]struct{}{}}
}

// note adds whole batches, as a producer sends them. They are not kept.
func (s *sentBatches) note(batches []byte) {
	for len(batches) > 0 {
		b, rest, err := record.Split(batches)
		if err != nil {
			panic("sent: half a batch: " + err.Error())
		}
		s.sent[s.sum(b, false)], s.sent[s.sum(b, true)] = struct{}{}, struct{}{}
		batches = rest
	}
}

// check says which of the batches that the log holds are like none that was sent. Base offset and leader epoch do not
// count. Nor do, if the log stamps the append time, the bit for that, the max timestamp and the checksum; that these are
// right is for others to see.
func (s *sentBatches) check(batches []byte, stamped bool) error {
	for len(batches) > 0 {
		b, rest, err := record.Split(batches)
		if err != nil {
			return err
		}
		if _, ok := s.sent[s.sum(b, stamped)]; !ok {
			return fmt.Errorf("the batch at offset %d is not as any was sent (stamped %v)", b.BaseOffset(), stamped)
		}
		batches = rest
	}
	return nil
}

// sum is a checksum of all that must be as it was sent.
func (s *sentBatches) sum(b record.Batch, stamped bool) uint64 {
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
