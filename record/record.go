// Package record defines the bytes that Seb stores: records, Kafka RecordBatch v2 batches, and the
// files that contain them.
//
// A batch (Batch) is the unit of storage. A batch of a Kafka client is checked (Check) and stored
// unchanged. Other batches are made here: by Append from records, or by a Frame directly from a
// socket. A Reader reads stored batches. An object of version 2 (Head, EncodeObject, DecodeObject)
// contains batches of many partitions. A file of version 1 (EncodeV1, DecodeV1) is the older
// layout, for import and export. FORMAT.md draws every layout.
//
// Only Frame.ReadFrom and EncodeV1 do I/O. Functions keep no buffer of the caller unless their
// comment says so. They may be called concurrently on different buffers; use a Reader or Frame from
// one goroutine.
package record

// Header is one header of a record. A nil Value is null, which differs from an empty one.
type Header struct {
	Key   string
	Value []byte
}

// Record is one record. A nil Key or Value is null, which differs from an empty one.
type Record struct {
	// Offset is the position in the partition. Append ignores it, because a batch numbers its
	// records.
	Offset int64
	// Timestamp is in milliseconds since the Unix epoch.
	Timestamp int64
	Key       []byte
	Value     []byte
	Headers   []Header
}

// Summary describes concatenated batches of one partition.
type Summary struct {
	Batches int
	Records int
	// Span is the number of offsets of the batches. It equals Records, or is larger after
	// compaction.
	Span int64
	// MinTimestamp and MaxTimestamp are in milliseconds. Check, Append and Frame set them from the
	// records. Verify does not parse records: it sets the smallest base timestamp and the largest
	// max timestamp of the batch headers.
	MinTimestamp, MaxTimestamp int64
	// ProducerID, ProducerEpoch and BaseSequence are those of the first batch, all -1 without an
	// idempotent producer. Check makes sure that all batches have the same producer and consecutive
	// sequences.
	ProducerID    int64
	ProducerEpoch int16
	BaseSequence  int32
}
