package group

import (
	"maps"
	"slices"
)

// TopicInfo is what the coordinator must know of a topic to share it out.
type TopicInfo struct {
	ID         [16]byte
	Partitions int32
}

// Topics tells what topics there are. What it says must not change within a call.
type Topics interface {
	// Topic finds a topic by its name.
	Topic(name string) (TopicInfo, bool)
	// Names lists all topics.
	Names() []string
}

// The epochs that ask for something.
const (
	JoinEpoch        = 0  // to become a member
	LeaveEpoch       = -1 // to leave
	LeaveStaticEpoch = away
)

// HeartbeatRequest is a heartbeat of the consumer protocol (KIP-848): it makes members, tells of them what has changed, and
// fetches what they are to work on. Times are in nanoseconds. The core copies what it keeps.
type HeartbeatRequest struct {
	Group, Member, Instance, Rack string
	Client, Host                  string // what the client calls itself, and where it connects from
	Epoch                         int32
	RebalanceTimeout              int64        // 0: as before
	Names                         []string     // of topics; nil: as before
	Pattern                       *string      // of topics besides, in the syntax of RE2; nil: as before, "": none
	Assignor                      string       // "": as before
	Owned                         *[]Partition // what the member has; nil: as before
}

// HeartbeatAnswer answers a HeartbeatRequest. Its slices are read-only.
type HeartbeatAnswer struct {
	Code     Code
	Member   string
	Epoch    int32
	Assigned *[]Partition // what the member is to have, and no more; nil: as before
}

// HeartbeatConsumer handles a heartbeat of the consumer protocol.
func (c *Core) HeartbeatConsumer(now int64, r *HeartbeatRequest) HeartbeatAnswer {
	a := HeartbeatAnswer{Member: r.Member, Epoch: r.Epoch}
	if a.Code = r.check(); a.Code != OK {
		return a
	}
	g := c.groups[r.Group]
	switch {
	case g != nil && (len(g.order) > 0 || len(g.pending) > 0):
		a.Code = GroupIDNotFound // it is one of the classic protocol
	case r.Epoch == JoinEpoch:
		c.joinConsumer(now, r, &a)
	case g == nil || g.consumers == nil: // it is not known since this coordinator began; members come back to that
		a.Code = UnknownMemberID
	case r.Epoch < 0:
		a.Code = c.leaveConsumer(now, g, r)
	default:
		c.beatConsumer(now, g, r, &a)
	}
	if g := c.groups[r.Group]; g != nil {
		c.settle(g, now)
	}
	return a
}

// check is for what can be told without looking at the group.
func (r *HeartbeatRequest) check() Code {
	joins := r.Epoch == JoinEpoch
	switch {
	case r.Epoch < LeaveStaticEpoch || r.Epoch == LeaveStaticEpoch && r.Instance == "":
		return InvalidRequest
	case r.Member == "" && !joins:
		return InvalidRequest
	case joins && (r.Owned == nil || len(*r.Owned) > 0 || r.RebalanceTimeout <= 0 || r.Names == nil && (r.Pattern == nil || *r.Pattern == "")):
		return InvalidRequest
	case r.Assignor != "" && !slices.Contains(Assignors(), r.Assignor):
		return UnsupportedAssignor
	}
	return OK
}

// joinConsumer makes a member, in the place of one that it was before.
func (c *Core) joinConsumer(now int64, r *HeartbeatRequest, a *HeartbeatAnswer) {
	g := c.ensure(r.Group)
	if g == nil {
		a.Code = GroupMaxSizeReached
		return
	}
	if g.consumers == nil {
		g.consumers = newConsumers()
	}
	cs := g.consumers
	if len(cs.order) == 0 {
		c.begin(r.Group)
		cs.before, g.generation = g.admitted, max(g.generation, c.floor)
	}
	old := cs.members[r.Member]
	if r.Instance != "" {
		static := cs.instances[r.Instance]
		if static != nil && static.id != r.Member && static.epoch != away {
			a.Code = UnreleasedInstanceID
			return
		}
		if static != nil {
			if old != nil && old != static { // it was another one until now
				c.dropConsumer(g, old)
			}
			old = static
		}
	}
	if old == nil && len(cs.order) >= c.cfg.MembersMax {
		a.Code = GroupMaxSizeReached
		return
	}
	m := &consumer{
		id: r.Member, instance: r.Instance, rack: r.Rack, client: r.Client, host: r.Host,
		rebalance: r.RebalanceTimeout, since: map[Partition]int32{},
	}
	if m.wishes, a.Code = m.wishes.told(r, c.cfg.MemberBytesMax); a.Code != OK {
		return
	}
	if m.id == "" {
		base := r.Client
		if r.Instance != "" {
			base = r.Instance
		}
		m.id = c.newID(base)
	}
	size := m.bytes()
	if size > c.cfg.MemberBytesMax {
		a.Code = GroupMaxSizeReached
		return
	}
	if old != nil {
		size -= old.bytes()
	}
	if !c.take(g, size) {
		a.Code = GroupMaxSizeReached
		return
	}
	if old != nil {
		m.target = old.target // it gets what it had, if that is still its own to have
		cs.remove(old, g.admitted)
	}
	cs.add(m)
	c.retarget(g, true)
	m.deadline = now + c.cfg.Session
	owned := partitions{}
	g.reconcile(now, m, &owned)
	assigned := []Partition(m.assigned)
	a.Member, a.Epoch, a.Assigned = m.id, m.epoch, &assigned
}

