package broker

import (
	"time"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/log/state"

	"github.com/sebbroker/seb/record"
)

// Append is one call's data for one partition.
type Append struct {
	Topic     string
	Partition int32
	// Data is one or more concatenated RecordBatch v2, checked by record.Check or made by package
	// record. The base offsets in it are ignored. The broker owns Data from Submit until Release.
	// It patches base offsets and leader epoch in place, and with timestamp-type=LogAppendTime also
	// the append time and the checksums.
	Data []byte
	// Summary is that of Data. ProducerID >= 0 makes the append idempotent. If one of a producer's
	// last 5 appends to a partition is repeated, its result is the original offsets, once they are
	// committed (Result.Duplicate). An append out of sequence is refused with ErrSequenceGap, one
	// of an older producer epoch with ErrProducerFenced.
	//
	// The state of a producer outlives restarts, takeovers and the records themselves. Above a
	// limit on the number of producers, the least recent ones are forgotten; a forgotten producer
	// may continue with any sequence.
	Summary record.Summary
	// ClientMade means that a client made the batches: the default of max-batch-bytes limits them
	// too, and not only a value that the topic has. Seb itself cuts batches at that value or at
	// record.BatchTarget, and a larger record gets its own batch.
	ClientMade bool
	// Check is the authority of the client; nil: the root key, or Seb itself. If the state of the
	// slot no longer allows the append, it is refused with ErrUnauthorized.
	Check *access.Check
	// ExpectedOffset, if >= 0, refuses the append unless it is the partition's next offset
	// (OffsetMismatchError).
	ExpectedOffset int64
	// Release, if not nil, is called exactly once when the broker no longer references Data. It may
	// be called from any goroutine, before or after the ticket's result.
	Release func()
	// Memory, if not nil, is the reservation that covers Data, and possibly other data. If the
	// broker keeps Data for readers, it moves the reservation to another class, so that new
	// requests have memory. Release still frees the reservation.
	Memory *budget.Reservation
}

// Result is the result of one Append. A nil Err means durable (rule R4 acked).
type Result struct {
	Base       int64     // offset of the first record
	Span       int64     // number of offsets
	AppendTime time.Time // zero for a duplicate
	// Duplicate: an earlier append of the idempotent producer has this result, and nothing was
	// stored now.
	Duplicate bool
	Err       error
}

// Want is a request for a partition's data from an offset on.
type Want struct {
	Topic     string
	Partition int32
	Offset    int64
	ID        record.ID // required topic id; zero: any topic of this name
	MaxBytes  int       // soft: at least one batch is returned; 0: default 1 MiB
	Isolation Isolation
}

// Fetched is the result of Fetch, one part per Want in order. The caller must call Release.
type Fetched struct {
	Parts   []FetchedPart
	release func()
}

// Release frees the chunks' memory and files.
func (f *Fetched) Release() {
	if f != nil && f.release != nil {
		f.release()
		f.release = nil
	}
}

// FetchedPart is one partition's result.
type FetchedPart struct {
	// Err is ErrUnknownTopic, ErrUnknownPartition, *BelowStartError, *CorruptError,
	// ErrStoreUnavailable or ErrOverBudget if nothing could be read. It does not affect the other
	// parts.
	Err           error
	Start         int64 // first offset that is there
	HighWatermark int64 // next offset to be written; with Committed the last stable offset
	LastStable    int64 // all transactions with batches below it have ended
	// Aborted are the aborted transactions with batches in the chunks from the wanted offset on, by first
	// offset, with RawCommitted.
	Aborted []state.AbortedTransaction
	// Chunks are in offset order, without gaps. The first holds the wanted offset, possibly inside its
	// first batch. One of size 0 is offsets whose batches are left out (Isolation); a reader goes on after
	// it. Empty if there is no data from that offset on.
	Chunks []Chunk
}

// TopicInfo describes a committed topic.
type TopicInfo struct {
	Name       string
	ID         record.ID
	Settings   map[string]string // explicit ones only, in canonical form
	Partitions []PartitionInfo
}

// PartitionInfo describes a committed partition.
type PartitionInfo struct {
	Start int64 // first offset that is there
	Next  int64 // high watermark
	// Stable is the last stable offset: all transactions with batches below it have ended.
	Stable int64
	// append time of the newest object with data of this partition; zero if there is none
	LatestCommit time.Time
	Records      int64 // upper bound if a trim ended inside a compacted range
	Bytes        int64
	Compacted    int64 // offset up to which the partition was compacted
}

// End is the end of the partition for a reader.
func (p *PartitionInfo) End(i Isolation) int64 {
	if i.stable() {
		return p.Stable
	}
	return p.Next
}

// TopicSpec is a topic's configuration to create or update.
type TopicSpec struct {
	Partitions int               // 0: 1 on creation, unchanged on update
	Settings   map[string]string // by name ("retention-time"); on update merged, "" removes one
}
