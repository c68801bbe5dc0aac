package core

import (
	"errors"

	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/record"
)

// OpID names one request of the core. Its answer carries the same OpID; an OpID is never used for two requests, but a
// request may be repeated (an effect with the same OpID, same bytes, a higher Attempt).
type OpID uint64

// EventKind says which fields of an Event count.
type EventKind uint8

// The events. "Answer" means: of the effect with the same Op.
const (
	EvStart     EventKind = iota + 1 // once, first
	EvTick                           // the time asked for by Effects.Wake has come (early or spurious ticks do no harm)
	EvNonce                          // answer to EffNonce: Nonce
	EvPut                            // answer to EffPutMeta, EffPutSeal, EffPutData, EffPutSnapshot: Outcome
	EvMeta                           // answer to EffGetMeta: Outcome, Cluster
	EvList                           // answer to EffList: Outcome, Names
	EvSlot                           // answer to EffGetSlot: Outcome, Slot
	EvSnapshot                       // answer to EffGetSnapshot: Outcome, State
	EvCollected                      // answer to EffCollect: Listed, Deleted, More
	EvFreeze                         // proposals to freeze into the next slot: Proposal. Only when Room() is true
	EvEncoded                        // after EffPutData with Attempt 0, before any other event: Op, HeadCRC
	EvReaders                        // whether anybody waits for new data: Waiting
	EvConfirm                        // somebody asks for the end of the log: answered by EffConfirmed with Tag (rule R11)
)

// Outcome is the verdict on a store request (rule R3).
type Outcome uint8

// The outcomes.
const (
	OutcomeOK        Outcome = iota + 1 // durable, or read
	OutcomeExists                       // put-if-absent found the name taken
	OutcomeNotFound                     // the name is not there
	OutcomeNoVerdict                    // unknown: 409, 429, 5xx, reset, timeout
	OutcomeRefused                      // 401, 403, no bucket: will not heal by repeating fast
	OutcomeCorrupt                      // read, but not what it must be: checksum, identity, version
	OutcomeConflict                     // 409: like OutcomeNoVerdict, told apart only where it is known
	OutcomeNewer                        // read, and a newer program wrote it: a format level above state.LevelMax
)

// Event is a tagged struct; Kind says which fields count.
type Event struct {
	Kind     EventKind
	Op       OpID
	Outcome  Outcome
	Err      error // why, for OutcomeRefused and OutcomeCorrupt: passed on, never judged
	Nonce    record.ID
	Cluster  record.ID
	Names    []string // relative to the root, ascending
	Slot     *Slot
	State    *state.State
	Proposal *Proposal
	HeadCRC  uint32
	Size     int64 // EvPut of a snapshot: its bytes
	Listed   int64 // EvCollected: how many names the pass has seen
	Deleted  int64 // EvCollected: how many of them it has deleted
	More     bool  // EvCollected: the pass was not finished, or there was more garbage than it might delete
	Waiting  bool
	Tag      uint64
	Lost     bool  // EvConfirm: because an object that the state references is missing
	Wall     int64 // EvFreeze: wall clock, microseconds since 1970
}

// Slot is a commit object without its batches, decoded and verified (EvSlot).
type Slot struct {
	Head    record.Head
	Records []state.Record      // empty if only the head was asked for (but always there for a SEAL)
	Index   []record.IndexEntry // empty if only the head was asked for
}

// Append is the head of one caller's data for one partition; the core never sees the data.
type Append struct {
	Topic            record.ID
	Partition        uint32
	Span             uint32 // offsets it takes
	Records          uint32
	Bytes            uint32
	MinTime, MaxTime int64 // record timestamps, ms; of Frozen.Stamp from freeze on, if Stamp is set
	Expected         int64 // expected base offset, or -1
	// Stamp is set at freeze: the topic's timestamp-type is LogAppendTime, so the batches get the slot's append time (Place).
	Stamp bool
	// Idempotent: Producer says who appends it, as which of its batches.
	Idempotent bool
	Producer   state.ProducerBatch

	Base int64 // set at freeze: its first offset; with ErrDuplicate that of the original
	// Err is set at freeze: nil, or why it is not in the slot: a refusal of package state, ErrDuplicate, or
	// state.ErrOutcomeUnknown of a duplicate whose original has no verdict.
	Err error
}

