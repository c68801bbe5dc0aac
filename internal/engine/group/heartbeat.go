package group

import (
	"maps"
	"slices"
)

// TopicInfo is a topic as the assignors see it.
type TopicInfo struct {
	ID         [16]byte
	Partitions int32
}

// Topics is the source of existing topics. Its answers must not change within a call.
type Topics interface {
	// Topic finds a topic by its name.
	Topic(name string) (TopicInfo, bool)
	// Names lists all topics.
	Names() []string
}

// Special epochs of a heartbeat.
const (
	JoinEpoch        = 0  // become a member
	LeaveEpoch       = -1 // leave
	LeaveStaticEpoch = away
)

// HeartbeatRequest is a heartbeat of the consumer protocol (KIP-848). It creates members, updates
// their subscriptions and fetches their assignments. Times are in nanoseconds. The core copies all
// data that it keeps.
type HeartbeatRequest struct {
	Group, Member, Instance, Rack string
	Client, Host                  string // client ID and remote host
	Epoch                         int32
	RebalanceTimeout              int64        // 0: unchanged
	Names                         []string     // subscribed topics; nil: unchanged
	Pattern                       *string      // more topics, RE2 syntax; nil: unchanged, "": none
	Assignor                      string       // "": unchanged
	Owned                         *[]Partition // the member's partitions; nil: unchanged
}

// HeartbeatAnswer answers a HeartbeatRequest. Its slices are read-only.
type HeartbeatAnswer struct {
	Code     Code
	Member   string
	Epoch    int32
	Assigned *[]Partition // all partitions of the member; nil: unchanged
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
		a.Code = GroupIDNotFound // a group of the classic protocol
	case r.Epoch == JoinEpoch:
		c.joinConsumer(now, r, &a)
	case g == nil || g.consumers == nil: // not known to this coordinator: members then join again
		a.Code = UnknownMemberID
	case r.Epoch < 0:
		a.Code = c.leaveConsumer(now, g, r)
	default:
		c.heartbeatMember(now, g, r, &a)
	}
	if g := c.groups[r.Group]; g != nil {
		c.settle(g, now)
	}
	return a
}

// check validates a request without its group.
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

// joinConsumer creates a member, or replaces the one with the same ID or instance.
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
			if old != nil && old != static { // the ID had another instance until now
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
	if m.subscription, a.Code = m.subscription.updated(r, c.cfg.MemberBytesMax); a.Code != OK {
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
		m.target = old.target // keeps its old partitions as far as possible
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

// leaveConsumer removes a member. A static member that leaves temporarily keeps its membership
// until its session ends.
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

// find finds the member that sent a request.
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

// heartbeatMember handles the heartbeat of a member.
func (c *Core) heartbeatMember(now int64, g *group, r *HeartbeatRequest, a *HeartbeatAnswer) {
	m, code := g.consumers.find(r)
	var owned *partitions
	if r.Owned != nil {
		set := setOf(*r.Owned)
		owned = &set
	}
	if code == OK && r.Epoch != m.epoch && !(r.Epoch == m.previous && owned != nil && len(owned.without(m.assigned)) == 0) {
		code = FencedMemberEpoch // except a repeat whose last answer was lost
	}
	if code == OK {
		code = c.updateConsumer(g, m, r)
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

// updateConsumer stores the changes of a member's subscription, and recomputes the targets if
// necessary.
func (c *Core) updateConsumer(g *group, m *consumer, r *HeartbeatRequest) Code {
	w, code := m.subscription.updated(r, c.cfg.MemberBytesMax)
	if code != OK {
		return code
	}
	grows := w.bytes() - m.subscription.bytes()
	if m.bytes()+grows > c.cfg.MemberBytesMax || !c.take(g, grows) {
		return GroupMaxSizeReached
	}
	if r.RebalanceTimeout > 0 {
		m.rebalance = r.RebalanceTimeout
	}
	changed := w.assignor != m.subscription.assignor || w.pattern != m.subscription.pattern || !slices.Equal(w.names, m.subscription.names)
	m.subscription = w
	c.retarget(g, changed)
	return OK
}

// retarget computes new targets in a new epoch if changed is set or the topics have changed. If
// there is no memory for more topics, the known ones stay.
func (c *Core) retarget(g *group, changed bool) {
	cs := g.consumers
	if !changed && cs.known.unchanged(c.cfg.Topics) {
		return
	}
	now := resolveTopics(cs.order, c.cfg.Topics)
	if c.take(g, now.bytes-cs.known.bytes) {
		cs.known = now
		for i, m := range cs.order {
			m.subscribed = now.subscribed[i]
		}
	} else if !changed {
		return
	}
	g.generation = nextGeneration(g.generation)
	cs.assignor = cs.preferredAssignor()
	cs.assign(cs.assignor)
	// Partitions without a subscriber are not assigned again.
	maps.DeleteFunc(cs.freed, func(_ Partition, last uint64) bool { return g.settled(last) })
}

// dropConsumer removes a member and frees its partitions.
func (c *Core) dropConsumer(g *group, m *consumer) {
	g.consumers.remove(m, g.admitted)
	c.take(g, -m.bytes())
}

// removeConsumers removes members by ID or instance, for an administrator.
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

// CheckReader checks the member epoch of a request for offsets. Clients of the classic protocol may
// send a generation, which is not checked.
func (c *Core) CheckReader(r *Caller) Code {
	g := c.groups[r.Group]
	if r.Member == "" || r.Generation < 0 || g == nil || !g.hasConsumers() {
		return OK
	}
	return g.consumers.validate(r)
}

// expireConsumers removes members whose session is over or that did not revoke partitions in time.
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

// deadline is the earliest deadline of all members.
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
