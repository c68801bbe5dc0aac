package group

// Code is the result of a request: OK, or the reason of a refusal by its name in the protocol.
type Code uint8

// The codes of this package and its coordinator.
const (
	OK Code = iota
	RequestTimedOut
	CoordinatorLoadInProgress
	CoordinatorNotAvailable
	NotCoordinator
	IllegalGeneration
	InconsistentGroupProtocol
	InvalidGroupID
	UnknownMemberID
	InvalidSessionTimeout
	RebalanceInProgress
	InvalidRequest
	NonEmptyGroup
	GroupIDNotFound
	MemberIDRequired
	GroupMaxSizeReached
	FencedInstanceID
	FencedMemberEpoch
	UnreleasedInstanceID
	UnsupportedAssignor
	StaleMemberEpoch
	InvalidRegularExpression
)

// Ticket identifies a parked request. The caller chooses it; it is never 0.
type Ticket uint64

// Protocol is an assignment strategy that a member supports, with the member's metadata for the
// leader.
type Protocol struct {
	Name     string
	Metadata []byte
}

// JoinRequest asks for membership in the next generation. Times are in nanoseconds. The core copies
// all data that it keeps.
type JoinRequest struct {
	Group    string
	Member   string // "": a new member
	Instance string // group.instance.id of a static member, "" for others
	Client   string // client ID
	Host     string // remote host

	ProtocolType     string
	Protocols        []Protocol // in order of preference
	SessionTimeout   int64
	RebalanceTimeout int64 // 0: SessionTimeout

	// Owns: the client says that it has partitions of an earlier generation, whose positions it keeps (KIP-429).
	Owns     bool
	TwoSteps bool // a new member gets its ID first, and joins with it (KIP-394)
	CanSkip  bool // the client supports SkipAssignment (KIP-814)
}

// JoinAnswer answers a JoinRequest. Its slices are read-only.
type JoinAnswer struct {
	Ticket         Ticket
	Code           Code
	Member         string
	Generation     int32 // -1 unless Code is OK
	ProtocolType   string
	Protocol       string
	Leader         string
	SkipAssignment bool
	Members        []Joined // for the leader
}

// Joined is a member, as described to the leader.
type Joined struct {
	Member, Instance string
	Metadata         []byte
}

// Caller is the sender of a request. Generation is negative if it is no member.
type Caller struct {
	Group, Member, Instance string
	Client                  string // client ID
	Generation              int32
	Commits                 []Partition // partitions that a member of the consumer protocol commits
	// Transactional: the commit is part of a transaction. A caller that does not name a member may commit while the
	// group has members, because old clients do not name theirs; and a member while the group completes a
	// rebalance (KIP-447).
	Transactional bool
}

// SyncRequest asks for the caller's assignment. The leader's request carries the assignments of all
// members.
type SyncRequest struct {
	Caller
	ProtocolType, Protocol string // "" if the request has none
	Assignments            []Assignment
}

// Assignment is the assignment of a member, opaque to the broker.
type Assignment struct {
	Member string
	Data   []byte
}

// SyncAnswer answers a SyncRequest. Assignment is read-only.
type SyncAnswer struct {
	Ticket                 Ticket
	Code                   Code
	ProtocolType, Protocol string
	Assignment             []byte
}

// Leaving names a member to remove: by its id, by its instance, or both.
type Leaving struct{ Member, Instance string }

// Answers collects answers. The caller empties it.
type Answers struct {
	Joins []JoinAnswer
	Syncs []SyncAnswer
}

// State is the state of a group in a rebalance.
type State uint8

// The states, in the order in which a group passes through them.
const (
	Empty State = iota
	Preparing
	Completing
	Stable
	Dead        // not known here
	Reconciling // consumer protocol: some members have not reached their targets
)

// String is the state's name in Kafka's answers.
func (s State) String() string {
	return [...]string{"Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Reconciling"}[s]
}

// View describes a group. Its slices are read-only.
type View struct {
	Name         string
	State        State
	Generation   int32
	ProtocolType string
	Protocol     string // "" unless the group is Stable
	Leader       string
	Members      []MemberView

	Consumers *ConsumersView // nil unless the group uses the consumer protocol
}

// MemberView describes a member. Metadata and Assignment are nil unless the group is Stable.
type MemberView struct {
	Member, Instance, Client, Host string
	Metadata, Assignment           []byte
}

// ConsumersView describes the members of a group of the consumer protocol.
type ConsumersView struct {
	Assignor string
	Members  []ConsumerView
	Names    map[[16]byte]string // of the topics of the group
}

// ConsumerView describes a member. Epoch is the group epoch that it has reached.
type ConsumerView struct {
	Member, Instance, Rack, Client, Host string
	Epoch                                int32
	Names                                []string
	Pattern                              string
	Assigned, Target                     []Partition
}
