package record

import "encoding/binary"

// Builder makes batches from records whose values are written in place, one after another, so that
// no list of records is needed. All records have the same timestamp and no headers.
//
//	b.Reset(buf, now)
//	b.Add(key, appendValue(b.Room(len(key)), ...))
//	batches, summary := b.Finish()
//
// The zero Builder needs Reset first.
type Builder struct {
	buf       []byte // the batches so far
	start     int    // of the open batch
	first     int    // number of its first record
	records   int
	batches   int
	timestamp int64
}

const (
	// builderFraming bounds the bytes of a record beside its key and value: four varints, attributes,
	// timestamp delta and count of headers.
	builderFraming = 4*binary.MaxVarintLen32 + 3
	// builderPrefix bounds the bytes before a value, without the key.
	builderPrefix = BatchHeadSize + builderFraming
)

// BuilderLen bounds the room that a Builder needs for records whose keys and values have a number of
// bytes together. Any two consecutive batches are larger than BatchTarget together, which bounds the
// number of batches.
func BuilderLen(records, bytes int) int {
	n := records*builderFraming + bytes
	return n + (2+2*n/BatchTarget)*BatchHeadSize + builderPrefix
}

// Reset makes b write to the beginning of buf. If the capacity of buf is BuilderLen, the result
// aliases buf; otherwise b allocates. The timestamp is in milliseconds.
func (b *Builder) Reset(buf []byte, timestamp int64) {
	*b = Builder{buf: buf[:0], timestamp: timestamp}
}

// Room returns an empty slice for the value of the next record, whose key has keyBytes bytes. Append
// to it and call Add with the result.
func (b *Builder) Room(keyBytes int) []byte {
	at := len(b.buf) + builderPrefix + keyBytes
	if at > cap(b.buf) {
		return nil
	}
	return b.buf[at:at]
}

// Add adds a record. value is the slice of Room with the appended bytes, or any other slice. A nil
// key is null.
func (b *Builder) Add(key, value []byte) {
	delta := b.records - b.first
	body := b.bodyLen(key, value, delta)
	if b.records == b.first || len(b.buf)-b.start+varintSize(int64(body))+body > BatchTarget {
		b.close()
		delta = 0
		body = b.bodyLen(key, value, delta)
		b.first, b.start = b.records, len(b.buf)
		b.buf = b.grow(BatchHeadSize)
		b.batches++
	}
	// The bytes before the value are at most builderPrefix and the key, so they do not overwrite it,
	// and the value moves to the left.
	var head [builderPrefix]byte
	h := binary.AppendVarint(head[:0], int64(body))
	h = append(h, 0, 0) // attributes, timestamp delta
	h = binary.AppendVarint(h, int64(delta))
	if key == nil {
		h = append(h, 1) // -1
	} else {
		h = binary.AppendVarint(h, int64(len(key)))
	}
	b.buf = append(append(b.buf, h...), key...)
	b.buf = binary.AppendVarint(b.buf, int64(len(value)))
	b.buf = append(append(b.buf, value...), 0) // no headers
	b.records++
}

// bodyLen is the length of a record without its length field.
func (b *Builder) bodyLen(key, value []byte, delta int) int {
	return 3 + varintSize(int64(delta)) + nullableSize(key) + varintSize(int64(len(value))) + len(value)
}

// grow returns the buffer with n more bytes of any content.
func (b *Builder) grow(n int) []byte {
	if len(b.buf)+n <= cap(b.buf) {
		return b.buf[:len(b.buf)+n]
	}
	return append(b.buf, make([]byte, n)...)
}

// close writes the head of the open batch.
func (b *Builder) close() {
	if b.records == b.first {
		return
	}
	batch := Batch(b.buf[b.start:])
	putBatchHead(batch, &batchHead{
		length: len(batch), count: b.records - b.first, baseTime: b.timestamp, maxTime: b.timestamp,
		producerID: -1, producerEpoch: -1, baseSequence: -1,
	})
	binary.BigEndian.PutUint64(batch, uint64(b.first))
	binary.BigEndian.PutUint32(batch[posCRC:], batch.checksum())
}

// Finish returns the batches, none without a record. Like Append it numbers them from offset 0,
// leader epoch 0; Patch sets both. Call Reset before other methods.
func (b *Builder) Finish() ([]byte, Summary) {
	b.close()
	return b.buf, Summary{
		Batches: b.batches, Records: b.records, Span: int64(b.records), MinTimestamp: b.timestamp, MaxTimestamp: b.timestamp,
		ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1,
	}
}
