package record

import (
	"encoding/binary"
	"math"

	"github.com/sebbroker/seb/internal/engine/base/codec"
)

// Batch is exactly one Kafka RecordBatch v2 (magic 2), big-endian:
//
//	 0 base offset i64        21 attributes i16         43 producer id i64
//	 8 length i32 (from 12)   23 last offset delta i32  51 producer epoch i16
//	12 leader epoch i32       27 base timestamp i64     53 base sequence i32
//	16 magic i8 = 2           35 max timestamp i64      57 record count i32
//	17 CRC-32C u32 of [21:]                             61 records, compressed as one block
//
// The accessors read the header and panic on fewer than BatchHeadSize bytes: make a Batch with
// Split.
type Batch []byte

const (
	// BatchHeadSize is the length of a batch's header.
	BatchHeadSize = 61
	// BatchTarget is the maximum size of batches that this package makes, in bytes with the header;
	// a larger record gets its own batch. A reader checks whole batches, so a small batch saves
	// reads: with 1 MiB, a read of 1,024 records of 1 KiB from any offset costs twice the bytes,
	// with 128 KiB an eighth more. The headers add a two-thousandth.
	BatchTarget = 128 << 10

	posLength          = 8
	posLeaderEpoch     = 12
	posMagic           = 16
	posCRC             = 17
	posAttributes      = 21 // start of the checksum
	posLastOffsetDelta = 23
	posBaseTimestamp   = 27
	posMaxTimestamp    = 35
	posProducerID      = 43
	posProducerEpoch   = 51
	posBaseSequence    = 53
	posCount           = 57

	lengthBase = posLeaderEpoch // the length field counts from here
	magicV2    = 2
)

// Bits of a batch's attributes.
const (
	AttrCompression   = 0x07 // a Compression
	AttrLogAppendTime = 0x08 // all records have the max timestamp
	AttrTransactional = 0x10
	AttrControl       = 0x20
	AttrDeleteHorizon = 0x40
)

// Compression is the codec of a batch's records.
type Compression uint8

// Kafka's codecs.
const (
	None   = Compression(codec.None)
	Gzip   = Compression(codec.Gzip)
	Snappy = Compression(codec.Snappy)
	LZ4    = Compression(codec.LZ4)
	Zstd   = Compression(codec.Zstd)
)

// String returns the codec's name in topic settings.
func (c Compression) String() string { return codec.Kind(c).String() }

func (b Batch) u16(pos int) uint16 { return binary.BigEndian.Uint16(b[pos:]) }
func (b Batch) u32(pos int) uint32 { return binary.BigEndian.Uint32(b[pos:]) }
func (b Batch) i32(pos int) int32  { return int32(b.u32(pos)) }
func (b Batch) i64(pos int) int64  { return int64(binary.BigEndian.Uint64(b[pos:])) }

// BaseOffset returns the offset of the first record.
func (b Batch) BaseOffset() int64 { return b.i64(0) }

// Len returns the length of the whole batch in bytes.
func (b Batch) Len() int { return len(b) }

// LeaderEpoch returns the epoch in which the batch was committed.
func (b Batch) LeaderEpoch() int32 { return b.i32(posLeaderEpoch) }

// CRC returns the stored checksum, which covers the bytes from the attributes to the end.
func (b Batch) CRC() uint32 { return b.u32(posCRC) }

// Attributes returns the bits of the Attr constants.
func (b Batch) Attributes() int16 { return int16(b.u16(posAttributes)) }

// Compression returns the codec; a value above Zstd is unknown.
func (b Batch) Compression() Compression { return Compression(b.Attributes() & AttrCompression) }

// LastOffsetDelta returns the last offset minus the base offset.
func (b Batch) LastOffsetDelta() int32 { return b.i32(posLastOffsetDelta) }

// Span returns the number of offsets of the batch.
func (b Batch) Span() int64 { return int64(b.LastOffsetDelta()) + 1 }

// Count returns the number of records, at most Span in a checked batch. A marker is none.
func (b Batch) Count() int {
	if b.Control() {
		return 0
	}
	return int(b.i32(posCount))
}

// BaseTimestamp returns the base of the records' timestamps, in milliseconds.
func (b Batch) BaseTimestamp() int64 { return b.i64(posBaseTimestamp) }

// MaxTimestamp returns the largest timestamp in milliseconds; -1 if the client did not set it.
func (b Batch) MaxTimestamp() int64 { return b.i64(posMaxTimestamp) }

