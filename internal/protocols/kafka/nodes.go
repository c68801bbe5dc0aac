package kafka

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/sebbroker/seb/internal/engine/base/sorting"
	"github.com/sebbroker/seb/internal/engine/cluster"
	"github.com/sebbroker/seb/internal/engine/log/state"
)

// soleID is the ID of a broker that no other machine reaches.
const soleID = 1

const (
	// A replica is in sync if it lags by less than syncSlots or by less than syncTime.
	syncSlots = 16
	syncTime  = 2 * time.Second
	// standbyAge is the largest age of the state from which a standby serves records.
	standbyAge = 5 * time.Second
	// leaderWait bounds the time that metadata waits for a leader, and leaderPoll is the interval of
	// looking for it.
	leaderWait = 2 * time.Second
	leaderPoll = 20 * time.Millisecond
	// namedTime is how long answers name a broker that is silent. librdkafka waits for a second if the
	// leader of a partition is not among the brokers of the answer that names the next one.
	namedTime = 10 * time.Second
	// standbyWait bounds the time that a standby takes to learn the end of the log.
	standbyWait = time.Second
)

// node is a broker as clients see it.
type node struct {
	id int32
	address
}

// nodes are the brokers that an answer names.
type nodes struct {
	self   int32
	leader *node  // it leads every partition, coordinates all groups and is the controller; nil: unknown
	epoch  int32  // of the leader
	up     []node // by ID; never empty; some may be silent for less than namedTime
	// replicas may lead, the leader first. Those in sync have the newest records; those that are
	// offline are not up.
	replicas, inSync, offline []int32
}

// leaderID is the ID of the leader, or -1.
func (n *nodes) leaderID() int32 {
	if n.leader == nil {
		return -1
	}
	return n.leader.id
}

// named reports whether an answer names a broker with an ID.
func (n *nodes) named(id int32) bool {
	return slices.ContainsFunc(n.up, func(x node) bool { return x.id == id })
}

// members are the registered runs, this one first; nil if clients of this broker cannot use the
// others. Then there is no cluster, this broker is read-only, or it has another root key than they.
func (s *Server) members() []cluster.Member {
	if s.o.Cluster == nil || s.b.ReadOnly() {
		return nil
	}
	all := s.o.Cluster.Members()
	if len(all) == 0 || all[0].HasBeat && all[0].Beat.OtherKey {
		return nil
	}
	return all
}

// nodeID is the ID of this broker.
func (s *Server) nodeID() int32 {
	if s.o.Cluster == nil {
		return soleID
	}
	return cmp.Or(s.o.Cluster.Self().KafkaID, soleID)
}

// standsBy reports whether this broker follows one of its cluster.
func (s *Server) standsBy() bool { return s.o.Cluster != nil && s.b.Follows() && s.members() != nil }

// leading returns the member that leads, or nil. The log of this broker knows best whether it leads
// itself.
func (s *Server) leading(members []cluster.Member) *cluster.Member {
	if s.b.Leads() {
		return &members[0]
	}
	for i := 1; i < len(members); i++ {
		if members[i].Leads {
			return &members[i]
		}
	}
	return nil
}

// awaitLeader waits until this broker leads, or one to which it has a link. Clients ask for metadata
// as soon as the leader has died. The name of that leader, or none, makes some wait for seconds before
// they ask again: franz-go for 5.
func (s *Server) awaitLeader(ctx context.Context) {
	looks := 0
	s.await(ctx, func() bool {
		members := s.members()
		if len(members) < 2 {
			return true
		}
		// The client may know earlier than this broker that the leader has died.
		m := s.leading(members)
		looks++
		return m != nil && m.Linked && (m.Self || looks > 1)
	})
}

