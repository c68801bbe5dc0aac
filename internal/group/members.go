package group

import "slices"

// validate finds the member that a request is from.
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

// Heartbeat says that a member lives, and tells it of a rebalance.
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

// Leave removes members, and answers for each in order. A group that is not there has none.
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
			l.Member = s.id // an administrator knows no more
		}
		m, code := g.find(l.Member, l.Instance)
		if codes[i] = code; code == OK {
			c.drop(g, m, out)
			removed = true
		}
	}
	if removed {
		c.shrunk(g, now, out)
		c.settle(g, now)
	}
	return codes
}

// expire removes who has been silent for too long, and ends what has taken too long.
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
		c.shrunk(g, now, out)
	} else {
		c.tryComplete(g, now, out)
	}
}

// Begin admits a commit of offsets, or says why not. One that is admitted must End, by the number that it is given. A caller that
// is no member (its generation is below 0) may commit while the group has no members. The generation of a member of the consumer
// protocol is its epoch.
func (c *Core) Begin(now int64, r *Caller) (uint64, Code) {
	if r.Group == "" {
		return 0, InvalidGroupID
	}
	g := c.groups[r.Group]
	switch {
	case g != nil && g.hasConsumers():
		if code := g.consumers.validate(r); code != OK {
			return 0, code
		}
		return c.admit(g)
	case g == nil || len(g.order) == 0:
		if r.Generation >= 0 {
			return 0, c.unknown(now, r, IllegalGeneration)
		}
		return c.Reserve(now, r.Group)
	}
	g, m, code := c.validate(r)
	switch {
	case code == UnknownMemberID:
		return 0, c.unknown(now, r, IllegalGeneration)
	case code != OK:
		return 0, code
	case g.state == Completing || g.closing:
		return 0, RebalanceInProgress
	}
	commit, code := c.admit(g)
	if code == OK {
		m.deadline = max(m.deadline, now+m.session)
	}
	return commit, code
}

// admit gives a commit its number, if there is room to remember it.
func (c *Core) admit(g *group) (uint64, Code) {
	if !c.take(g, commitCost) {
		return 0, CoordinatorNotAvailable
	}
	g.admitted++
	g.open = append(g.open, g.admitted)
	return g.admitted, OK
}

// Reserve admits a change of the offsets of a group that has no members; members that come while it is under way wait.
// What is admitted must End.
func (c *Core) Reserve(now int64, name string) (uint64, Code) {
	if g := c.groups[name]; g != nil && (len(g.order) > 0 || g.hasConsumers()) {
		return 0, NonEmptyGroup
	}
	g := c.ensure(name)
	if g == nil {
		return 0, CoordinatorNotAvailable
	}
	c.begin(name) // what members of before the restart know of their offsets may not hold any more
	commit, code := c.admit(g)
	c.settle(g, now)
	return commit, code
}

// End says that what was admitted is settled: it is committed, or never will be.
func (c *Core) End(now int64, name string, commit uint64, out *Answers) {
	g := c.groups[name]
	at, begun := 0, false
	if g != nil {
		at, begun = slices.BinarySearch(g.open, commit)
	}
	if !begun {
		panic("groups: the end of a commit that was not begun, in " + name)
	}
	g.open = slices.Delete(g.open, at, at+1)
	c.take(g, -commitCost)
	c.tryComplete(g, now, out)
	c.settle(g, now)
}
