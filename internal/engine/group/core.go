package group

import (
	"cmp"
	"container/heap"
	"math"

	"github.com/sebbroker/seb/internal/engine/base/sorting"
)

// Config holds a Core's settings. Times are in nanoseconds.
type Config struct {
	// Epoch is the coordinator's epoch, and Began the time at which it started to lead.
	Epoch uint32
	Began int64
	// NoReturns: members with IDs of earlier leaderships get new ones, and so read the committed offsets again. A
	// member that has missed a generation could have its partitions back, with its old positions, which is too
	// much for a group that writes exactly once. Set it if there are transactions.
	NoReturns bool
	// InitialDelay is the time that an empty group waits for more members after each join.
	InitialDelay int64
	// SessionMin and SessionMax bound the session timeout that members may request.
	SessionMin, SessionMax int64
	// MembersMax bounds the members of a group, including member IDs that are not used yet.
	MembersMax int
	// Session is the session timeout of the consumer protocol.
	Session int64
	// Topics is the source of topics for the consumer protocol.
	Topics Topics
	// BytesMax bounds the memory of all groups, MemberBytesMax the data that one member sends about
	// itself.
	BytesMax, MemberBytesMax int64
}

// Memory estimates in addition to the bytes of strings, rounded up.
const (
	groupCost   = 1 << 10
	memberCost  = 1 << 10
	pendingCost = 256
	commitCost  = 256
	protoCost   = 64
)

const (
	// freshWait bounds how long a new member waits to join, because a client that is gone does not
	// show.
	freshWait = 300e9
	// generationBits are the low bits of a generation; they count the rebalances in an epoch.
	generationBits = 14
	never          = math.MaxInt64
)

// Core is the membership of all groups of one coordinator. It is not safe for concurrent use.
type Core struct {
	cfg    Config
	groups map[string]*group
	queue  queue // by time of their next tick
	bytes  int64
	ids    uint64 // member IDs issued
	floor  int32  // the highest generation of a removed group

	begun map[uint64]bool // hashes of groups that accept no IDs of earlier leaderships
}

// New returns a core without groups.
func New(cfg Config) *Core {
	return &Core{
		cfg: cfg, groups: make(map[string]*group),
		floor: cfg.firstGeneration(), begun: make(map[uint64]bool),
	}
}

// firstGeneration is lower than all generations of the epoch.
func (cfg *Config) firstGeneration() int32 {
	return int32(cfg.Epoch << generationBits & math.MaxInt32)
}

// Bytes is the estimated memory of all groups.
func (c *Core) Bytes() int64 { return c.bytes }

// Next is the time at which Tick must be called; math.MaxInt64 means never. Any other call may
// change it.
func (c *Core) Next() int64 {
	if len(c.queue) == 0 {
		return never
	}
	return c.queue[0].next
}

// Tick applies deadlines: members expire and rebalances end.
func (c *Core) Tick(now int64, out *Answers) {
	for len(c.queue) > 0 && c.queue[0].next <= now {
		g := c.queue[0]
		c.expire(g, now, out)
		c.settle(g, now)
	}
}

// take adds n bytes to a group, or removes them if n is negative. It returns false if the limit is
// reached.
func (c *Core) take(g *group, n int64) bool {
	if n > 0 && n > c.cfg.BytesMax-c.bytes {
		return false
	}
	c.bytes += n
	g.bytes += n
	return true
}

// ensure finds or creates a group; nil if there is no memory for it.
func (c *Core) ensure(name string) *group {
	if g := c.groups[name]; g != nil {
		return g
	}
	g := &group{name: name, generation: c.floor, members: map[string]*member{}, instances: map[string]*member{}, next: never}
	if !c.take(g, groupCost+int64(len(name))) {
		return nil
	}
	c.groups[name] = g
	heap.Push(&c.queue, g)
	return g
}

// settle ends a call on a group. It removes a group that is no longer in use, and schedules the
// next tick of others.
func (c *Core) settle(g *group, now int64) {
	if len(g.order) == 0 && len(g.pending) == 0 && len(g.open) == 0 && !g.hasConsumers() {
		c.floor = max(c.floor, g.generation)
		c.bytes -= g.bytes
		delete(c.groups, g.name)
		heap.Remove(&c.queue, g.index)
		return
	}
	g.next = g.deadlineAfter(now)
	heap.Fix(&c.queue, g.index)
}

// newID returns a new member ID. IDs are never reused.
func (c *Core) newID(base string) string {
	c.ids++
	return memberSerial{c.cfg.Epoch, c.ids}.id(base)
}

// Describe returns the state of a group. If the core does not know the group, ok is false and the
// state Dead.
func (c *Core) Describe(name string) (v View, ok bool) {
	g := c.groups[name]
	if g == nil {
		return View{Name: name, State: Dead}, false
	}
	v = g.view()
	if g.hasConsumers() {
		v.Consumers = g.consumers.view()
	}
	for _, m := range g.order {
		mv := MemberView{Member: m.id, Instance: m.instance, Client: m.client, Host: m.host}
		if g.state == Stable {
			mv.Metadata, mv.Assignment = m.metadata(g.protocol), m.assignment
		}
		v.Members = append(v.Members, mv)
	}
	return v, true
}

// List describes all groups by name, without their members.
func (c *Core) List() []View {
	list := make([]View, 0, len(c.groups))
	for _, g := range c.queue {
		list = append(list, g.view())
	}
	sorting.Sort(list, func(a, b View) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

func (g *group) view() View {
	v := View{Name: g.name, State: g.state, Generation: g.generation, ProtocolType: g.protocolType, Leader: g.leader}
	if g.state == Stable {
		v.Protocol = g.protocol
	}
	if g.hasConsumers() {
		v.State, v.ProtocolType = g.consumersState(), consumerType
		v.Consumers = &ConsumersView{Assignor: g.consumers.assignor}
	}
	return v
}

// queue is a heap of groups, ordered by next.
type queue []*group

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].next < q[j].next }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i]; q[i].index, q[j].index = i, j }

// Push implements heap.Interface.
func (q *queue) Push(x any) {
	g := x.(*group)
	g.index = len(*q)
	*q = append(*q, g)
}

// Pop implements heap.Interface.
func (q *queue) Pop() any {
	last := len(*q) - 1
	g := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return g
}
