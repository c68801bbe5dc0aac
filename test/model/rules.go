package model

import "time"

// Rule is a rule of the design that a run can leave out.
type Rule uint8

// The rules.
const (
	Gone Rule = iota
	Echo
	OwnerBeats
	Join
	Fresh
	WallGap
	Life
	Look
	Newest
	Claim
	Local
	Alive
	Promise
	Relist
	KeepRegistered
	Proof
	Strict
	OneEpoch
	ListAfterSeal
	Validate
	OneOwner
	StepDown
	Doubt
	DoubtAny
	LookAge
	YieldStore
	YieldTerm
	EndMark
	Undrained
	Deposed
	NeverWaits
	Committed
	Collected
	EmptyFirst
	ForwardOnce
	MoveOnce
)

// Rules is a set of rules.
type Rules uint64

// Has reports whether r is in the set.
func (s Rules) Has(r Rule) bool { return s&(1<<r) != 0 }

// Without returns the set with the rules.
func Without(list ...Rule) (s Rules) {
	for _, r := range list {
		s |= 1 << r
	}
	return s
}

// Bug is a defect of a process that some rules are insurance against.
type Bug uint8

// The bugs.
const (
	// FeedEarly: a leader feeds a slot when it freezes it.
	FeedEarly Bug = iota
	// SealThenStop: a candidate whose SEAL is stored sometimes stops before it leads.
	SealThenStop
)

// Mode is a kind of runs.
type Mode string

// The modes.
const (
	// Calm has the times of the design and one fault at a time: safety, a leader within 15 s of each
	// fault, no needless takeover, no stale answer, no request to an idle bucket.
	Calm Mode = "calm"
	// Sleepy has candidates and retries that sleep up to 30 s between two requests, and PUTs that are
	// up to 40 s late: safety.
	Sleepy Mode = "sleepy"
	// Chaos draws every time over three orders of magnitude and has many faults at once: safety, and
	// a leader after the last fault.
	Chaos Mode = "chaos"
	// Loopback has brokers that no other machine reaches, started again whenever they exit: safety,
	// and each broker deposes a live leader at most once.
	Loopback Mode = "loopback"
)

// Modes are all modes.
var Modes = []Mode{Calm, Sleepy, Chaos, Loopback}

// times are the settings that no safety may depend on.
type times struct {
	beat    time.Duration // between two beats
	silent  time.Duration // a link of this age is silent
	alive   time.Duration // an unseen leader commits an empty slot this often
	fast    time.Duration // for so long; then at the slow pace. Stands for ten minutes
	slow    time.Duration // the slow pace. Stands for one minute
	trouble time.Duration // a store without a verdict for so long is in trouble
	parked  time.Duration // a call waits for a leader
	request time.Duration // a request without a verdict
}

var designed = times{
	beat: 500 * ms, silent: 2500 * ms, alive: 1000 * ms, fast: 20 * time.Second, slow: 8 * time.Second,
	trouble: 3 * time.Second, parked: 2 * time.Second, request: time.Second,
}

// The invariants.
const (
	badChain        = "safety: the chain of checksums is broken"
	badSnapshot     = "safety: a snapshot is not a prefix of the chain"
	rejectedAppears = "safety: a rejected call is in the log"
	callTwice       = "safety: one call is in the log twice"
	ackLost         = "safety: an acknowledged call is not on the chain"
	answeredTwice   = "safety: one call was answered twice"
	foreignData     = "safety: DATA of another leader in a slot of this epoch"
	offChain        = "safety: a leader's epoch is not on the chain"
	wrongState      = "safety: a leader's state is not the fold of the chain"
	showsWrong      = "A5: a standby shows a state that is not on the chain"
	showsEarly      = "A5: a standby shows a slot that is not committed"
	atCollected     = "R13: a candidate takes a collected slot for the end"
	noLeader        = "A1: no leader for 15 s, though a broker could lead"
	noAnswer        = "A1: a leader without a fault does not acknowledge"
	lateAfterEnd    = "A1: no leader 2 s after the clean end of a leader that no broker heard"
	noLeaderAtEnd   = "A1: no leader after the end of all faults"
	unrest          = "A2: takeovers after the end of all faults"
	needless        = "A2: a needless takeover"
	pingPong        = "A2: brokers that cannot be reached depose each other"
	idleRequest     = "A3: a request to an idle bucket"
	stale           = "R11: read=latest at a deposed leader is older than 3.5 s"
	parkedUnknown   = "A7: a parked call has no known outcome"
	notPlanned      = "A7: SIGTERM, and no hand-over though a standby could lead"
	unanswered      = "A8: a call has no answer"
)
