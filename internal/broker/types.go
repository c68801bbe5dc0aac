package broker

import (
	"time"

	"github.com/sebbroker/seb/internal/budget"

	"github.com/sebbroker/seb/record"
)

// Append is one call's data for one partition.
type Append struct {
	Topic     string
	Partition int32
	// Data is one or more concatenated RecordBatch v2, checked by record.Check or made by package record; the base
	// offsets in it are ignored. The broker owns Data from Submit until Release: it patches base offsets and leader
	// epoch in place, and in a topic with timestamp-type=LogAppendTime the append time and the checksums.
	Data []byte
	// Summary is that of Data. ProducerID >= 0 makes the append idempotent: each of a producer's last 5 appends to a
	// partition is answered with its original offsets when it comes again, once those are committed (Result.Duplicate);
	// one that is not the next in sequence is refused with ErrSequenceGap, one of an older producer epoch with
	// ErrProducerFenced. What is remembered outlives restarts, takeovers and the records themselves, but of very many
	// producers those silent longest are forgotten: such a producer may go on with any sequence.
	Summary record.Summary
	// ClientMade says that a client cut Data into batches: the topic's max-batch-bytes bounds each of them. Batches that Seb
	// encodes itself are cut at 1 MiB, and a larger record stands alone.
	ClientMade bool
	// ExpectedOffset, if >= 0, refuses the append unless it is the partition's next offset (OffsetMismatchError).
	ExpectedOffset int64
	// Release, if not nil, is called exactly once when the broker holds no reference to Data any more. It may be called
	// from any goroutine, before or after the ticket is answered.
	Release func()
	// Memory, if not nil, is the reservation that covers Data, perhaps with others. When the broker keeps Data for readers
	// it moves the reservation to another class, so that new requests find room; Release still gives it back.
	Memory *budget.Reservation
}

// Result is the answer to one Append. Err nil means: durable (rule R4 acked).
type Result struct {
	Base       int64     // offset of the first record
	Span       int64     // number of offsets taken
	AppendTime time.Time // zero for a duplicate
	// Duplicate: an idempotent producer's append that was there already. Base is where; nothing was stored again.
	Duplicate bool
	Err       error
}

// Want asks for a partition's data from an offset.
type Want struct {
	Topic     string
	Partition int32
	Offset    int64
	ID        record.ID // of the topic, if it must be this one; zero: any of its name
	MaxBytes  int       // soft: at least one batch is given; 0 means a default of 1 MiB
}

// Fetched is the answer to Fetch, a part per Want in order. The caller must call Release once.
type Fetched struct {
	Parts   []FetchedPart
	release func()
}

// Release gives the chunks' memory and files back.
func (f *Fetched) Release() {
	if f != nil && f.release != nil {
		f.release()
		f.release = nil
	}
}

// FetchedPart is what one partition gave.
type FetchedPart struct {
	// Err is ErrUnknownTopic, ErrUnknownPartition, *BelowStartError, *CorruptError, ErrStoreUnavailable or ErrOverBudget:
	// nothing could be read. The other parts are good all the same.
	Err           error
	Start         int64 // first offset that is there
	HighWatermark int64 // next offset to be written: all below it is committed
	// Chunks in offset order; the first holds the wanted offset, perhaps not as its first record (whole batches only).
	// Empty when nothing is there yet.
	Chunks []Chunk
}

// TopicInfo describes a topic as committed.
type TopicInfo struct {
	Name       string
	ID         record.ID
	Settings   map[string]string // explicitly set ones, canonical form
	Partitions []PartitionInfo
}

// PartitionInfo describes a partition as committed.
type PartitionInfo struct {
	Start        int64     // first offset that is there
	Next         int64     // high watermark
	LatestCommit time.Time // append time of the newest object with data of this partition; zero if never written
	Records      int64     // after a trim into a compacted range at most so many
	Bytes        int64
}

// TopicSpec is what a topic is created or changed with.
type TopicSpec struct {
	Partitions int               // 0: 1 at creation, unchanged on update
	Settings   map[string]string // DESIGN names (retention-time ...); on update: merged, "" removes
}
