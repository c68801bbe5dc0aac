package group

// Code says why a request is refused, by the name of the protocol; OK: it is not.
type Code uint8

// The codes that this package and its coordinator give.
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

// Ticket stands for a request that is parked. It is the caller's, and never 0.
type Ticket uint64

// Protocol is a way of assigning partitions that a member knows, and what it tells the leader about itself for it.
type Protocol struct {
	Name     string
	Metadata []byte
}

// JoinRequest asks to be a member of the next generation. Times are in nanoseconds. The core copies what it keeps.
type JoinRequest struct {
	Group    string
	Member   string // "" to be given an id
	Instance string // group.instance.id of a static member, "" for others
	Client   string // what the client calls itself
	Host     string // where it connects from

	ProtocolType     string
	Protocols        []Protocol // the best first
	SessionTimeout   int64
	RebalanceTimeout int64 // 0: SessionTimeout

	TwoSteps bool // a new member is given its id first, and joins with it (KIP-394)
	CanSkip  bool // a leader that comes back may be told that the assignment stands (KIP-814)
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

// Joined is a member as its leader sees it.
type Joined struct {
	Member, Instance string
	Metadata         []byte
}

// Caller is who a request says it is from. Generation is below 0 of one that is no member.
type Caller struct {
	Group, Member, Instance string
	Client                  string // what the client calls itself
	Generation              int32
	Commits                 []Partition // that a member of the consumer protocol commits in
}

// SyncRequest asks for the caller's assignment, and brings everyone's if the caller leads.
type SyncRequest struct {
	Caller
	ProtocolType, Protocol string // "" if the client does not say
	Assignments            []Assignment
}

// Assignment is what a member is to work on; only clients know what it means.
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

// Answers collects what goes out. The caller empties it.
type Answers struct {
	Joins []JoinAnswer
	Syncs []SyncAnswer
}

// State is where a group is in a rebalance.
type State uint8

// The states, in the order in which a group passes through them.
const (
	Empty State = iota
	Preparing
	Completing
	Stable
	Dead        // not known here
	Reconciling // of the consumer protocol: members are on their way to their targets
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
	Protocol     string // chosen one, "" unless the group is Stable
	Leader       string
	Members      []MemberView

	Consumers *ConsumersView // of a group of the consumer protocol; nil for others
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
	Names    map[[16]byte]string // of the topics that there are for them
}

// ConsumerView describes a member. Epoch is that of the group that it has come to.
type ConsumerView struct {
	Member, Instance, Rack, Client, Host string
	Epoch                                int32
	Names                                []string
	Pattern                              string
	Assigned, Target                     []Partition
}