// leaveConsumer removes a member, or keeps the place of a static one until its session is over.
func (c *Core) leaveConsumer(now int64, g *group, r *HeartbeatRequest) Code {
	m, code := g.consumers.find(r)
	switch {
	case code != OK:
		return code
	case r.Epoch == LeaveStaticEpoch:
		m.epoch, m.deadline = away, now+c.cfg.Session
		return OK
	}
	c.dropConsumer(g, m)
	c.retarget(g, true)
	return OK
}

// find finds the member that a request is from.
func (cs *consumers) find(r *HeartbeatRequest) (*consumer, Code) {
	if r.Instance != "" {
		s := cs.instances[r.Instance]
		switch {
		case s == nil:
			return nil, UnknownMemberID
		case s.id != r.Member:
			return nil, FencedInstanceID
		}
		return s, OK
	}
	if m := cs.members[r.Member]; m != nil {
		return m, OK
	}
	return nil, UnknownMemberID
}

// beatConsumer is for who is a member.
func (c *Core) beatConsumer(now int64, g *group, r *HeartbeatRequest, a *HeartbeatAnswer) {
	m, code := g.consumers.find(r)
	var owned *partitions
	if r.Owned != nil {
		set := setOf(*r.Owned)
		owned = &set
	}
	if code == OK && r.Epoch != m.epoch && !(r.Epoch == m.previous && owned != nil && len(owned.without(m.assigned)) == 0) {
		code = FencedMemberEpoch // but for one whose last answer was lost
	}
	if code == OK {
		code = c.tell(g, m, r)
	}
	if a.Code = code; code != OK {
		return
	}
	before := m.assigned
	m.deadline = now + c.cfg.Session
	g.reconcile(now, m, owned)
	a.Epoch = m.epoch
	if owned != nil || !slices.Equal(before, m.assigned) {
		assigned := []Partition(m.assigned)
		a.Assigned = &assigned
	}
}

// tell notes what a member says anew about itself, and sees whether the topics have changed.
func (c *Core) tell(g *group, m *consumer, r *HeartbeatRequest) Code {
	w, code := m.wishes.told(r, c.cfg.MemberBytesMax)
	if code != OK {
		return code
	}
	grows := w.bytes() - m.wishes.bytes()
	if m.bytes()+grows > c.cfg.MemberBytesMax || !c.take(g, grows) {
		return GroupMaxSizeReached
	}
	if r.RebalanceTimeout > 0 {
		m.rebalance = r.RebalanceTimeout
	}
	changed := w.assignor != m.wishes.assignor || w.pattern != m.wishes.pattern || !slices.Equal(w.names, m.wishes.names)
	m.wishes = w
	c.retarget(g, changed)
	return OK
}

// retarget makes new targets in a new epoch, if something has changed for sure, or with the topics. Where there is no memory for
// more of these they stay as they were known.
func (c *Core) retarget(g *group, changed bool) {
	cs := g.consumers
	if !changed && cs.known.holds(c.cfg.Topics) {
		return
	}
	now := look(cs.order, c.cfg.Topics)
	if c.take(g, now.bytes-cs.known.bytes) {
		cs.known = now
		for i, m := range cs.order {
			m.subscribed = now.subscribed[i]
		}
	} else if !changed {
		return
	}
	g.generation = nextGeneration(g.generation)
	cs.assignor = cs.wished()
	cs.assign(cs.assignor)
	// What nobody is subscribed to any more is not given to anybody.
	maps.DeleteFunc(cs.freed, func(_ Partition, last uint64) bool { return g.settled(last) })
}

// dropConsumer removes a member, whose partitions are free then.
func (c *Core) dropConsumer(g *group, m *consumer) {
	g.consumers.remove(m, g.admitted)
	c.take(g, -m.bytes())
}

// removeConsumers removes members by their ids or instances, as an administrator asks.
func (c *Core) removeConsumers(now int64, g *group, leaving []Leaving, codes []Code) {
	cs, removed := g.consumers, false
	for i, l := range leaving {
		if s := cs.instances[l.Instance]; s != nil && l.Member == "" {
			l.Member = s.id
		}
		m, code := cs.find(&HeartbeatRequest{Member: l.Member, Instance: l.Instance})
		if codes[i] = code; code == OK {
			c.dropConsumer(g, m)
			removed = true
		}
	}
	if removed {
		c.retarget(g, true)
		c.settle(g, now)
	}
}

// CheckReader says whether who asks for offsets is who it says: a member of the consumer protocol names its epoch. Clients of the
// classic protocol may name a generation, and of them nothing is asked.
func (c *Core) CheckReader(r *Caller) Code {
	g := c.groups[r.Group]
	if r.Member == "" || r.Generation < 0 || g == nil || !g.hasConsumers() {
		return OK
	}
	return g.consumers.validate(r)
}

// expireConsumers removes who was silent for too long, or has not let go of what it was told to.
func (c *Core) expireConsumers(g *group, now int64) {
	dropped := false
	for _, m := range slices.Clone(g.consumers.order) {
		if m.deadline <= now || len(m.revoking) > 0 && m.revokeBy <= now {
			c.dropConsumer(g, m)
			dropped = true
		}
	}
	if dropped {
		c.retarget(g, true)
	}
}

// deadline is when the first of them expires.
func (cs *consumers) deadline() int64 {
	first := int64(never)
	for _, m := range cs.order {
		first = min(first, m.deadline)
		if len(m.revoking) > 0 {
			first = min(first, m.revokeBy)
		}
	}
	return first
}
