package group

import "slices"

// Join handles a JoinGroup request. The answer comes in this call or a later one, once.
func (c *Core) Join(now int64, r *JoinRequest, t Ticket, out *Answers) {
	code := c.check(r)
	if g := c.groups[r.Group]; g != nil && g.hasConsumers() && code == OK {
		code = InconsistentGroupProtocol
	}
	if code == OK {
		if r.Member == "" {
			code = c.joinNew(now, r, t, out)
		} else {
			code = c.joinKnown(now, r, t, out)
		}
	}
	if code != OK {
		out.Joins = append(out.Joins, JoinAnswer{Ticket: t, Code: code, Member: r.Member, Generation: -1})
	}
	if g := c.groups[r.Group]; g != nil {
		c.settle(g, now)
	}
}

func (c *Core) check(r *JoinRequest) Code {
	switch {
	case r.Group == "":
		return InvalidGroupID
	case r.SessionTimeout < c.cfg.SessionMin || r.SessionTimeout > c.cfg.SessionMax:
		return InvalidSessionTimeout
	case int64(len(r.Instance)+len(r.Client)+len(r.Host))+protocolBytes(r.Protocols) > c.cfg.MemberBytesMax:
		return GroupMaxSizeReached
	}
	return OK
}

// joinNew handles a request without a member ID. The answer is the returned code, or is sent to out
// or parked if that is OK.
func (c *Core) joinNew(now int64, r *JoinRequest, t Ticket, out *Answers) Code {
	if r.ProtocolType == "" || len(r.Protocols) == 0 {
		return InconsistentGroupProtocol
	}
	g := c.ensure(r.Group)
	if g == nil {
		return GroupMaxSizeReached
	}
	old := g.instances[r.Instance]
	switch {
	case !g.supports(r, old):
		return InconsistentGroupProtocol
	case old != nil:
		return c.replace(g, now, old, joining{r, t}, out)
	case len(g.order)+len(g.pending) >= c.cfg.MembersMax:
		return GroupMaxSizeReached
	}
	base := r.Client
	if r.Instance != "" {
		base = r.Instance
	}
	id := c.newID(base)
	if r.TwoSteps && r.Instance == "" {
		if !c.take(g, pendingCost+int64(len(id))) {
			return GroupMaxSizeReached
		}
		g.pending = append(g.pending, pendingID{id, now + r.SessionTimeout})
		out.Joins = append(out.Joins, JoinAnswer{Ticket: t, Code: MemberIDRequired, Member: id, Generation: -1})
		return OK
	}
	return c.add(g, now, id, joining{r, t}, out)
}

// joining is a JoinGroup request with its ticket.
type joining struct {
	*JoinRequest
	ticket Ticket
}

// joinKnown handles a request with a member ID.
func (c *Core) joinKnown(now int64, r *JoinRequest, t Ticket, out *Answers) Code {
	g := c.groups[r.Group]
	switch {
	case r.Instance == "" && (g == nil || g.members[r.Member] == nil) && c.mayReturn(now, r.Group, r.Client, r.Member):
		return c.joinReturned(now, r, t, out)
	case g == nil:
		return UnknownMemberID
	}
	if g.isPending(r.Member) {
		if !g.supports(r, nil) {
			return InconsistentGroupProtocol
		}
		return c.add(g, now, r.Member, joining{r, t}, out)
	}
	m, code := g.find(r.Member, r.Instance)
	if code != OK {
		return code
	}
	if !g.supports(r, m) {
		return InconsistentGroupProtocol
	}
	same := m.sameProtocols(r.Protocols)
	if g.state == Completing && same || g.state == Stable && same && m.id != g.leader {
		// The answer was lost, or the client asks again: nothing has changed.
		m.deadline = now + m.session
		out.Joins = append(out.Joins, g.answer(m, t))
		return OK
	}
	if !c.take(g, protocolBytes(r.Protocols)-protocolBytes(m.protocols)) {
		return GroupMaxSizeReached
	}
	g.update(m, r)
	g.park(m, t, now, out)
	c.prepare(g, now, out)
	return OK
}

// add creates a member and starts a rebalance.
func (c *Core) add(g *group, now int64, id string, r joining, out *Answers) Code {
	m := &member{id: id, instance: r.Instance, client: r.Client, host: r.Host, fresh: true, absent: true}
	g.update(m, r.JoinRequest)
	if !c.take(g, m.bytes()) {
		return GroupMaxSizeReached
	}
	c.forgetPending(g, id)
	if len(g.order) == 0 {
		g.protocolType = r.ProtocolType
	}
	g.members[id] = m
	if m.instance != "" {
		g.instances[m.instance] = m
	}
	g.order = append(g.order, m)
	g.park(m, r.ticket, now, out)
	if g.state == Preparing && g.notBefore > now {
		g.notBefore = min(now+c.cfg.InitialDelay, g.deadline)
	}
	c.prepare(g, now, out)
	return OK
}

