// Package state is the fold of the committed log: topics, partitions, object ranges, groups,
// producers, principals and rules, the chain of epochs. Apply is pure (rule R12): without clock and randomness, equal
// objects give equal states.
package state

import (
	"fmt"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/record"
)

// RecordKind is the kind of a state record. Zero is invalid.
type RecordKind uint8

// The kinds of state records (FORMAT.md).
const (
	TopicCreate RecordKind = 1 // Topic, Name, Partitions, Settings
	TopicDelete RecordKind = 2 // Topic
	TopicChange RecordKind = 3 // Topic, Partitions (0: unchanged), Settings (the whole new set)
	LeaderHint  RecordKind = 4 // Name: the advertised address of the broker that wrote this SEAL
	TopicTrim   RecordKind = 5 // Topic, Partition, Offset: the new start
	// OffsetCommit: Name (the group), Topic, Partition, Offset, Metadata, Time. OffsetDelete: Name,
	// Topic, Partition; a zero Topic deletes the whole group.
	OffsetCommit RecordKind = 6
	OffsetDelete RecordKind = 7
	// ProducerAppend accompanies data of an idempotent producer: Topic, Partition, Offset (its
	// first), Producer.
	ProducerAppend RecordKind = 8
	// PackInstall: Pack. The pack is durable; its content replaces the ranges from which it was
	// made (rule R8).
	PackInstall RecordKind = 9
	// CompactionDone: Topic, Partition, Clean. A compaction of the partition has been installed as
	// a whole.
	CompactionDone RecordKind = 10

	// FormatLevel: Level, Name (the oldest version of Seb that reads it). From here on the log may
	// hold the kinds that the level adds. In the SEAL of epoch 0 it is the first level of the
	// bucket.
	FormatLevel RecordKind = 11
	// LossAccepted: Loss. An operator accepted that committed objects are lost. It occurs only in a
	// SEAL with FlagRecovery.
	LossAccepted RecordKind = 12
	// TimeReset: Time. The log time, which a wrong clock had set too late, goes back to Time.
	TimeReset RecordKind = 13
	// AccessChange: Access. Principals and rules change as a whole.
	AccessChange RecordKind = 14

	// LeaderRun: Run, which wrote this SEAL.
	LeaderRun RecordKind = 15
	// NextSlot: Within. The slot after this one comes within that time while the leader can store it.
	// Within Ends, none comes: the leader has ended.
	NextSlot RecordKind = 16
	// ProducersForget: Time, Owner. The producers of Owner, or of all if it is 0, whose newest batches
	// are older than Time are forgotten.
	ProducersForget RecordKind = 17
	// QueueUpdate: Topic, Partition, Queue. Messages of a queue change their states.
	QueueUpdate RecordKind = 18
	// TransactionUpdate: Name (the transactional ID), Transaction.
	TransactionUpdate RecordKind = 19
)

// Record is one change of the state other than data; Kind says which fields are set.
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
	Owner      uint32 // OwnerOf; with ProducerAppend 0 if the state knows it from an earlier batch
	Pack       *PackContent
	Clean      Compaction
	Level      uint32
	Within     uint32 // ms
	Loss       *Loss
	Access     *access.Change
	Run        *Run
	Queue      *QueueChange

	// Transactional: the batch of a ProducerAppend is part of a transaction.
	Transactional bool
	Transaction   *TransactionChange
}

// Compaction is the result of a finished compaction of a partition.
type Compaction struct {
	// To is the offset up to which the compaction reached: below it each key has at most one
	// record, its newest below To.
	To int64
	// Swept is the offset up to which tombstones were removed; Tombstones is the number of
	// tombstones in [Swept, To).
	Swept      int64
	Tombstones uint32
	Time       int64 // time of the compaction, µs
}

// PackContent describes a pack in its PackInstall record, so that replay need not read the pack.
type PackContent struct {
	ID      uint64 // number within the epoch of its record's slot; 1, 2, 3, ...
	Size    int64  // of the object, bytes
	Entries []PackEntry
}

// PackEntry is a run of one partition in a pack.
type PackEntry struct {
	Topic     record.ID
	Partition uint32
	Range     Range    // its new location: Pack is true, Epoch and Slot are not encoded
	Sources   []Source // the ranges that it replaces, in offset order
}

// Source is the location of a range that went into a pack.
type Source struct {
	Epoch uint32
	Slot  uint64
	Pos   uint32
	Pack  bool
}

