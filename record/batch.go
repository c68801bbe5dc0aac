package record

import (
	"encoding/binary"
	"math"

	"github.com/sebbroker/seb/internal/codec"
)

// Batch is exactly one Kafka RecordBatch v2 (magic 2), big-endian:
//
//	 0 base offset i64        21 attributes i16         43 producer id i64
//	 8 length i32 (from 12)   23 last offset delta i32  51 producer epoch i16
//	12 leader epoch i32       27 base timestamp i64     53 base sequence i32
//	16 magic i8 = 2           35 max timestamp i64      57 record count i32
//	17 CRC-32C u32 of [21:]                             61 records, compressed as one block
//
// The accessors read the header and panic on fewer than BatchHeadSize bytes: make a Batch with Split.
type Batch []byte

const (
	// BatchHeadSize is the length of a batch's header.
	BatchHeadSize = 61
	// BatchTarget is where batches made by this package are cut, in bytes with the header; a larger record stands alone. A
	// batch is checked as a whole, so whoever wants a record in its middle reads all of it: with 1 MiB, 1,024 records of 1 KiB
	// from anywhere cost twice the bytes, with 128 KiB an eighth more. Heads are a two-thousandth of it.
	BatchTarget = 128 << 10

	posLength          = 8
	posLeaderEpoch     = 12
	posMagic           = 16
	posCRC             = 17
	posAttributes      = 21 // the checksum covers from here
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

// The bits of a batch's attributes.
const (
	AttrCompression   = 0x07 // a Compression
	AttrLogAppendTime = 0x08 // max timestamp is that of all records
	AttrTransactional = 0x10
	AttrControl       = 0x20
	AttrDeleteHorizon = 0x40
)

// Compression is how the records of a batch are compressed.
type Compression uint8

// The codecs of Kafka.
const (
	None   = Compression(codec.None)
	Gzip   = Compression(codec.Gzip)
	Snappy = Compression(codec.Snappy)
	LZ4    = Compression(codec.LZ4)
	Zstd   = Compression(codec.Zstd)
)

// String returns the codec's name as topic settings write it.
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

// CRC returns the stored checksum, of the bytes from the attributes to the end.
func (b Batch) CRC() uint32 { return b.u32(posCRC) }

// Attributes returns the bits named by the Attr constants.
func (b Batch) Attributes() int16 { return int16(b.u16(posAttributes)) }

// Compression returns the codec; more than Zstd is unknown.
func (b Batch) Compression() Compression { return Compression(b.Attributes() & AttrCompression) }

// LastOffsetDelta returns the last offset less the base offset.
func (b Batch) LastOffsetDelta() int32 { return b.i32(posLastOffsetDelta) }

// Span returns how many offsets the batch takes.
func (b Batch) Span() int64 { return int64(b.LastOffsetDelta()) + 1 }

// Count returns the number of records, at most Span in a checked batch.
func (b Batch) Count() int { return int(b.i32(posCount)) }

// BaseTimestamp returns the milliseconds that the records' timestamps are relative to.
func (b Batch) BaseTimestamp() int64 { return b.i64(posBaseTimestamp) }

// MaxTimestamp returns the largest timestamp in milliseconds; -1 if the client left it out.
func (b Batch) MaxTimestamp() int64 { return b.i64(posMaxTimestamp) }

// ProducerID returns the idempotent producer's id, or -1.
func (b Batch) ProducerID() int64 { return b.i64(posProducerID) }

// ProducerEpoch returns the idempotent producer's epoch.
func (b Batch) ProducerEpoch() int16 { return int16(b.u16(posProducerEpoch)) }

// BaseSequence returns the sequence of the first record.
func (b Batch) BaseSequence() int32 { return b.i32(posBaseSequence) }

// checksum computes what CRC should be.
func (b Batch) checksum() uint32 { return CRC32C(b[posAttributes:]) }

// Split cuts the first batch off b. It checks the magic and that the length fits and no more; see Check and Verify for
// the rest. The error is an *InvalidError.
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
	n := int64(Batch(b).i32(posLength)) + lengthBase
	if n < BatchHeadSize {
		return 0, &InvalidError{Field: FieldLength, Reason: "batch length below its header", Limit: BatchHeadSize, Given: n}
	}
	if n > int64(len(b)) {
		return 0, &InvalidError{Field: FieldLength, Reason: "batch longer than the data", Limit: int64(len(b)), Given: n}
	}
	return int(n), nil
}

// Patch gives the concatenated batches in b, which Check has accepted, consecutive base offsets from base on and the
// leader epoch, and returns the offset after the last. Both fields are outside the checksum. It panics if b is not whole
// batches.
func Patch(b []byte, base int64, leaderEpoch int32) (next int64) {
	for len(b) > 0 {
		batch, rest, err := Split(b)
		if err != nil {
			panic("record: patch of unchecked batches: " + err.Error())
		}
		binary.BigEndian.PutUint64(batch, uint64(base))
		binary.BigEndian.PutUint32(batch[posLeaderEpoch:], uint32(leaderEpoch))
		base += batch.Span()
		b = rest
	}
	return base
}

// batchHead is what putBatchHead writes; base offset and leader epoch come with Patch.
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

// putBatchHead writes the header of a dense batch into b[:BatchHeadSize], all but the checksum.
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
