package record

import "encoding/binary"

// StampAppendTime gives the concatenated batches in b, which Check has accepted, the append time of the log as Kafka does
// with LogAppendTime: sets the attribute bit and the max timestamp, in milliseconds, and mends the checksum. From then on
// millis is the timestamp of every record; base timestamp, records and all else stay as they are. Stamped again, a batch
// has the newer time. See stamp for what of a batch is touched.
func StampAppendTime(b []byte, millis int64) {
	stamp(b, func(batch Batch) {
		binary.BigEndian.PutUint16(batch[posAttributes:], batch.u16(posAttributes)|AttrLogAppendTime)
		binary.BigEndian.PutUint64(batch[posMaxTimestamp:], uint64(millis))
	})
}

// StampProducer names the idempotent producer of the concatenated batches in b, which Check has accepted: sets producer
// id, epoch and base sequence, which goes on from batch to batch, and mends the checksum. See stamp.
func StampProducer(b []byte, p Producer) {
	stamp(b, func(batch Batch) {
		binary.BigEndian.PutUint64(batch[posProducerID:], uint64(p.ID))
		binary.BigEndian.PutUint16(batch[posProducerEpoch:], uint16(p.Epoch))
		binary.BigEndian.PutUint32(batch[posBaseSequence:], uint32(p.Sequence))
		p.Sequence = nextSequence(p.Sequence, batch.Span())
	})
}

// stamp lets set change the header of each batch, but for its length, and repairs the checksum. It panics if b is not whole
// batches.
func stamp(b []byte, set func(Batch)) {
	for len(b) > 0 {
		batch, rest, err := Split(b)
		if err != nil {
			panic("record: stamp of unchecked batches: " + err.Error())
		}
		batch.restamp(func() { set(batch) })
		b = rest
	}
}

// restamp lets set change the header of b, but for its length, and repairs the checksum. Only the header is touched: the
// checksum changes by the difference of the two, so damage that came after Check is still found, and a large batch takes no
// longer than a small one.
func (b Batch) restamp(set func()) {
	old := CRC32C(b[posAttributes:BatchHeadSize])
	set()
	diff := old ^ CRC32C(b[posAttributes:BatchHeadSize])
	binary.BigEndian.PutUint32(b[posCRC:], b.CRC()^crcShift(diff, int64(len(b)-BatchHeadSize)))
}
