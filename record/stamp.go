package record

import "encoding/binary"

// StampAppendTime sets the append time of the log in the concatenated batches of b, as Kafka does
// with LogAppendTime. It sets the attribute bit and the max timestamp, in milliseconds, and updates
// the checksum. millis is then the timestamp of every record; base timestamp and records do not
// change. A second call sets a newer time. Check must have accepted the batches. See stamp for the
// changed bytes.
func StampAppendTime(b []byte, millis int64) {
	stamp(b, func(batch Batch) {
		binary.BigEndian.PutUint16(batch[posAttributes:], batch.u16(posAttributes)|AttrLogAppendTime)
		binary.BigEndian.PutUint64(batch[posMaxTimestamp:], uint64(millis))
	})
}

// StampProducer sets the idempotent producer of the concatenated batches in b: producer ID, epoch
// and base sequence, which continues from batch to batch. It updates the checksum. Check must have
// accepted the batches. See stamp.
func StampProducer(b []byte, p Producer) {
	stamp(b, func(batch Batch) {
		binary.BigEndian.PutUint64(batch[posProducerID:], uint64(p.ID))
		binary.BigEndian.PutUint16(batch[posProducerEpoch:], uint16(p.Epoch))
		binary.BigEndian.PutUint32(batch[posBaseSequence:], uint32(p.Sequence))
		p.Sequence = nextSequence(p.Sequence, batch.Span())
	})
}

// stamp lets set change the header of each batch except its length, and updates the checksum. It
// panics if b is not whole batches.
func stamp(b []byte, set func(Batch)) {
	for len(b) > 0 {
		batch, rest, err := Split(b)
		if err != nil {
			panic("record: stamp of invalid batches: " + err.Error())
		}
		batch.restamp(func() { set(batch) })
		b = rest
	}
}

// restamp lets set change the header of b except its length, and updates the checksum by the
// difference. It reads only the header. Damage that happened after Check is therefore still
// detected, and a large batch takes no longer than a small one.
func (b Batch) restamp(set func()) {
	old := CRC32C(b[posAttributes:BatchHeadSize])
	set()
	diff := old ^ CRC32C(b[posAttributes:BatchHeadSize])
	binary.BigEndian.PutUint32(b[posCRC:], b.CRC()^crcShift(diff, int64(len(b)-BatchHeadSize)))
}
