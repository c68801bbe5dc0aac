package group

import "slices"

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
