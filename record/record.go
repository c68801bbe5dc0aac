// Package record holds what Seb stores, as bytes: records, Kafka RecordBatch v2 batches, and the files that carry them.
//
// A batch (Batch) is the unit of storage. It comes from a Kafka client as it is and is only checked (Check), or is made
// here: by Append from records, or by a Frame straight from a socket. Stored batches are read with a Reader. An object
// of version 2 (Head, EncodeObject, DecodeObject) carries batches of many partitions; a file of version 1 (EncodeV1,
// DecodeV1) is the older layout, kept for import and export. FORMAT.md draws every layout.
//
// Nothing here does I/O except Frame.ReadFrom and EncodeV1, and nothing keeps a buffer it was given unless it says so.
// Functions may be called concurrently on different buffers; the types Reader and Frame belong to one goroutine.
package record

// Header is one header of a record. A nil Value is null, which differs from an empty one.
type Header struct {
	Key   string
	Value []byte
}

// Record is one record. Nil Key or Value is null, which differs from an empty one.
type Record struct {
	// Offset is the position in the partition. Append ignores it: a batch numbers its records itself.
	Offset int64
	// Timestamp is in milliseconds since the Unix epoch.
	Timestamp int64
	Key       []byte
	Value     []byte
	Headers   []Header
}

// Summary says what a run of concatenated batches of one partition holds.
type Summary struct {
	Batches int
	Records int
	// Span is how many offsets the batches take. It is Records, except after compaction, when it may be more.
	Span int64
	// MinTimestamp and MaxTimestamp are in milliseconds. Check, Append and Frame give those of the records. Verify opens
	// no record: it gives the smallest base timestamp and the largest max timestamp of the batch headers.
	MinTimestamp, MaxTimestamp int64
	// ProducerID, ProducerEpoch and BaseSequence are those of the first batch, all -1 without an idempotent producer. Check
	// makes sure that all batches are of one producer and that their sequences follow one another.
	ProducerID    int64
	ProducerEpoch int16
	BaseSequence  int32
}
