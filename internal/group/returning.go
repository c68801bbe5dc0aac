package group

import (
	"hash/fnv"
	"strconv"
	"strings"
)

// A returning member is a dynamic member of the classic protocol with an ID from another leader, or
// from before a restart. It may join the first generation of its group here with that ID. Clients
// then keep the state of their last generation, and Connect does not wait for its workers to come
// back. The core knows nothing of earlier members, so it checks only the form of an ID: an earlier
// leadership can have issued it to a client of this name. This proves nothing, like every member
// ID: a client with the API key may join anyway.
//
// 	heartbeat, sync  REBALANCE_IN_PROGRESS  join with that ID
// 	join             member with that ID, in the first generation
// 	commit           ILLEGAL_GENERATION     until it has joined with the new generation
//
// A member that returns later gets UNKNOWN_MEMBER_ID, because others own its partitions and may
// have committed in them. With its old ID it would consider them its own until its next request,
// and some clients then commit them again in the new generation. The same applies to a group whose
// offsets were changed by others in the meantime.

const (
	// returnWithin is the time after its start in which a coordinator accepts IDs of earlier ones.
	returnWithin = 300e9
	// begunMax bounds the groups in Core.begun. Above it no ID of an earlier coordinator is
	// accepted.
	begunMax = 4096
)

// memberSerial is the end of a member ID: the epoch in which it was issued, and its number in that
// epoch.
type memberSerial struct {
	epoch  uint32
	number uint64
}

// id is a member ID for a client ID or instance.
func (n memberSerial) id(base string) string {
	return base + "-" + strconv.FormatUint(uint64(n.epoch), 16) + "-" + strconv.FormatUint(n.number, 16)
}

// parseMemberID parses the member ID of a client; ok is false if the form is wrong.
func parseMemberID(base, id string) (n memberSerial, ok bool) {
	tail, ok := strings.CutPrefix(id, base+"-")
	epoch, number, intersect := strings.Cut(tail, "-")
	e, errEpoch := strconv.ParseUint(epoch, 16, 32)
	k, errNumber := strconv.ParseUint(number, 16, 64)
	n = memberSerial{uint32(e), k}
	return n, ok && intersect && errEpoch == nil && errNumber == nil && k > 0 && n.id(base) == id
}

// mayReturn reports whether a client that is no member of a group may join with an ID of an earlier
// leadership.
func (c *Core) mayReturn(now int64, group, client, id string) bool {
	if now-c.cfg.Began >= returnWithin || len(c.begun) >= begunMax || c.begun[groupHash(group)] {
		return false
	}
	n, ok := parseMemberID(client, id)
	return ok && n.epoch < c.cfg.Epoch
}

// begin records that a group has had members here, or that others have changed its offsets.
func (c *Core) begin(group string) {
	if len(c.begun) < begunMax {
		c.begun[groupHash(group)] = true
	}
}

// groupHash is the hash of a group's name. If two groups collide, their members only get new IDs.
func groupHash(group string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(group)) // never fails
	return h.Sum64()
}

// unknown is the code for a caller that is no member: code if it may join with its ID, else
// UnknownMemberID.
func (c *Core) unknown(now int64, r *Caller, code Code) Code {
	if r.Instance == "" && r.Generation >= 0 && c.mayReturn(now, r.Group, r.Client, r.Member) {
		return code
	}
	return UnknownMemberID
}

// joinReturned adds a member with an ID of an earlier leadership.
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
