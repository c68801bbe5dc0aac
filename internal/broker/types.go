package broker

import (
	"errors"
	"fmt"
	"time"

	"github.com/sebbroker/seb/internal/objstore"
	"github.com/sebbroker/seb/record"
)

// Append is one call's data for one partition.
type Append struct {
	Topic     string
	Partition int32
	// Data is one or more concatenated RecordBatch v2, checked by record.Check or made by package record; the base
	// offsets in it are ignored. The broker owns Data from Submit until Release: it patches base offsets and leader
	// epoch in place.
	Data    []byte
	Summary record.Summary // of Data
	// ExpectedOffset, if >= 0, refuses the append unless it is the partition's next offset (OffsetMismatchError).
	ExpectedOffset int64
	// Release, if not nil, is called exactly once when the broker holds no reference to Data any more. It may be called
	// from any goroutine, before or after the ticket is answered.
	Release func()
}

// Result is the answer to one Append. Err nil means: durable (rule R4 acked).
type Result struct {
	Base       int64 // offset of the first record
	Span       int64 // number of offsets taken
	AppendTime time.Time
	Err        error
}

// Want asks for a partition's data from an offset.
type Want struct {
	Topic     string
	Partition int32
	Offset    int64
	MaxBytes  int // soft: at least one batch is given; 0 means a default of 1 MiB
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
	Err           error // UnknownTopicError, BelowStartError, CorruptError ...; the other parts are good all the same
	Start         int64 // first offset that is there
	HighWatermark int64 // next offset to be written: all below it is committed
	// Chunks in offset order; the first holds the wanted offset, perhaps not as its first record (whole batches only).
	// Empty when nothing is there yet.
	Chunks []Chunk
}

// Chunk is a run of whole batches as stored: bytes in memory, or a section of a file.
type Chunk struct {
	Base, End int64             // offsets [Base, End)
	Size      int64             // bytes
	Parts     [][]byte          // in memory; valid until Fetched.Release, read-only
	Section   *objstore.Section // or in a file (Parts nil); valid until Fetched.Release
	Verified  bool              // batch CRCs are known good; a route that decodes checks them anyway
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
	Bytes        int64
}

// TopicSpec is what a topic is created or changed with.
type TopicSpec struct {
	Partitions int               // 0: 1 at creation, unchanged on update
	Settings   map[string]string // DESIGN names (retention-time ...); on update: merged, "" removes
}

// The errors that callers may test for with errors.Is. Front ends map them in one table each.
var (
	ErrUnknownTopic     = errors.New("unknown topic")
	ErrUnknownPartition = errors.New("unknown partition")
	ErrTopicExists      = errors.New("topic exists")
	ErrFenced           = errors.New("fenced: another broker leads")
	ErrNotLeader        = errors.New("this broker does not lead (yet)")
	ErrReadOnly         = errors.New("broker is read-only")
	ErrOverBudget       = errors.New("memory budget exhausted")
	ErrStoreUnavailable = errors.New("store unavailable")
	ErrCorrupt          = errors.New("corrupt data")
	ErrOutcomeUnknown   = errors.New("outcome unknown: the records may appear once, or never")
	ErrTooLarge         = errors.New("too large")
	ErrInvalid          = errors.New("invalid")
	ErrOffsetMismatch   = errors.New("offset mismatch")
	ErrBelowStart       = errors.New("offset below start")
	ErrClosed           = errors.New("broker is closing")
)

// OffsetMismatchError says where a partition really ends. It is ErrOffsetMismatch.
type OffsetMismatchError struct{ Expected, Next int64 }

func (e *OffsetMismatchError) Error() string {
	return fmt.Sprintf("offset mismatch: expected %d, the partition's next offset is %d", e.Expected, e.Next)
}

// Is makes it ErrOffsetMismatch.
func (e *OffsetMismatchError) Is(t error) bool { return t == ErrOffsetMismatch }

// BelowStartError says what the first offset is. It is ErrBelowStart.
type BelowStartError struct{ Offset, Start int64 }

func (e *BelowStartError) Error() string {
	return fmt.Sprintf("offset %d is below the partition's start %d", e.Offset, e.Start)
}

// Is makes it ErrBelowStart.
func (e *BelowStartError) Is(t error) bool { return t == ErrBelowStart }

// FencedError says who took over, as a hint. It is ErrFenced.
type FencedError struct {
	Epoch  uint32 // the epoch that took over
	Leader string // its advertised address, "" if unknown
}

func (e *FencedError) Error() string {
	if e.Leader == "" {
		return fmt.Sprintf("fenced: epoch %d took over", e.Epoch)
	}
	return fmt.Sprintf("fenced: epoch %d took over, try %s", e.Epoch, e.Leader)
}

// Is makes it ErrFenced.
func (e *FencedError) Is(t error) bool { return t == ErrFenced }

// InvalidError names what of a request is wrong, the limit and what was given. It is ErrInvalid.
type InvalidError struct{ Field, Reason string }

func (e *InvalidError) Error() string { return e.Field + ": " + e.Reason }

// Is makes it ErrInvalid.
func (e *InvalidError) Is(t error) bool { return t == ErrInvalid }
