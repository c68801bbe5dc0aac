// Package state is the fold of the committed log: topics, partitions, where each offset range lies, the chain of
// epochs. Apply is pure (rule R12): no clock, no randomness, the same objects give the same state.
package state

import (
	"github.com/sebbroker/seb/record"
)

// RecordKind tells state records apart. Zero is invalid.
type RecordKind uint8

// The kinds of state records (FORMAT.md).
const (
	TopicCreate RecordKind = 1 // Topic, Name, Partitions, Settings
	TopicDelete RecordKind = 2 // Topic
	TopicChange RecordKind = 3 // Topic, Partitions (0: unchanged), Settings (the whole new set)
	LeaderHint  RecordKind = 4 // Name: the advertised address of the broker that wrote this SEAL
	TopicTrim   RecordKind = 5 // Topic, Partition, Offset: the new start
	// OffsetCommit: Name (the group), Topic, Partition, Offset, Metadata, Time. OffsetDelete: the same without the last
	// three; a zero Topic deletes the whole group.
	OffsetCommit RecordKind = 6
	OffsetDelete RecordKind = 7
	// ProducerAppend goes with data of an idempotent producer: Topic, Partition, Offset (its first), Producer.
	ProducerAppend RecordKind = 8
	// PackInstall: Pack. The pack is durable; its content takes the place of the ranges it was made from (rule R8).
	PackInstall RecordKind = 9
	// CompactionDone: Topic, Partition, Clean. A compaction of the partition has been installed as a whole.
	CompactionDone RecordKind = 10

	// FormatLevel: Level, Name (the oldest version of Seb that reads it). From here on the log may hold what the level adds.
	// In the SEAL of epoch 0 it is the level that the bucket begins with.
	FormatLevel RecordKind = 11
	// LossAccepted: Loss. An operator accepted that committed objects are lost. It stands only in a SEAL with FlagRecovery.
	LossAccepted RecordKind = 12
	// TimeReset: Time. The log's time, which a wrong clock had set too late, goes back to Time.
	TimeReset RecordKind = 13
)

// Record is one change of state other than data; Kind says which fields count.
type Record struct {
	Kind       RecordKind
	Topic      record.ID
	Name       string
	Partitions uint32
	Settings   map[string]string
	Partition  uint32
	Offset     int64
	Metadata   string
	Time       int64 // µs
	Producer   ProducerBatch
	Pack       *PackContent
	Clean      Compaction
	Level      uint32
	Loss       *Loss
}

// Compaction is what a finished compaction of a partition says.
type Compaction struct {
	// To is the offset up to which it reached: below it each key stands once, in its newest record below it.
	To int64
	// Swept is the offset up to which tombstones were removed; Tombstones is how many stand in [Swept, To).
	Swept      int64
	Tombstones uint32
	Time       int64 // when, µs
}

// PackContent is what the record of a pack says of it, so that replay opens no pack.
type PackContent struct {
	ID      uint64 // of the epoch in whose slot the record is; 1, 2, 3, ...
	Size    int64  // of the object, bytes
	Entries []PackEntry
}

// PackEntry is a run of one partition in a pack.
type PackEntry struct {
	Topic     record.ID
	Partition uint32
	Range     Range    // where it lies now: Pack is true, Epoch and Slot are not encoded
	Sources   []Source // where it was read from, in offset order
}

// Source is a range that went into a pack, by its place.
type Source struct {
	Epoch uint32
	Slot  uint64
	Pos   uint32
	Pack  bool
}

// ProducerBatch is what an idempotent producer says of a run of its records for one partition.
type ProducerBatch struct {
	ID       int64 // -1: none
	Epoch    int16
	Sequence int32 // of the first record
	Span     uint32
}

// Loss is what a recovery records: the log goes on behind objects that are lost.
type Loss struct {
	// LastEpoch is the highest epoch that any object, data folder or position named. The lost branch has no higher one, and
	// the log continues in the epoch after it.
	LastEpoch uint32
	// Next lists partitions whose next offset grows, because the lost branch may have given out the offsets before it.
	Next []LostOffsets
}

// LostOffsets is the next offset of a partition after a recovery.
type LostOffsets struct {
	Topic     record.ID
	Partition uint32
	Next      int64
}

// LostBranch is a part of the bucket that a recovery has cut off the log: what lies at or after From in epochs up to
// LastEpoch, and what lies before From in epochs that are not on the log. Its objects stay in the bucket until an operator
// discards them.
type LostBranch struct {
	From      Position
	LastEpoch uint32
}

// Holds says whether a position that lay on the log before the recovery lies on the lost branch.
func (b LostBranch) Holds(p Position) bool { return !p.Less(b.From) && p.Epoch <= b.LastEpoch }

// Position is the next slot to replay; ordered by Epoch, then Slot.
type Position struct {
	Epoch uint32
	Slot  uint64
}

// Less orders positions.
func (p Position) Less(q Position) bool {
	return p.Epoch < q.Epoch || p.Epoch == q.Epoch && p.Slot < q.Slot
}

// Range says where a run of a partition's offsets lies: a section of one object, whole batches.
type Range struct {
	Base       int64 // first offset
	Span       uint32
	Records    uint32
	Epoch      uint32 // the commit object (epoch, slot), or the pack (epoch, id in Slot)
	Pos, Len   uint32 // bytes within the object
	Slot       uint64
	Pack       bool
	MinTime    int64 // record timestamps, ms
	MaxTime    int64
	AppendTime int64 // µs
}

// Lost says that the range stands for offsets of a lost branch: no object holds records for them.
func (r *Range) Lost() bool { return r.Len == 0 }

// Source is the range's place.
func (r *Range) Source() Source { return Source{r.Epoch, r.Slot, r.Pos, r.Pack} }

// End is the offset after the range.
func (r Range) End() int64 { return r.Base + int64(r.Span) }

// EpochStart is the first offset a leader epoch wrote in a partition.
type EpochStart struct {
	Epoch  uint32
	Offset int64
}

// Partition is one partition as committed. Read-only outside this package.
type Partition struct {
	Start, Next  int64 // offsets [Start, Next) are there
	Ranges       []Range
	Epochs       []EpochStart
	Bytes        int64 // of all Ranges, as are the Records
	Records      int64
	LatestCommit int64 // append time of the newest range, µs; 0 if never written
	// Producers by id: what is known of idempotent producers, bounded over all partitions (ProducersMax).
	Producers map[int64]Producer
	// Clean is the offset up to which the partition was compacted, Swept that below which no tombstones are left.
	Clean, Swept int64
	// Marks are the compactions that left tombstones behind, ascending; at most MarksMax.
	Marks []Mark
	gen   uint64
}

// MarksMax bounds a partition's marks. Where there would be more, two become one, and tombstones stay longer.
const MarksMax = 16

// Mark is a finished compaction: the tombstones between the mark before it and Offset had nothing older below them from
// Time (µs) on.
type Mark struct {
	Offset, Time int64
}

// Topic is one topic as committed. Read-only outside this package.
type Topic struct {
	ID         record.ID
	Name       string
	Settings   map[string]string // never changed in place
	Partitions Partitions
	gen        uint64
}

// Epoch is one leadership term on the chain.
type Epoch struct {
	Number uint32
	Nonce  record.ID
	Seal   uint64 // slot of its SEAL; 0 as long as it has none (and in epoch 0)
}
