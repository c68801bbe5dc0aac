package group

import (
	"hash/fnv"
	"strconv"
	"strings"
)

// A dynamic member of the classic protocol that was one when another broker led, or this one before a restart, may join the first
// generation that its group has here with the id that it has. Clients then keep what they hold of their last generation, and
// Connect does not wait for its workers to come back. Nothing of the members of before is known, so the form of an id is all that
// can be looked at: it is one that an earlier leadership can have given to a client of this name. It proves nothing, as no id
// does: a client with the API key may join anyway.
//
//	heartbeat, sync  REBALANCE_IN_PROGRESS  join with that id
//	join             member of that id, in the first generation
//	commit           ILLEGAL_GENERATION     until it has joined; afterwards the generation of before is another one
//
// A member that comes later hears UNKNOWN_MEMBER_ID: others have its partitions, and may have committed in them. With its id it
// would take them for its own until it is told otherwise, and some clients commit them once more then, in the new generation.
// The same holds of a group whose offsets others have changed meanwhile.

const (
	// returnWithin bounds for how long after its begin a coordinator takes ids of earlier ones.
	returnWithin = 300e9
	// begunMax bounds the groups that are known to have begun. Above it no id of an earlier coordinator is taken any more.
	begunMax = 4096
)

// memberNumber is what a member id ends in: the epoch in which it was given, and how many ids were before it.
type memberNumber struct {
	epoch  uint32
	number uint64
}

// id is the member id of a client, or of an instance.
func (n memberNumber) id(base string) string {
	return base + "-" + strconv.FormatUint(uint64(n.epoch), 16) + "-" + strconv.FormatUint(n.number, 16)
}

// numberOf reads the member id of a client; ok is false of a text that is none.
func numberOf(base, id string) (n memberNumber, ok bool) {
	tail, ok := strings.CutPrefix(id, base+"-")
	epoch, number, both := strings.Cut(tail, "-")
	e, errEpoch := strconv.ParseUint(epoch, 16, 32)
	k, errNumber := strconv.ParseUint(number, 16, 64)
	n = memberNumber{uint32(e), k}
	return n, ok && both && errEpoch == nil && errNumber == nil && k > 0 && n.id(base) == id
}

// mayReturn says whether a client that is no member of a group may join with the id of an earlier leadership.
func (c *Core) mayReturn(now int64, group, client, id string) bool {
	if now-c.cfg.Began >= returnWithin || len(c.begun) >= begunMax || c.begun[hashOf(group)] {
		return false
	}
	n, ok := numberOf(client, id)
	return ok && n.epoch < c.cfg.Epoch
}

// begin notes that a group has had members here, or that others have changed its offsets.
func (c *Core) begin(group string) {
	if len(c.begun) < begunMax {
		c.begun[hashOf(group)] = true
	}
}

// hashOf stands for a group's name. Groups of one hash have begun together, which only means that their members get new ids.
func hashOf(group string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(group)) // never fails
	return h.Sum64()
}

// unknown is what a caller hears that is no member: code, if it may join with its id.
func (c *Core) unknown(now int64, r *Caller, code Code) Code {
	if r.Instance == "" && r.Generation >= 0 && c.mayReturn(now, r.Group, r.Client, r.Member) {
		return code
	}
	return UnknownMemberID
}

// joinReturned makes a member of one that comes with the id of an earlier leadership.
func (c *Core) joinReturned(now int64, r *JoinRequest, t Ticket, out *Answers) Code {
	g := c.ensure(r.Group)
	switch {
	case g == nil:
		return GroupMaxSizeReached
	case !g.supports(r, nil):
		return InconsistentGroupProtocol
	case len(g.order)+len(g.pending) >= c.cfg.MembersMax:
		return GroupMaxSizeReached
	}
	return c.add(g, now, r.Member, joining{r, t}, out)
}
