package group

import (
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
)

// validate finds the member that sent a request.
func (c *Core) validate(r *Caller) (*group, *member, Code) {
	if r.Group == "" {
		return nil, nil, InvalidGroupID
	}
	g := c.groups[r.Group]
	if g == nil {
		return nil, nil, UnknownMemberID
	}
	m, code := g.find(r.Member, r.Instance)
	switch {
	case code != OK:
	case g.state == Empty:
		code = UnknownMemberID
	case r.Generation != g.generation:
		code = IllegalGeneration
	}
	return g, m, code
}

// Heartbeat extends a member's session, and reports whether a rebalance is in progress.
func (c *Core) Heartbeat(now int64, r *Caller) Code {
	g, m, code := c.validate(r)
	switch code {
	case OK:
	case UnknownMemberID:
		return c.unknown(now, r, RebalanceInProgress)
	default:
		return code
	}
	m.deadline = max(m.deadline, now+m.session)
	if g.state == Preparing {
		return RebalanceInProgress
	}
	return OK
}

// Leave removes members and returns a code for each, in order. An unknown group has no members.
func (c *Core) Leave(now int64, name string, leaving []Leaving, out *Answers) []Code {
	codes := make([]Code, len(leaving))
	g := c.groups[name]
	removed := false
	if g != nil && g.hasConsumers() {
		c.removeConsumers(now, g, leaving, codes)
		return codes
	}
	for i, l := range leaving {
		codes[i] = UnknownMemberID
		if g == nil {
			continue
		}
		if l.Instance == "" && c.forgetPending(g, l.Member) {
			codes[i], removed = OK, true
			continue
		}
		if s := g.instances[l.Instance]; s != nil && l.Instance != "" && l.Member == "" {
			l.Member = s.id // the request of an administrator has no member ID
		}
		m, code := g.find(l.Member, l.Instance)
		if codes[i] = code; code == OK {
			c.drop(g, m, out)
			removed = true
		}
	}
	if removed {
		c.afterRemoval(g, now, out)
		c.settle(g, now)
	}
	return codes
}

// expire removes members whose session is over, and ends phases that have timed out.
func (c *Core) expire(g *group, now int64, out *Answers) {
	if g.consumers != nil {
		c.expireConsumers(g, now)
	}
	removed := false
	for _, p := range slices.Clone(g.pending) {
		if p.deadline <= now {
			removed = c.forgetPending(g, p.id) || removed
		}
	}
	late := g.state == Completing && g.syncBy <= now
	for _, m := range slices.Clone(g.order) {
		if m.canExpire() && m.deadline <= now || late && m.owesSync {
			c.drop(g, m, out)
			removed = true
		}
	}
	if removed {
		c.afterRemoval(g, now, out)
	} else {
		c.tryComplete(g, now, out)
	}
}

// Begin admits a commit of offsets, or returns the code of the refusal. The caller must call End
// with the number of an admitted commit. A caller that is no member (its generation is below 0) may
// commit while the group has no members. The generation of a member of the consumer protocol is its
// epoch.
func (c *Core) Begin(now int64, r *Caller) (uint64, Code) {
	if r.Group == "" {
		return 0, InvalidGroupID
	}
	g := c.groups[r.Group]
	nameless := r.Transactional && r.Generation < 0 && r.Member == "" && r.Instance == ""
	switch {
	case g != nil && g.hasConsumers():
		if code := g.consumers.validate(r); code != OK && !nameless {
			return 0, code
		}
		return c.admit(g)
	case g == nil || len(g.order) == 0:
		if r.Generation >= 0 {
			return 0, c.unknown(now, r, IllegalGeneration)
		}
		return c.Reserve(now, r.Group)
	case nameless:
		if g.closing {
			return 0, CoordinatorLoadInProgress
		}
		return c.admit(g)
	}
	g, m, code := c.validate(r)
	switch {
	case code == UnknownMemberID:
		return 0, c.unknown(now, r, IllegalGeneration)
	case code != OK:
		return 0, code
	case r.Transactional && g.closing:
		return 0, CoordinatorLoadInProgress // RebalanceInProgress would end the producer
	case !r.Transactional && (g.state == Completing || g.closing):
		return 0, RebalanceInProgress
	}
	commit, code := c.admit(g)
	if code == OK {
		m.deadline = max(m.deadline, now+m.session)
	}
	return commit, code
}

// admit numbers a commit, if there is memory for it.
func (c *Core) admit(g *group) (uint64, Code) {
	if !c.take(g, commitCost) {
		return 0, CoordinatorNotAvailable
	}
	g.admitted++
	g.open = append(g.open, g.admitted)
	return g.admitted, OK
}

// Reserve admits a change of the offsets of a group without members. Members that join meanwhile
// wait until it ends. The caller must call End with the returned number.
func (c *Core) Reserve(now int64, name string) (uint64, Code) {
	if g := c.groups[name]; g != nil && (len(g.order) > 0 || g.hasConsumers()) {
		return 0, NonEmptyGroup
	}
	g := c.ensure(name)
	if g == nil {
		return 0, CoordinatorNotAvailable
	}
	c.begin(name) // returning members may know offsets that no longer hold
	commit, code := c.admit(g)
	c.settle(g, now)
	return commit, code
}

// End settles an admitted commit: it is committed, or never will be.
func (c *Core) End(now int64, name string, commit uint64, out *Answers) {
	g := c.groups[name]
	at, begun := 0, false
	if g != nil {
		at, begun = slices.BinarySearch(g.open, commit)
	}
	if !begun {
		panic("group: end of an unknown commit in " + name)
	}
	g.open = slices.Delete(g.open, at, at+1)
	c.take(g, -commitCost)
	c.tryComplete(g, now, out)
	c.settle(g, now)
}

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
	if c.cfg.NoReturns || now-c.cfg.Began >= returnWithin || len(c.begun) >= begunMax || c.begun[groupHash(group)] {
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
	own := *r
	own.Owns = false // it may keep its partitions: no other member had them in between
	return c.add(g, now, r.Member, joining{&own, t}, out)
}
