package record

import "encoding/binary"

// StampProducer names the idempotent producer of the concatenated batches in b, which Check has accepted: sets producer
// id, epoch and base sequence, which goes on from batch to batch, and mends the checksum. Like StampAppendTime it touches
// headers only. It panics if b is not whole batches.
func StampProducer(b []byte, p Producer) {
	for len(b) > 0 {
		batch, rest, err := Split(b)
		if err != nil {
			panic("record: stamp of unchecked batches: " + err.Error())
		}
		old := CRC32C(batch[posAttributes:BatchHeadSize])
		binary.BigEndian.PutUint64(batch[posProducerID:], uint64(p.ID))
		binary.BigEndian.PutUint16(batch[posProducerEpoch:], uint16(p.Epoch))
		binary.BigEndian.PutUint32(batch[posBaseSequence:], uint32(p.Sequence))
		diff := old ^ CRC32C(batch[posAttributes:BatchHeadSize])
		crc := batch.CRC() ^ crcShift(diff, int64(len(batch)-BatchHeadSize))
		binary.BigEndian.PutUint32(batch[posCRC:], crc)
		p.Sequence = nextSequence(p.Sequence, batch.Span())
		b = rest
	}
}
