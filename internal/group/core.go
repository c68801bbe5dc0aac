package group

import (
	"cmp"
	"container/heap"
	"math"
	"slices"
)

// Config are a Core's numbers. Times are in nanoseconds.
type Config struct {
	// Epoch is that in which the coordinator leads, and Began the time since when it does.
	Epoch uint32
	Began int64
	// InitialDelay is how long an empty group waits for more members after each that joins.
	InitialDelay int64
	// SessionMin and SessionMax bound what members may ask for.
	SessionMin, SessionMax int64
	// MembersMax bounds a group's members, ids that were given out and not used yet included.
	MembersMax int
	// Session is how long a member of the consumer protocol may be silent.
	Session int64
	// Topics is what there is to share out between such members.
	Topics Topics
	// BytesMax bounds what all groups hold, MemberBytesMax what one member tells about itself.
	BytesMax, MemberBytesMax int64
}

// What things take beside their bytes, roughly and rather too much.
const (
	groupCost   = 1 << 10
	memberCost  = 1 << 10
	pendingCost = 256
	commitCost  = 256
	protoCost   = 64
)

const (
	// freshWait bounds how long a new member waits to be let in: its client may be gone, and nobody would notice.
	freshWait = 300e9
	// generationBits are the low bits of a generation: rebalances in an epoch.
	generationBits = 14
	never          = math.MaxInt64
)

// Core is the membership of all groups of one coordinator. It is not for concurrent use.
type Core struct {
	cfg    Config
	groups map[string]*group
	queue  queue // groups by when they want a tick
	bytes  int64
	ids    uint64 // member ids given out
	floor  int32  // no forgotten group was in a later generation

	begun map[uint64]bool // hashes of groups that take no ids of earlier leaderships any more
}

// New returns a core without groups.
func New(cfg Config) *Core {
	return &Core{
		cfg: cfg, groups: make(map[string]*group),
		floor: cfg.firstGeneration(), begun: make(map[uint64]bool),
	}
}

// firstGeneration is below all generations of the epoch.
func (cfg *Config) firstGeneration() int32 {
	return int32(cfg.Epoch << generationBits & math.MaxInt32)
}

// Bytes is what all groups hold, by the core's own count.
func (c *Core) Bytes() int64 { return c.bytes }

// Next is when Tick is wanted; math.MaxInt64 is never. Any other call may change it.
func (c *Core) Next() int64 {
	if len(c.queue) == 0 {
		return never
	}
	return c.queue[0].next
}

// Tick lets time have its effects: members expire, rebalances end.
func (c *Core) Tick(now int64, out *Answers) {
	for len(c.queue) > 0 && c.queue[0].next <= now {
		g := c.queue[0]
		c.expire(g, now, out)
		c.settle(g, now)
	}
}

// take counts n more bytes (fewer if negative) for a group, or says that there is no room.
func (c *Core) take(g *group, n int64) bool {
	if n > 0 && n > c.cfg.BytesMax-c.bytes {
		return false
	}
	c.bytes += n
	g.bytes += n
	return true
}

// ensure finds a group or makes it; nil if there is no room.
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

// settle ends what a call did to a group: one that nothing holds is forgotten, else its next tick is set.
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

// newID makes a member id that nobody ever had.
func (c *Core) newID(base string) string {
	c.ids++
	return memberNumber{c.cfg.Epoch, c.ids}.id(base)
}

// Describe says how a group is; ok is false, and the state Dead, if the core has nothing of it.
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
	slices.SortFunc(list, func(a, b View) int { return cmp.Compare(a.Name, b.Name) })
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

// queue is a heap of groups by next.
type queue []*group

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].next < q[j].next }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i]; q[i].index, q[j].index = i, j }

// Push is container/heap's.
func (q *queue) Push(x any) {
	g := x.(*group)
	g.index = len(*q)
	*q = append(*q, g)
}

// Pop is container/heap's.
func (q *queue) Pop() any {
	last := len(*q) - 1
	g := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return g
}
