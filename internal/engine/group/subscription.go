package group

import (
	"maps"
	"regexp"
	"regexp/syntax"
	"slices"
)

// subscription is a member's subscription in the consumer protocol.
type subscription struct {
	names    []string
	pattern  string
	regexp   *regexp.Regexp // compiled pattern, nil if that is ""
	steps    int64          // size of the compiled pattern
	assignor string
}

// Memory estimates, rounded up.
const (
	nameCost = 64
	stepCost = 64
	// partitionCost is the cost of a partition in targets, assignments and owners.
	partitionCost = 256
)

func (w *subscription) bytes() int64 {
	n := int64(len(w.assignor)+len(w.pattern)) + w.steps*stepCost
	for _, name := range w.names {
		n += nameCost + int64(len(name))
	}
	return n
}

// updated returns the subscription after a request, of at most limit bytes.
func (w subscription) updated(r *HeartbeatRequest, limit int64) (subscription, Code) {
	if r.Names != nil {
		w.names = slices.Clone(r.Names)
	}
	if r.Assignor != "" {
		w.assignor = r.Assignor
	}
	if r.Pattern == nil || *r.Pattern == w.pattern {
		return w, w.within(limit)
	}
	w.pattern, w.regexp, w.steps = *r.Pattern, nil, int64(len(*r.Pattern))
	if code := w.within(limit); code != OK || w.pattern == "" { // parsing takes as much memory
		return w, code
	}
	tree, err := syntax.Parse(w.pattern, syntax.Perl)
	if err != nil {
		return w, InvalidRegularExpression
	}
	w.steps = steps(tree, limit)
	if code := w.within(limit); code != OK {
		return w, code
	}
	if w.regexp, err = regexp.Compile("^(?:" + tree.String() + ")$"); err != nil {
		return w, InvalidRegularExpression
	}
	return w, OK
}

func (w *subscription) within(limit int64) Code {
	if w.bytes() > limit {
		return GroupMaxSizeReached
	}
	return OK
}

// steps is the size of a compiled pattern, with repetitions written out, capped at about limit.
func steps(tree *syntax.Regexp, limit int64) int64 {
	n := 1 + int64(len(tree.Rune))
	for _, sub := range tree.Sub {
		n = min(limit, n+steps(sub, limit))
	}
	if tree.Op == syntax.OpRepeat {
		n = min(limit, n*int64(1+max(tree.Min, tree.Max)))
	}
	return n
}

// knownTopics is the existing topics that the members of a group subscribe to.
type knownTopics struct {
	topics     map[string]TopicInfo
	subscribed [][]string // by member, sorted
	watched    []string   // names in subscriptions and topics that match a pattern, sorted
	patterns   bool       // a member has a pattern
	all        []string   // all topics, if patterns is set
	bytes      int64
}

// resolveTopics resolves the subscriptions of members.
func resolveTopics(members []*consumer, t Topics) knownTopics {
	o := knownTopics{topics: map[string]TopicInfo{}}
	watched := map[string]bool{}
	for _, m := range members {
		names := slices.Clone(m.subscription.names)
		if m.subscription.regexp != nil {
			if !o.patterns {
				o.patterns, o.all = true, t.Names()
			}
			names = append(names, matching(m.subscription.regexp, o.all)...)
		}
		slices.Sort(names)
		names = slices.Compact(names)
		for _, name := range names {
			watched[name] = true
			if _, ok := o.topics[name]; ok {
				continue
			}
			if info, ok := t.Topic(name); ok {
				o.topics[name] = info
				o.bytes += int64(info.Partitions) * partitionCost
			}
		}
		names = slices.DeleteFunc(names, func(name string) bool { _, ok := o.topics[name]; return !ok })
		o.subscribed = append(o.subscribed, names)
		o.bytes += int64(len(names)) * nameCost
	}
	o.watched = slices.Sorted(maps.Keys(watched))
	o.bytes += int64(len(o.watched)+len(o.all)) * nameCost
	return o
}

func matching(pattern *regexp.Regexp, names []string) []string {
	var match []string
	for _, name := range names {
		if pattern.MatchString(name) {
			match = append(match, name)
		}
	}
	return match
}

// unchanged reports whether the topics are unchanged.
func (o *knownTopics) unchanged(t Topics) bool {
	for _, name := range o.watched {
		info, ok := t.Topic(name)
		if was, had := o.topics[name]; ok != had || info != was {
			return false
		}
	}
	return !o.patterns || slices.Equal(o.all, t.Names())
}

// names lists the topics with subscribers.
func (o *knownTopics) names() []string { return slices.Sorted(maps.Keys(o.topics)) }

