package group

import (
	"bytes"
	"math"
	"slices"
)

// prepare starts a rebalance, or continues the current one.
func (c *Core) prepare(g *group, now int64, out *Answers) {
	if g.state == Completing {
		for _, m := range g.order {
			if m.sync != 0 {
				out.Syncs = append(out.Syncs, SyncAnswer{Ticket: m.sync, Code: RebalanceInProgress})
				m.sync, m.deadline = 0, now+m.session
			}
		}
	}
	if g.state != Preparing {
		g.deadline, g.notBefore, g.closing = now+g.rebalanceTimeout(), now, false
		g.first = g.state == Empty
		if g.state == Empty {
			g.notBefore = min(now+c.cfg.InitialDelay, g.deadline)
		}
		g.state = Preparing
	}
	c.tryComplete(g, now, out)
}

// tryComplete ends a rebalance if it waits for no member. It waits for the commits that the
// generation has admitted, because none of them may be stored after a commit of the next
// generation.
func (c *Core) tryComplete(g *group, now int64, out *Answers) {
	if g.state != Preparing {
		return
	}
	g.closing = now >= g.deadline || now >= g.notBefore && g.allJoined()
	if g.closing && len(g.open) == 0 {
		c.complete(g, now, out)
	}
}

// complete ends a rebalance. It removes members that have not joined, except static ones, whose
// session decides.
func (c *Core) complete(g *group, now int64, out *Answers) {
	joined := 0
	for _, m := range slices.Clone(g.order) {
		switch {
		case m.join != 0:
			joined++
		case m.instance == "":
			c.drop(g, m, out)
		default:
			m.absent = true
		}
	}
	switch {
	case len(g.order) == 0:
		g.state, g.leader, g.protocol = Empty, "", ""
		return
	case joined == 0: // only absent static members; a generation needs a leader
		g.deadline, g.closing = now+max(1, g.rebalanceTimeout()), false
		return
	}
	if m := g.members[g.leader]; m == nil || m.join == 0 {
		g.leader = g.order[slices.IndexFunc(g.order, func(m *member) bool { return m.join != 0 })].id
	}
	c.begin(g.name)
	g.generation = c.nextClassic(g.generation)
	g.protocol = g.vote()
	g.state, g.closing, g.syncBy = Completing, false, now+g.rebalanceTimeout()
	for _, m := range g.order {
		c.take(g, -int64(len(m.assignment)))
		m.assignment, m.owesSync = nil, m.join != 0
		if m.join != 0 {
			out.Joins = append(out.Joins, g.answer(m, m.join))
			m.arrive()
			m.join, m.fresh, m.deadline = 0, false, now+m.session
		}
	}
}

// arrive notes that a member is in the present generation. One that was not in the last one cannot know what others
// have read and committed since it had the partitions that it names. Its SyncGroup is refused, once for each
// JoinGroup, so that it gives them up and joins without them. Clients should have done so before they join; franz-go
// 1.22 keeps them over an UNKNOWN_MEMBER_ID, and static members may miss a generation without a word.
func (m *member) arrive() {
	m.refuse, m.absent = m.absent && m.owns, false
}

// nextClassic is the next generation of the classic protocol. It carries the epoch in its high
// bits, so that no member returning from another leadership has the same generation. It wraps after
// 16,383 rebalances in an epoch.
func (c *Core) nextClassic(generation int32) int32 {
	first := c.cfg.firstGeneration()
	if int64(generation)+1 >= int64(first)+1<<generationBits {
		c.floor = max(c.floor, generation) // so that the epochs of consumer groups still grow
		return first + 1
	}
	return generation + 1
}

// nextGeneration is above 0.
func nextGeneration(generation int32) int32 {
	if generation == math.MaxInt32 {
		return 1
	}
	return generation + 1
}

// drop removes a member and answers its parked requests.
func (c *Core) drop(g *group, m *member, out *Answers) {
	g.reject(m, UnknownMemberID, out)
	c.begin(g.name)
	c.take(g, -m.bytes())
	delete(g.members, m.id)
	if m.instance != "" {
		delete(g.instances, m.instance)
	}
	g.order = slices.DeleteFunc(g.order, func(o *member) bool { return o == m })
}

// afterRemoval updates a group after members or pending IDs were removed.
func (c *Core) afterRemoval(g *group, now int64, out *Answers) {
	switch g.state {
	case Stable, Completing:
		c.prepare(g, now, out)
	case Preparing:
		c.tryComplete(g, now, out)
	}
}

// Sync handles a SyncGroup request. The answer comes in this call or a later one, once.
func (c *Core) Sync(now int64, r *SyncRequest, t Ticket, out *Answers) {
	g, m, code := c.validate(&r.Caller)
	if code == UnknownMemberID {
		code = c.unknown(now, &r.Caller, RebalanceInProgress)
	}
	if code == OK && (r.ProtocolType != "" && r.ProtocolType != g.protocolType || r.Protocol != "" && r.Protocol != g.protocol) {
		code = InconsistentGroupProtocol
	}
	if code == OK && g.state == Preparing {
		code = RebalanceInProgress
	}
	if code != OK {
		out.Syncs = append(out.Syncs, SyncAnswer{Ticket: t, Code: code})
		return
	}
	m.deadline = now + m.session
	if m.refuse {
		m.refuse = false
		out.Syncs = append(out.Syncs, SyncAnswer{Ticket: t, Code: IllegalGeneration})
		c.settle(g, now)
		return
	}
	if g.state == Stable {
		out.Syncs = append(out.Syncs, g.assigned(m, t))
		return
	}
	g.reject(m, RebalanceInProgress, out) // its client no longer waits for an earlier one
	m.sync, m.owesSync = t, false
	if m.id == g.leader {
		c.assign(g, now, r.Assignments, out)
	}
	c.settle(g, now)
}

// assign stores the leader's assignment, and the group becomes Stable.
func (c *Core) assign(g *group, now int64, all []Assignment, out *Answers) {
	for i := range all {
		m := g.members[all[i].Member]
		if m == nil {
			continue
		}
		if !c.take(g, int64(len(all[i].Data)-len(m.assignment))) {
			for _, m := range g.order {
				g.reject(m, GroupMaxSizeReached, out)
			}
			c.prepare(g, now, out)
			return
		}
		m.assignment = bytes.Clone(all[i].Data)
	}
	g.state = Stable
	for _, m := range g.order {
		m.owesSync = false
		if m.sync != 0 {
			out.Syncs = append(out.Syncs, g.assigned(m, m.sync))
			m.sync, m.deadline = 0, now+m.session
		}
	}
}

func (g *group) assigned(m *member, t Ticket) SyncAnswer {
	return SyncAnswer{Ticket: t, ProtocolType: g.protocolType, Protocol: g.protocol, Assignment: m.assignment}
}