// replace lets a static member's new run replace its last one (KIP-345), which is fenced. A stable
// group keeps its generation and assignment.
func (c *Core) replace(g *group, now int64, m *member, r joining, out *Answers) Code {
	id := c.newID(r.Instance)
	grows := protocolBytes(r.Protocols) - protocolBytes(m.protocols) + int64(len(id)-len(m.id)+len(r.Client)-len(m.client)+len(r.Host)-len(m.host))
	if !c.take(g, grows) {
		return GroupMaxSizeReached
	}
	g.reject(m, FencedInstanceID, out)
	was := m.id
	delete(g.members, was)
	m.id, m.client, m.host = id, r.Client, r.Host
	g.members[id] = m
	led := g.leader == was
	if led {
		g.leader = id
	}
	if len(g.order) == 1 {
		g.protocolType = r.ProtocolType
	}
	g.update(m, r.JoinRequest)
	// Commits in flight of its last run are not waited for: the log orders the commits of this run
	// after them.
	m.absent = true
	if g.state == Stable && g.vote() == g.protocol {
		m.deadline = now + m.session
		m.arrive()
		a := g.answer(m, r.ticket)
		switch {
		case led && r.CanSkip:
			a.SkipAssignment = true
		case led: // if it sees another leader, it makes no assignment
			a.Leader, a.Members = was, nil
		}
		out.Joins = append(out.Joins, a)
		return OK
	}
	g.park(m, r.ticket, now, out)
	c.prepare(g, now, out)
	return OK
}

// update stores the request's data. The caller has accounted for its memory.
func (g *group) update(m *member, r *JoinRequest) {
	m.protocols = cloneProtocols(r.Protocols)
	m.session, m.rebalance, m.owns = r.SessionTimeout, r.RebalanceTimeout, r.Owns
	if m.rebalance <= 0 {
		m.rebalance = r.SessionTimeout
	}
}

// park lets a member wait for the next generation. An earlier parked request is rejected, because
// its client no longer waits for it.
func (g *group) park(m *member, t Ticket, now int64, out *Answers) {
	g.reject(m, RebalanceInProgress, out)
	m.join, m.deadline = t, now+freshWait
}

// reject answers a member's parked requests with a code.
func (g *group) reject(m *member, code Code, out *Answers) {
	if m.join != 0 {
		id := m.id
		if code == UnknownMemberID {
			id = ""
		}
		out.Joins = append(out.Joins, JoinAnswer{Ticket: m.join, Code: code, Member: id, Generation: -1})
		m.join = 0
	}
	if m.sync != 0 {
		out.Syncs = append(out.Syncs, SyncAnswer{Ticket: m.sync, Code: code})
		m.sync = 0
	}
}

// answer is the answer for a member of the current generation.
func (g *group) answer(m *member, t Ticket) JoinAnswer {
	a := JoinAnswer{
		Ticket: t, Member: m.id, Generation: g.generation, ProtocolType: g.protocolType, Protocol: g.protocol, Leader: g.leader,
	}
	if m.id == g.leader {
		a.Members = make([]Joined, 0, len(g.order))
		for _, o := range g.order {
			a.Members = append(a.Members, Joined{Member: o.id, Instance: o.instance, Metadata: o.metadata(g.protocol)})
		}
	}
	return a
}

func (g *group) isPending(id string) bool {
	return slices.ContainsFunc(g.pending, func(p pendingID) bool { return p.id == id })
}

// forgetPending removes a member ID that was issued and not used, and reports whether there was
// one.
func (c *Core) forgetPending(g *group, id string) bool {
	for i := range g.pending {
		if g.pending[i].id == id {
			g.pending = append(g.pending[:i], g.pending[i+1:]...)
			c.take(g, -pendingCost-int64(len(id)))
			return true
		}
	}
	return false
}

// find looks up a member by ID, and by instance if there is one.
func (g *group) find(id, instance string) (*member, Code) {
	if instance != "" {
		s := g.instances[instance]
		if s == nil {
			return nil, UnknownMemberID
		}
		if s.id != id {
			return nil, FencedInstanceID
		}
		return s, OK
	}
	if m := g.members[id]; m != nil {
		return m, OK
	}
	return nil, UnknownMemberID
}