// Op is a proposed state record (topic create, delete, ...) that callers wait for like for data.
type Op struct {
	Record state.Record
	// Conditional: an OffsetCommit is made only if the group's offset is Expected; -1 is none.
	Conditional bool
	Expected    int64
	// Own: the broker proposes it by itself, for no client. Alone it does not raise the bucket's format level.
	Own bool

	Err error // set at freeze: nil, or why it is not in the slot, a refusal of package state
}

// Proposal is what the shell wants frozen into one slot. Ops apply before Appends. The shell owns it and may hang its
// own data on User. The core makes one itself, without members and with a nil User, for a slot that only moves the log
// on; it is told of like any other. After EvFreeze it is answered exactly once as a whole: by EffCommit, EffUnknown or EffReject;
// single members with Err set were left out of the slot (their answer is known together with the rest, since it may
// rest on slots in flight).
type Proposal struct {
	Appends []Append
	Ops     []Op
	User    any
}

// ErrDuplicate as an Append's Err is no refusal: the batch is in the log already, committed, at Base.
var ErrDuplicate = errors.New("a duplicate")

// EffectKind says which fields of an Effect count.
type EffectKind uint8

// The effects. Requests are performed concurrently, after Delay (jittered by the shell), and answered by an Event.
const (
	EffGetMeta     EffectKind = iota + 1 // GET meta/cluster
	EffPutMeta                           // PUT-if-absent Key, Body
	EffList                              // LIST names that begin with Prefix and are greater than After, at most Max (0: page through all)
	EffGetSnapshot                       // GET and decode Key (state.DecodeSnapshot)
	EffGetSlot                           // GET and decode Key (record.DecodeMeta); HeadOnly: one small read is enough, but a SEAL always with its records
	EffNonce                             // draw 16 random bytes
	EffPutSeal                           // PUT-if-absent Key, Body (fixed bytes)
	EffPutData                           // PUT-if-absent Frozen: at Attempt 0 encode it (Frozen.Encode), answer EvEncoded at once, keep the bytes for every later attempt
	EffCollect                           // find garbage by NewCollector(View) and delete it, as much of it as one pass may; answer EvCollected when it is over, however it went
	EffPutSnapshot                       // encode View and PUT-if-absent Key; keep the bytes for every later attempt
	EffCommit                            // Frozen is committed: its callers are acked. In slot order
	EffUnknown                           // Frozen was sent and has no verdict; its callers hear "unknown", members with Err set that
	EffReject                            // Proposal is in no slot: every member hears its Err, or Reject where that is nil
	EffRole                              // Role changed: Role, Epoch; with RoleFenced Leader (hint); with RoleStopped Err
	EffConfirmed                         // answer to EvConfirm: Tag; OK if Reject is nil
	EffAlarm                             // something a person must look at: Err. Nothing else follows from it
	EffApplied                           // the committed state grew by replay (walkers): wake waiters
)

// Effect is a tagged struct; Kind says which fields count. It is valid until the next Step.
type Effect struct {
	Kind     EffectKind
	Op       OpID
	Attempt  int
	Delay    int64 // ns to wait before performing it; the shell adds jitter
	Key      string
	After    string
	Prefix   string
	Max      int
	HeadOnly bool
	Body     []byte
	View     *state.State // immutable
	Frozen   *Frozen
	Proposal *Proposal
	Reject   error
	Role     Role
	Epoch    uint32
	Leader   string
	Err      error
	Tag      uint64
}

// Effects is the reused output of Step.
type Effects struct {
	List []Effect
	Wake int64 // when EvTick is wanted, ns on the clock of Step's now; 0: no tick wanted
}

// Reset empties it for the next Step.
func (e *Effects) Reset() { clear(e.List); e.List = e.List[:0] }

// Role is what this core is at the moment.
type Role uint8

// The roles.
const (
	RoleStarting Role = iota // loading, walking, sealing
	RoleLeader               // rule R5 (5): the one leader
	RoleFollower             // read-only: follows the log
	RoleFenced               // rule R6: for good
	RoleStopped              // corruption (rule R9) or a store that lies: for good
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
	// Index has an entry per partition; Order lists the positions in Proposal.Appends in the order in which their data
	// lies in the object (grouped by partition, in append order; rejected ones are missing).
	Index []record.IndexEntry
	Order []int32
	Bytes int64 // of batches
	stamp int64 // append time for records, ms
}
