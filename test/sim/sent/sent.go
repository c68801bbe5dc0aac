// Package sent remembers batches as producers sent them, and finds those in which the log has changed what it may not.
package sent

import (
	"fmt"
	"hash/maphash"

	"github.com/sebbroker/seb/record"
)

// The fields of a batch (record/FORMAT.md) that are not always as they were sent.
const (
	length      = 8  // behind the base offset, which the log gives
	leaderEpoch = 12 // and this too
	checksum    = 17
	attributes  = 21
	lastDelta   = 23
	maxTime     = 35
	producer    = 43
)

// Batches is a set of batches. Make it with New. It must not be used concurrently.
type Batches struct {
	seed maphash.Seed
	sent map[uint64]struct{} // each of them twice: see sum
}

// New returns an empty set.
func New() *Batches {
	return &Batches{seed: maphash.MakeSeed(), sent: map[uint64]struct{}{}}
}

// Note adds whole batches, as a producer sends them. They are not kept.
func (s *Batches) Note(batches []byte) {
	for len(batches) > 0 {
		b, rest, err := record.Split(batches)
		if err != nil {
			panic("sent: half a batch: " + err.Error())
		}
		s.sent[s.sum(b, false)], s.sent[s.sum(b, true)] = struct{}{}, struct{}{}
		batches = rest
	}
}

// Check says which of the batches that the log holds are like none that was sent. Base offset and leader epoch do not
// count. Nor do, if the log stamps the append time, the bit for that, the max timestamp and the checksum; that these are
// right is for others to see.
func (s *Batches) Check(batches []byte, stamped bool) error {
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
func (s *Batches) sum(b record.Batch, stamped bool) uint64 {
	var h maphash.Hash
	h.SetSeed(s.seed)
	h.Write(b[length:leaderEpoch])
	h.Write(b[leaderEpoch+4 : checksum])
	if stamped {
		h.WriteByte(1)
		h.WriteByte(byte(b.Attributes() &^ record.AttrLogAppendTime))
		h.WriteByte(byte(b.Attributes() >> 8))
	} else {
		h.WriteByte(0)
		h.Write(b[checksum:lastDelta])
		h.Write(b[maxTime:producer])
	}
	h.Write(b[lastDelta:maxTime])
	h.Write(b[producer:])
	return h.Sum64()
}