// ProducerID returns the idempotent producer's ID, or -1.
func (b Batch) ProducerID() int64 { return b.i64(posProducerID) }

// ProducerEpoch returns the idempotent producer's epoch.
func (b Batch) ProducerEpoch() int16 { return int16(b.u16(posProducerEpoch)) }

// BaseSequence returns the sequence of the first record.
func (b Batch) BaseSequence() int32 { return b.i32(posBaseSequence) }

// checksum computes the expected value of CRC.
func (b Batch) checksum() uint32 { return CRC32C(b[posAttributes:]) }

// Split returns the first batch of b and the rest. It checks only the magic and the length; Check
// and Verify check the rest. The error is an *InvalidError.
func Split(b []byte) (first Batch, rest []byte, err error) {
	n, fault := batchBounds(b)
	if fault != nil {
		return nil, b, fault
	}
	return Batch(b[:n:n]), b[n:], nil
}

// batchBounds returns the length of the batch at the start of b.
func batchBounds(b []byte) (int, *InvalidError) {
	if len(b) > posMagic && b[posMagic] != magicV2 {
		return 0, &InvalidError{Field: FieldMagic, Reason: "not a batch of version 2", Limit: magicV2, Given: int64(b[posMagic])}
	}
	if len(b) < BatchHeadSize {
		return 0, &InvalidError{Field: FieldLength, Reason: "shorter than a batch header", Limit: BatchHeadSize, Given: int64(len(b))}
	}
	n, err := batchLength(b, int64(len(b)))
	return int(n), err
}

// batchLength returns the length of the batch that starts with a header, of size bytes that are
// there.
func batchLength(header []byte, size int64) (int64, *InvalidError) {
	n := int64(Batch(header).i32(posLength)) + lengthBase
	if n < BatchHeadSize {
		return 0, &InvalidError{Field: FieldLength, Reason: "batch length below its header", Limit: BatchHeadSize, Given: n}
	}
	if n > size {
		return 0, &InvalidError{Field: FieldLength, Reason: "batch longer than the data", Limit: size, Given: n}
	}
	return n, nil
}

// Patch sets consecutive base offsets, from base on, and the leader epoch in the concatenated
// batches of b. It returns the offset after the last. Check must have accepted the batches. The
// checksum covers neither field. Patch panics if b is not whole batches.
func Patch(b []byte, base int64, leaderEpoch int32) (next int64) {
	for len(b) > 0 {
		batch, rest, err := Split(b)
		if err != nil {
			panic("record: Patch of invalid batches: " + err.Error())
		}
		binary.BigEndian.PutUint64(batch, uint64(base))
		binary.BigEndian.PutUint32(batch[posLeaderEpoch:], uint32(leaderEpoch))
		base += batch.Span()
		b = rest
	}
	return base
}

// batchHead has the fields for putBatchHead. Patch sets base offset and leader epoch.
type batchHead struct {
	length            int // of the whole batch
	attributes        int16
	count             int
	baseTime, maxTime int64
	minTime           int64 // not in the header; for the summary
	producerID        int64
	producerEpoch     int16
	baseSequence      int32
}

// putBatchHead writes the header of a dense batch into b[:BatchHeadSize], without the checksum.
func putBatchHead(b []byte, h *batchHead) {
	be := binary.BigEndian
	be.PutUint64(b, 0)
	be.PutUint32(b[posLength:], uint32(h.length-lengthBase))
	be.PutUint32(b[posLeaderEpoch:], 0)
	b[posMagic] = magicV2
	be.PutUint16(b[posAttributes:], uint16(h.attributes))
	be.PutUint32(b[posLastOffsetDelta:], uint32(h.count-1))
	be.PutUint64(b[posBaseTimestamp:], uint64(h.baseTime))
	be.PutUint64(b[posMaxTimestamp:], uint64(h.maxTime))
	be.PutUint64(b[posProducerID:], uint64(h.producerID))
	be.PutUint16(b[posProducerEpoch:], uint16(h.producerEpoch))
	be.PutUint32(b[posBaseSequence:], uint32(h.baseSequence))
	be.PutUint32(b[posCount:], uint32(h.count))
}

// nextSequence returns the sequence after n records from seq on: sequences wrap from 2^31-1 to 0.
func nextSequence(seq int32, n int64) int32 { return int32((int64(seq) + n) & math.MaxInt32) }
