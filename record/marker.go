package record

import "encoding/binary"

// MarkerSize is the size of the batch that AppendMarker makes.
const MarkerSize = BatchHeadSize + 17

// Marker is the end of a transaction in a partition: a batch with one control record (KIP-98).
type Marker struct {
	Commit        bool // else it is aborted
	ProducerID    int64
	ProducerEpoch int16
	Timestamp     int64 // ms
}

// AppendMarker appends the batch of a marker to dst. Patch sets its base offset and leader epoch.
func AppendMarker(dst []byte, m *Marker) []byte {
	start := len(dst)
	dst = append(dst, make([]byte, BatchHeadSize)...)
	kind := byte(0)
	if m.Commit {
		kind = 1
	}
	dst = append(dst,
		16<<1,   // length of what follows
		0, 0, 0, // attributes, deltas of timestamp and offset
		4<<1, 0, 0, 0, kind, // key: version 0, kind
		6<<1, 0, 0, 0, 0, 0, 0, // value: version 0, epoch of the coordinator
		0, // no headers
	)
	b := Batch(dst[start:])
	putBatchHead(b, &batchHead{
		length: len(b), attributes: AttrTransactional | AttrControl, count: 1, baseTime: m.Timestamp, maxTime: m.Timestamp,
		producerID: m.ProducerID, producerEpoch: m.ProducerEpoch, baseSequence: -1,
	})
	binary.BigEndian.PutUint32(b[posCRC:], b.checksum())
	return dst
}

// Verb is "commit" or "abort".
func (m *Marker) Verb() string {
	if m.Commit {
		return "commit"
	}
	return "abort"
}

// Marker returns the marker that a batch is, as AppendMarker made it; ok is false if it is none.
func (b Batch) Marker() (m Marker, ok bool) {
	if !b.Control() || len(b) != MarkerSize {
		return Marker{}, false
	}
	const kind = BatchHeadSize + 8 // behind the record's length, attributes and deltas, and the key's length and version
	return Marker{Commit: b[kind] == 1, ProducerID: b.ProducerID(), ProducerEpoch: b.ProducerEpoch(), Timestamp: b.MaxTimestamp()}, true
}

// Control reports whether the batch holds no records of clients but a marker.
func (b Batch) Control() bool { return b.Attributes()&AttrControl != 0 }

// Transactional reports whether the batch is part of a transaction, or ends one.
func (b Batch) Transactional() bool { return b.Attributes()&AttrTransactional != 0 }