// await polls until done returns true, at most LeaderWait.
func (s *Server) await(ctx context.Context, done func() bool) {
	ctx, cancel := context.WithTimeout(ctx, s.o.LeaderWait)
	defer cancel()
	tick := time.NewTicker(leaderPoll)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// nodes returns the brokers of the cluster. A broker that does not lead never names itself as the
// leader, except one that serves its clients alone.
func (c *call) nodes() nodes {
	n := nodes{self: c.nodeID(), epoch: int32(c.b.Epoch())}
	self, members := node{n.self, c.host()}, c.members()
	if len(members) < 2 {
		n.up, n.replicas, n.inSync = []node{self}, []int32{self.id}, []int32{self.id}
		if members == nil || c.b.Leads() {
			n.leader = &self
		}
		return n
	}
	if at, err := splitAddress(members[0].Kafka); err == nil {
		self.address = at // an ID has one address, whichever broker names it
	}
	head := c.leading(members)
	if head != nil && head.HasBeat && head.Beat.Leads {
		n.epoch = max(n.epoch, int32(head.Beat.Epoch))
	}
	for _, up := range []bool{true, false} { // a run that is up replaces earlier ones with its address
		for i := range members {
			m := &members[i]
			if (m == head || m.Self || m.Up) != up {
				continue
			}
			x, ok := self, true
			if !m.Self {
				x, ok = nodeOf(m)
			}
			if ok && m == head {
				n.leader = &x
			}
			if ok && !n.named(x.id) {
				n.add(m, x, head)
			}
		}
	}
	sorting.Sort(n.up, func(a, b node) int { return cmp.Compare(a.id, b.id) })
	slices.Sort(n.replicas)
	if i := slices.Index(n.replicas, n.leaderID()); i > 0 {
		n.replicas = slices.Insert(slices.Delete(n.replicas, i, i+1), 0, n.leader.id)
	}
	slices.Sort(n.inSync)
	slices.Sort(n.offline)
	return n
}

// otherLeader returns the brokers if another one leads, else nil.
func (c *call) otherLeader() *nodes {
	ns := c.nodes()
	if ns.leader == nil || ns.leader.id == ns.self {
		return nil
	}
	return &ns
}

// nextLeader returns the brokers if another one leads, else nil. A broker that does not lead waits until
// it knows which one does.
func (c *call) nextLeader(ctx context.Context) (ns *nodes) {
	c.await(ctx, func() bool {
		ns = c.otherLeader()
		return ns != nil || c.b.Leads() && !c.brokerLeaves() || len(c.members()) < 2
	})
	return ns
}

// nodeOf is a run that clients can reach.
func nodeOf(m *cluster.Member) (node, bool) {
	at, err := splitAddress(m.Kafka)
	return node{m.KafkaID, at}, err == nil && m.KafkaID > 0 && m.Reachable()
}

// add adds a run. The leader is named even if this broker has no link to it.
func (n *nodes) add(m *cluster.Member, x node, head *cluster.Member) {
	leads, up := m == head, m.Self || m.Up
	if !leads && (m.ReadOnly || m.HasBeat && m.Beat.OtherKey) {
		return
	}
	if leads || up || m.HasBeat && m.Silence < namedTime {
		n.up = append(n.up, x)
	}
	switch {
	case !leads && (m.Gone || !m.Stands()):
		return
	case leads || up && inSync(m, head):
		n.inSync = append(n.inSync, x.id)
	case !up:
		n.offline = append(n.offline, x.id)
	}
	n.replicas = append(n.replicas, x.id)
}

// inSync reports whether a run that is up has what the leader has.
func inSync(m, head *cluster.Member) bool {
	if head == nil || !head.HasBeat || !m.HasBeat {
		return true // nothing is known to be missing
	}
	has, wants := m.Beat, head.Beat
	if !has.Loaded {
		return false
	}
	return has.Pos.Epoch == wants.Pos.Epoch && has.Pos.Slot+syncSlots > wants.Pos.Slot || wants.Committed.Sub(has.Committed) < syncTime
}

// ahead is the position that a leader with a link to this broker has told. known is false without
// one.
func (s *Server) ahead() (at state.Position, known bool) {
	members := s.members()
	if len(members) == 0 {
		return at, false
	}
	m := s.leading(members)
	if m == nil || m.Self || !m.Up || !m.HasBeat || !m.Beat.Leads || !m.Beat.Loaded {
		return at, false
	}
	return m.Beat.Pos, true
}

// hasAll reports whether this standby has applied everything that its leader has told.
func (s *Server) hasAll() bool {
	at, known := s.ahead()
	return known && s.b.Applied(at)
}

// current reports whether the state of a standby is at most standbyAge old. If the leader does not
// show it, the store is asked.
func (s *Server) current(ctx context.Context) bool {
	if s.hasAll() {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, standbyWait)
	defer cancel()
	return s.b.FreshWithin(ctx, standbyAge) == nil
}

// catchUp waits until a standby has applied what its leader has told before, at most standbyWait.
func (s *Server) catchUp(ctx context.Context) {
	if at, known := s.ahead(); known {
		ctx, cancel := context.WithTimeout(ctx, standbyWait)
		defer cancel()
		_ = s.b.WaitApplied(ctx, at)
	}
}

// applied is the position of this broker.
func (s *Server) applied() state.Position {
	at, _, _ := s.b.LogPosition()
	return at
}
