package group

import "slices"

// consumers are the members of a group of the consumer protocol (KIP-848): the coordinator says who works on what, and
// members follow at their own pace. A partition is given to its new member only once its old one has let go of it, and what
// that one has committed until then is settled.
type consumers struct {
	members   map[string]*consumer
	instances map[string]*consumer
	order     []*consumer             // by when they came
	known     outlook                 // what the targets were made from
	assignor  string                  // that made them
	owners    map[Partition]*consumer // what was given to whom, and is not back yet
	freed     map[Partition]uint64    // what is back, and the last commit that was admitted by then
	before    uint64                  // the last commit that was admitted before there were members
}

func newConsumers() *consumers {
	return &consumers{
		members: map[string]*consumer{}, instances: map[string]*consumer{}, owners: map[Partition]*consumer{},
		freed: map[Partition]uint64{},
	}
}

// away is the epoch of a static member that has left for a while.
const away = -2

type consumer struct {
	id, instance, rack, client, host string
	wishes                           wishes
	subscribed                       []string // names of topics that there are, of its names and by its pattern, sorted

	epoch    int32               // the group's epoch that it has come to
	previous int32               // the one before
	target   partitions          // what it shall have in the end
	assigned partitions          // what it was told that it has
	revoking partitions          // what it was told to let go of, and has not
	since    map[Partition]int32 // the epoch in which it was given each of both
	waits    bool                // some of its target is not free yet

	rebalance int64
	deadline  int64 // of the session
	revokeBy  int64 // when it must have let go
	load      int   // while targets are made
}

func (m *consumer) bytes() int64 {
	n := memberCost + int64(len(m.id)+len(m.instance)+len(m.rack)+len(m.client)+len(m.host))
	return n + m.wishes.bytes()
}

// wished is the assignor that most members wish for; of equals that of the oldest member.
func (cs *consumers) wished() string {
	votes, best := map[string]int{}, ""
	for _, m := range cs.order {
		if m.wishes.assignor != "" {
			votes[m.wishes.assignor]++
		}
	}
	for _, m := range cs.order {
		if votes[m.wishes.assignor] > votes[best] {
			best = m.wishes.assignor
		}
	}
	if best == "" {
		return Assignors()[0]
	}
	return best
}

// add makes a member known.
func (cs *consumers) add(m *consumer) {
	cs.members[m.id] = m
	if m.instance != "" {
		cs.instances[m.instance] = m
	}
	cs.order = append(cs.order, m)
}

// remove forgets a member; what it had is free once the commits up to the last one are settled.
func (cs *consumers) remove(m *consumer, last uint64) {
	cs.free(m, m.assigned, last)
	cs.free(m, m.revoking, last)
	delete(cs.members, m.id)
	if cs.instances[m.instance] == m {
		delete(cs.instances, m.instance)
	}
	cs.order = slices.DeleteFunc(cs.order, func(o *consumer) bool { return o == m })
}

func (cs *consumers) free(m *consumer, list partitions, last uint64) {
	for _, p := range list {
		if cs.owners[p] != m {
			panic("groups: a partition is let go of by who does not have it")
		}
		delete(cs.owners, p)
		delete(m.since, p)
		cs.freed[p] = last
	}
}

// reconcile takes a member as far towards its target as it can go now. owned is what the member says that it has, nil if it
// does not say.
func (g *group) reconcile(now int64, m *consumer, owned *partitions) {
	cs := g.consumers
	if len(m.revoking) > 0 {
		if owned == nil || !owned.apart(m.revoking) {
			return
		}
		cs.free(m, m.revoking, g.admitted)
		m.revoking = nil
	} else if m.epoch == g.generation && !m.waits {
		return
	}
	over := m.assigned.without(m.target)
	m.assigned = m.assigned.both(m.target)
	switch {
	case len(over) == 0:
	case owned != nil && owned.apart(over): // it never heard that it had them
		cs.free(m, over, g.admitted)
	default:
		m.revoking, m.revokeBy = over, now+m.rebalance
		return
	}
	missing := m.target.without(m.assigned)
	given := missing.filter(func(p Partition) bool { return cs.owners[p] == nil && g.settled(max(cs.before, cs.freed[p])) })
	for _, p := range given {
		cs.owners[p], m.since[p] = m, g.generation
		delete(cs.freed, p)
	}
	m.assigned, m.waits = m.assigned.with(given), len(given) < len(missing)
	if m.epoch != g.generation {
		m.previous, m.epoch = m.epoch, g.generation
	}
}

// settled says whether the commits up to one are.
func (g *group) settled(last uint64) bool { return len(g.open) == 0 || g.open[0] > last }

// state is the group's: whether all members have come to their targets.
func (g *group) consumersState() State {
	for _, m := range g.consumers.order {
		if m.epoch != g.generation && m.epoch != away || m.waits || len(m.revoking) > 0 {
			return Reconciling
		}
	}
	if len(g.consumers.order) == 0 {
		return Empty
	}
	return Stable
}

// consumerType is what groups of consumers call themselves.
const consumerType = "consumer"

func (g *group) hasConsumers() bool { return g.consumers != nil && len(g.consumers.order) > 0 }

// validate says whether a commit is from a member that knows how far it has come. One that has come further while its commit was
// on its way may commit what was its own all the time (KIP-1251).
func (cs *consumers) validate(r *Caller) Code {
	m := cs.members[r.Member]
	switch {
	case m == nil || r.Generation < 0:
		return UnknownMemberID
	case r.Generation == m.epoch:
		return OK
	case r.Generation == 0 || r.Generation > m.epoch || len(r.Commits) == 0:
		return StaleMemberEpoch
	}
	for _, p := range r.Commits {
		if since, ok := m.since[p]; !ok || since > r.Generation {
			return StaleMemberEpoch
		}
	}
	return OK
}

// view describes the members.
func (cs *consumers) view() *ConsumersView {
	v := &ConsumersView{Assignor: cs.assignor, Names: map[[16]byte]string{}}
	for name, info := range cs.known.topics { //tidy:unordered into another map
		v.Names[info.ID] = name
	}
	for _, m := range cs.order {
		v.Members = append(v.Members, ConsumerView{
			Member: m.id, Instance: m.instance, Rack: m.rack, Client: m.client, Host: m.host, Epoch: m.epoch,
			Names: m.wishes.names, Pattern: m.wishes.pattern, Assigned: m.assigned, Target: m.target,
		})
	}
	return v
}