// ProducerBatch identifies a batch of an idempotent producer.
type ProducerBatch struct {
	ID       int64 // -1: none
	Epoch    int16
	Sequence int32 // of the first record
	Span     uint32
}

// Loss is the content of a LossAccepted record: the log continues behind objects that are lost.
type Loss struct {
	// LastEpoch is the highest epoch that any object, data directory or position named. The lost
	// branch has no higher one, and the log continues in the epoch after it.
	LastEpoch uint32
	// Next lists partitions whose next offset is raised, because the lost branch may have assigned
	// the offsets below it.
	Next []LostOffsets
}

// LostOffsets is the next offset of a partition after a recovery.
type LostOffsets struct {
	Topic     record.ID
	Partition uint32
	Next      int64
}

// LostBranch is a part of the bucket that a recovery has cut off the log: objects at or after From
// in epochs up to LastEpoch, and objects before From in epochs that are not on the log. Its objects
// stay in the bucket until an operator discards them.
type LostBranch struct {
	From      Position
	LastEpoch uint32
}

// Holds reports whether a position that was on the log before the recovery is on the lost branch.
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

// Range is the location of consecutive offsets of a partition: a section of one object with whole
// batches.
type Range struct {
	Base       int64 // first offset
	Span       uint32
	Records    uint32
	Epoch      uint32 // of the commit object (Epoch, Slot) or the pack (Epoch, number in Slot)
	Pos, Len   uint32 // position and length in the object, bytes
	Slot       uint64
	Pack       bool
	MinTime    int64 // record timestamps, ms
	MaxTime    int64
	AppendTime int64 // µs
}

// Lost reports whether the range stands for offsets of a lost branch: no object holds records for
// them.
func (r *Range) Lost() bool { return r.Len == 0 }

// Source is the location of the range.
func (r *Range) Source() Source { return Source{r.Epoch, r.Slot, r.Pos, r.Pack} }

// End is the offset after the range.
func (r Range) End() int64 { return r.Base + int64(r.Span) }

// EpochStart is the first offset that an epoch wrote in a partition.
type EpochStart struct {
	Epoch  uint32
	Offset int64
}

// Partition is one partition as committed. Read-only outside this package.
type Partition struct {
	Start, Next  int64 // offsets [Start, Next) can be read
	Ranges       []Range
	Epochs       []EpochStart
	Bytes        int64 // sum over Ranges, as Records
	Records      int64
	LatestCommit int64 // append time of the newest range, µs; 0 if never written
	// Producers are the idempotent producers of the partition. A catalog has none here.
	Producers producerTable
	// Clean is the offset up to which the partition was compacted, Swept the offset below which no
	// tombstones remain.
	Clean, Swept int64
	// Marks are the compactions that left tombstones, ascending; at most MarksMax.
	Marks []Mark
	// Open are the open transactions with batches here. A catalog has none here.
	Open []OpenTransaction
	// Aborted are the aborted ones, ascending by Last.
	Aborted []AbortedTransaction
	firsts  []int64 // the smallest First in each abortedBlock of them
	// Transactional is 1 + the offset of the first batch of a transaction; 0: there was none.
	Transactional int64
	gen           uint64

	queue       *Queue // nil: no message was changed
	queueMemory int    // bytes
}

// MarksMax bounds a partition's marks. Beyond it two marks become one, and tombstones stay longer.
const MarksMax = 16

// Mark is a finished compaction. From Time (µs) on, the tombstones between the previous mark and
// Offset had no older records of their keys below them.
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

// Epoch is one leader's time on the chain.
type Epoch struct {
	Number uint32
	Nonce  record.ID
	Seal   uint64 // slot of its SEAL; 0 if it has none yet, and in epoch 0
}

var kindNames = map[RecordKind]string{
	TopicCreate: "topic create", TopicDelete: "topic delete", TopicChange: "topic change", LeaderHint: "leader",
	TopicTrim: "topic trim", OffsetCommit: "offset commit", OffsetDelete: "offset delete", ProducerAppend: "producer append",
	PackInstall: "pack install", CompactionDone: "compaction done",
	FormatLevel: "format level", LossAccepted: "loss accepted", TimeReset: "time reset", AccessChange: "access change",
	LeaderRun: "leader run", NextSlot: "next slot", ProducersForget: "producers forget", QueueUpdate: "queue update", TransactionUpdate: "transaction update",
}

// String names a kind for people.
func (k RecordKind) String() string {
	if name, ok := kindNames[k]; ok {
		return name
	}
	return fmt.Sprintf("kind %d", uint8(k))
}
