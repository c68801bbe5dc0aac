package core

import (
	"errors"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// OpID identifies one request of the core. The answer carries the same OpID. No two requests share
// an OpID; a repeated request keeps it, with the same bytes and a higher Attempt.
type OpID uint64

// EventKind says which fields of an Event are set.
type EventKind uint8

// The events. "answer to" an effect carries the same Op.
const (
	EvStart EventKind = iota + 1 // the first event, once
	// the time of Effects.Wake has come; early or extra ticks are harmless
	EvTick
	EvNonce // answer to EffNonce: Nonce
	// answer to EffPutMeta, EffPutSeal, EffPutData, EffPutSnapshot: Outcome
	EvPut
	EvMeta      // answer to EffGetMeta: Outcome, Cluster
	EvList      // answer to EffList: Outcome, Names, Sizes
	EvSlot      // answer to EffGetSlot: Outcome, Slot
	EvSnapshot  // answer to EffGetSnapshot: Outcome, State
	EvCollected // answer to EffCollect: Listed, Deleted, More
	EvOwned     // answer to EffOwn: Journaled
	EvScrubbed  // answer to EffScrub: Names, Err
	// Proposal to freeze into the next slot; only while Room() is true
	EvFreeze
	// after EffPutData with Attempt 0, before any other event: Op, HeadCRC
	EvEncoded
	EvReaders // On: readers wait for new data
	// On: the leader feeds this broker, so that a follower need not poll for its readers
	EvHeard
	EvFrugal // On: work without urgency should send few requests
	// a reader asks for the end of the log; answered by EffConfirmed with Tag (rule R11)
	EvConfirm
	// the log reaches Pos: a follower applies everything before it; zero: everything
	EvReach
	// a leader ends its epoch without a SEAL: it becomes RoleFenced with ErrSteppedDown
	EvStepDown
	EvPark   // a leader freezes nothing until EvUnpark
	EvUnpark // a leader commits an empty slot, and continues
	// Pace, Promise: a leader commits an empty slot if nothing was committed for Pace (0: none), and
	// its slots promise the next one within Promise (0: no promise)
	EvShow
	// a leader that shows itself (EvShow) commits a last slot, which says so, and freezes nothing more
	EvEnd
	EvFeed // Slot is committed, as its leader says: a follower applies it if it is the next one
)

// Outcome is the verdict on a store request (rule R3).
type Outcome uint8

// The outcomes.
const (
	OutcomeOK        Outcome = iota + 1 // durable, or read
	OutcomeExists                       // put-if-absent found the name taken
	OutcomeNotFound                     // the name does not exist
	OutcomeNoVerdict                    // unknown: 409, 429, 5xx, reset, timeout
	OutcomeRefused                      // 401, 403, no bucket: fast retries will not help
	OutcomeCorrupt                      // read, with a wrong checksum, identity or version
	// 409: like OutcomeNoVerdict, for callers that distinguish it
	OutcomeConflict
	// read, and written by a newer program: a format level above state.LevelMax
	OutcomeNewer
)

// Event is a tagged struct; Kind says which fields are set.
type Event struct {
	Kind     EventKind
	Op       OpID
	Outcome  Outcome
	Err      error // cause of OutcomeRefused and OutcomeCorrupt: passed on, never inspected
	Nonce    record.ID
	Cluster  record.ID
	Names    []string // relative to the root, ascending
	Sizes    []int64  // EvList: of the objects, in the order of Names
	Slot     *Slot
	State    *state.State
	Proposal *Proposal
	HeadCRC  uint32
	Size     int64 // EvPut of a snapshot: its size in bytes
	Listed   int64 // EvCollected: names listed in the pass
	Deleted  int64 // EvCollected: names deleted in the pass
	// EvCollected: the pass is unfinished, or there was more garbage than it may delete
	More bool
	On   bool
	Tag  uint64
	// EvOwned: the store keeps the commit objects of this epoch in a journal
	Journaled bool
	Lost      bool           // EvConfirm: an object that the state references is missing
	Pos       state.Position // EvReach
	Wall      int64          // EvFreeze: wall clock, microseconds since 1970
	// EvFreeze: the highest level to which a client's commit may raise the bucket; 0: state.LevelMax
	RaiseMax uint32
	Pace     Duration // EvShow
	Promise  uint32   // EvShow, ms
}

// Slot is a commit object without its batches, decoded and verified (EvSlot).
type Slot struct {
	Head    record.Head
	Records []state.Record      // empty after HeadOnly, except for a SEAL
	Index   []record.IndexEntry // empty after HeadOnly
}

// Append describes one caller's batches for one partition; the core never sees the batches.
type Append struct {
	Topic            record.ID
	Partition        uint32
	Span             uint32 // number of offsets
	Records          uint32
	Bytes            uint32
	MinTime, MaxTime int64 // record timestamps, ms; the append time from freeze on, if Stamp is set
	Expected         int64 // expected base offset, or -1 for any
	// Stamp is set at freeze if the topic's timestamp-type is LogAppendTime: Frozen.Patch then
	// gives the batches the slot's append time.
	Stamp bool
	// Idempotent: Producer identifies the producer and the batch.
	Idempotent bool
	Producer   state.ProducerBatch
	// Check is the authority of the client. It is examined again at freeze, in the state of the
	// slot: a principal whose right was revoked in an earlier slot appends nothing.
	Check *access.Check
	// Audit, if not 0, is 1 + the position in Proposal.Appends of the audit record of this append,
	// which follows it directly. The slot has both or neither.
	Audit int32
	// Audits: this is the audit record of another member. It has the Err of that member.
	Audits bool
	// Joins: this is the append of an op of a queue, which has the position in its Audit. The slot has
	// both or neither.
	Joins bool

	// Transactional: the batch is part of the transaction of its idempotent producer.
	Transactional bool
	// Marker, if not nil, is the batch: freeze has added the append, for the end of a transaction.
	Marker *record.Marker

	// Atomic: the append is one of a Proposal.Atomics.
	Atomic bool
	// Keyed: keys chose the partition of this and of others of the atomic request for the topic. A repetition has
	// other partitions if the topic has got more.
	Keyed bool

	Base int64 // set at freeze: first offset; with ErrDuplicate that of the original
	// Err is set at freeze: nil, or why the append is not in the slot. It is a refusal of package
	// state, ErrDuplicate, or state.ErrOutcomeUnknown for a duplicate whose original has no
	// verdict.
	Err error
}

// Op is a proposed state record (topic create, delete, ...). Its callers wait for it as for data.
type Op struct {
	Record state.Record
	// Conditional: an OffsetCommit is applied only if the group's offset is Expected; -1 is none.
	Conditional bool
	Expected    int64
	// Own: the broker proposes the record itself, not for a client. Such a record alone does not
	// raise the bucket's format level.
	Own bool
	// Epoch, if not 0, is the only epoch in which the record may be. A broker that leads again must
	// not install a pack of its earlier epoch, because the state names a pack by the epoch of the
	// record.
	Epoch uint32
	// Check is the authority of the client, as in Append.
	Check *access.Check
	// Audit is 1 + the position of the audit record, as in Append, or of the append that joins it. They
	// come first in Proposal.Appends, in the order of the ops.
	Audit int32
	// Late, if not nil, is called at freeze and returns Record.Queue.
	Late func() *state.QueueChange
	// Placed: Record.Queue is about the messages that the append which joins the op sends. Its offsets are
	// relative to the first of them, until freeze.
	Placed bool
	// Atomic: the op is one of a Proposal.Atomics.
	Atomic bool
	// Transact, if not nil, is what the op asks for. Record is unused.
	Transact *Transact

	// Err is set at freeze: nil, or a refusal of package state. An op of an atomic request has that of the
	// append that joins it.
	Err error
}

// Proposal is the content that the shell wants frozen into one slot. Ops apply before Appends, those with Transact
// after them; freeze adds the markers of transactions to Appends. The
// shell owns it and may attach data to User. For a slot that only advances the log the core makes a
// Proposal itself, without members and with a nil User.
//
// After EvFreeze each Proposal is answered exactly once as a whole, by EffCommit, EffUnknown or
// EffReject. Members with Err set are not in the slot; they are answered together with the rest,
// because a refusal may rest on slots in flight.
type Proposal struct {
	Appends []Append
	Ops     []Op
	Atomics []Atomic
	User    any
}

// Atomic is members of a proposal, by position, of which the slot has all or none. Ops change queues, and
// each is joined by one of the appends. Each append is to another partition, and has no expected offset and
// no audit record. Those of one idempotent producer are duplicates all at once: other mixtures are
// state.ErrSequenceGap. In Proposal.Appends they follow those of other ops and precede all others.
type Atomic struct {
	Ops, Appends Span
}

// Span is the positions from From to before To.
type Span struct{ From, To int32 }

// ErrDuplicate as an Append's Err means success: the batch is already committed in the log, at
// Base.
var ErrDuplicate = errors.New("duplicate batch")

// EffectKind says which fields of an Effect are set.
type EffectKind uint8

// The effects. The shell performs requests concurrently, each after its Delay, to which it adds
// jitter, and answers each with an Event.
const (
	EffGetMeta EffectKind = iota + 1 // GET meta/cluster
	EffPutMeta                       // PUT-if-absent Key, Body
	// LIST at most Max names (0: all pages) that begin with Prefix and are greater than After
	EffList
	EffGetSnapshot // GET and decode Key (state.DecodeSnapshot)
	// GET and decode Key (record.DecodeMeta); HeadOnly: one small read, except that a SEAL comes
	// with its records
	EffGetSlot
	EffNonce   // draw 16 random bytes
	EffPutSeal // PUT-if-absent Key, Body (fixed bytes)
	// PUT-if-absent Frozen: encode at Attempt 0 (Frozen.Encode), answer EvEncoded at once, keep the
	// bytes for retries
	EffPutData
	// delete the garbage that NewCollector(View) finds, up to the limit of a pass; answer
	// EvCollected at its end, also after errors
	EffCollect
	// encode View and PUT-if-absent Key; keep the bytes for retries
	EffPutSnapshot
	// claim the folder Key for a journal (objstore.Journaler), once; answer EvOwned, also after
	// errors
	EffOwn
	// compare the names in the bucket with NewNeeded(View, Key); answer EvScrubbed with a few missing
	// names, ascending, and damage of the store that was found (Err). After an error no name is missing
	EffScrub
	// Frozen is committed: its callers are acked. In slot order
	EffCommit
	// Frozen was sent and has no verdict: its callers get "unknown", members with Err set get that
	EffUnknown
	// Proposal is in no slot: every member gets its Err, or Reject where that is nil
	EffReject
	// Role changed: Role, Epoch; with RoleFenced Leader (hint), or Err if it stood in vain or has
	// stepped down; with RoleStopped Err. A follower repeats it when its epoch has changed.
	EffRole
	EffConfirmed // answer to EvConfirm: Tag; OK if Reject is nil
	// Danger needs an operator's attention, because of Err; no other effect depends on it
	EffAlarm
	EffApplied // the committed state grew by replay: wake waiters
)

// Effect is a tagged struct; Kind says which fields are set. It is valid until the next Step.
type Effect struct {
	Kind     EffectKind
	Op       OpID
	Attempt  int
	Delay    int64 // ns to wait before performing it
	Key      string
	After    string
	Prefix   string
	Max      int
	HeadOnly bool
	Direct   bool // EffGetSlot: from the bucket, not from a cache
	Body     []byte
	View     *state.State // immutable
	Frozen   *Frozen
	Proposal *Proposal
	Reject   error
	Role     Role
	Epoch    uint32
	Leader   string
	Err      error
	Danger   string // EffAlarm: in a few words
	Tag      uint64
}

// Effects is the reused output of Step.
type Effects struct {
	List []Effect
	Wake int64 // when EvTick is wanted, ns on the clock of Step's now; 0: none
}

// Reset empties it for the next Step.
func (e *Effects) Reset() { clear(e.List); e.List = e.List[:0] }

// Role is the current role of a core.
type Role uint8

// The roles.
const (
	RoleStarting Role = iota // loading, walking, sealing
	RoleLeader               // rule R5 (5)
	RoleFollower             // follows the log
	// rule R6, ErrOvertaken or ErrSteppedDown: permanently; Follow makes another core
	RoleFenced
	// corruption (rule R9) or a store that breaks its contract: permanently
	RoleStopped
)

func (r Role) String() string {
	return [...]string{"starting", "leader", "follower", "fenced", "stopped"}[r]
}

// Frozen is one DATA slot: fixed at freeze, sent, then committed.
type Frozen struct {
	Key      string
	Proposal *Proposal
	Head     record.Head // template: lengths and checksums are filled in by Encode
	State    []byte      // encoded state records
	// Index has an entry per partition. Order lists the accepted members of Proposal.Appends, as
	// positions, in the order of their data in the object: grouped by partition, in append order
	// within each.
	Index []record.IndexEntry
	Order []int32
	Bytes int64 // of batches
	stamp int64 // append time for records, ms
}