// consumers are the members of a group of the consumer protocol (KIP-848). The coordinator assigns
// partitions, and members reach their assignment at their own pace. A partition passes to its new
// member only after its old one has revoked it and all commits that the old one sent until then are
// settled.
type consumers struct {
	members   map[string]*consumer
	instances map[string]*consumer
	order     []*consumer             // by time of joining
	known     knownTopics             // topics from which the targets were computed
	assignor  string                  // assignor of the current targets
	owners    map[Partition]*consumer // partitions assigned and not yet freed
	freed     map[Partition]uint64    // free partitions, with the last commit admitted before
	before    uint64                  // the last commit admitted before the first member joined
}

func newConsumers() *consumers {
	return &consumers{
		members: map[string]*consumer{}, instances: map[string]*consumer{}, owners: map[Partition]*consumer{},
		freed: map[Partition]uint64{},
	}
}

// away is the epoch of a static member that left temporarily.
const away = -2

type consumer struct {
	id, instance, rack, client, host string
	subscription                     subscription
	subscribed                       []string // existing topics of its names and pattern, sorted

	epoch    int32               // group epoch that it has reached
	previous int32               // the one before
	target   partitions          // final assignment
	assigned partitions          // assignment sent to it
	revoking partitions          // partitions it must revoke and has not yet
	since    map[Partition]int32 // epoch in which it got each assigned or revoking partition
	waits    bool                // part of its target is not free yet

	rebalance int64
	deadline  int64 // end of the session
	revokeBy  int64 // deadline for revoking
	load      int   // used by assign
}

func (m *consumer) bytes() int64 {
	n := memberCost + int64(len(m.id)+len(m.instance)+len(m.rack)+len(m.client)+len(m.host))
	return n + m.subscription.bytes()
}

// preferredAssignor is the assignor that most members prefer. In a tie the oldest member decides.
func (cs *consumers) preferredAssignor() string {
	votes, best := map[string]int{}, ""
	for _, m := range cs.order {
		if m.subscription.assignor != "" {
			votes[m.subscription.assignor]++
		}
	}
	for _, m := range cs.order {
		if votes[m.subscription.assignor] > votes[best] {
			best = m.subscription.assignor
		}
	}
	if best == "" {
		return Assignors()[0]
	}
	return best
}

// add registers a member.
func (cs *consumers) add(m *consumer) {
	cs.members[m.id] = m
	if m.instance != "" {
		cs.instances[m.instance] = m
	}
	cs.order = append(cs.order, m)
}

// remove removes a member. Its partitions are free once the commits up to last are settled.
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
			panic("group: a partition is freed by a member that does not own it")
		}
		delete(cs.owners, p)
		delete(m.since, p)
		cs.freed[p] = last
	}
}

// reconcile moves a member as close to its target as is possible now. owned is the member's own
// list of partitions, nil if the request has none.
func (g *group) reconcile(now int64, m *consumer, owned *partitions) {
	cs := g.consumers
	if len(m.revoking) > 0 {
		if owned == nil || !owned.disjoint(m.revoking) {
			return
		}
		cs.free(m, m.revoking, g.admitted)
		m.revoking = nil
	} else if m.epoch == g.generation && !m.waits {
		return
	}
	surplus := m.assigned.without(m.target)
	m.assigned = m.assigned.intersect(m.target)
	switch {
	case len(surplus) == 0:
	case owned != nil && owned.disjoint(surplus): // the answer that assigned them was lost
		cs.free(m, surplus, g.admitted)
	default:
		m.revoking, m.revokeBy = surplus, now+m.rebalance
		return
	}
	missing := m.target.without(m.assigned)
	given := missing.filter(func(p Partition) bool { return cs.owners[p] == nil && g.settled(max(cs.before, cs.freed[p])) })
	for _, p := range given {
		cs.owners[p], m.since[p] = m, g.generation
		delete(cs.freed, p)
	}
	m.assigned, m.waits = m.assigned.union(given), len(given) < len(missing)
	if m.epoch != g.generation {
		m.previous, m.epoch = m.epoch, g.generation
	}
}

// settled reports whether the commits up to last are settled.
func (g *group) settled(last uint64) bool { return len(g.open) == 0 || g.open[0] > last }

// consumersState is Stable once all members have reached their targets.
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

// consumerType is the protocol type of groups of the consumer protocol.
const consumerType = "consumer"

func (g *group) hasConsumers() bool { return g.consumers != nil && len(g.consumers.order) > 0 }

// validate checks the member epoch of a commit. A member may have moved to a newer epoch while the
// commit was in flight. The commit is then valid if the member owned all its partitions throughout
// (KIP-1251).
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
			Names: m.subscription.names, Pattern: m.subscription.pattern, Assigned: m.assigned, Target: m.target,
		})
	}
	return v
}
