package coordinator

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/engine/base/wake"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/group"
)

// Options configure Open. Broker must be set; zero numbers mean their defaults.
type Options struct {
	Broker *broker.Broker
	// InitialDelay is the time that an empty group waits for more members after each join: 3 s, as
	// in Kafka. Negative: no delay.
	InitialDelay time.Duration
	// SessionMin and SessionMax bound the session timeout that members may request: 6 s, 30 min.
	SessionMin, SessionMax time.Duration
	// Session is the session timeout of the consumer protocol: 45 s. Beat is its heartbeat
	// interval: 5 s.
	Session, Beat time.Duration
	// MembersMax bounds the members of a group: 1000. The budget's class for groups bounds all
	// groups together.
	MembersMax int
	// CommitTimeout bounds Wait of a commit: 10 s.
	CommitTimeout time.Duration

	Logger  *slog.Logger // slog.Default()
	Metrics *metrics.Set // a set of its own, not registered
}

// memberShare is the divisor of the memory of all groups that bounds the data of one member.
const memberShare = 8

func (o Options) withDefaults() Options {
	o.InitialDelay = cmp.Or(o.InitialDelay, 3*time.Second)
	o.InitialDelay = max(0, o.InitialDelay)
	o.SessionMin = cmp.Or(o.SessionMin, 6*time.Second)
	o.SessionMax = cmp.Or(o.SessionMax, 30*time.Minute)
	o.Session = cmp.Or(o.Session, 45*time.Second)
	o.Beat = cmp.Or(o.Beat, 5*time.Second)
	o.MembersMax = cmp.Or(o.MembersMax, 1000)
	o.CommitTimeout = cmp.Or(o.CommitTimeout, 10*time.Second)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	o.Metrics = cmp.Or(o.Metrics, metrics.NewSet())
	return o
}

// Coordinator coordinates all groups of a broker while it leads. Its methods may be called
// concurrently; only those with a context wait.
type Coordinator struct {
	o     Options
	b     *broker.Broker
	met   *meters
	began time.Time
	wake  wake.Signal // the next tick is earlier than armed
	done  sync.WaitGroup
	end   context.CancelFunc
	ctx   context.Context // ends with the coordinator; commits not sent by then are never sent

	mu      sync.Mutex  // guards the fields below
	core    *group.Core // of the epoch; nil: none yet
	epoch   uint32      // the epoch in which the broker leads
	stopped bool        // closed, or the broker has stopped
	held    *budget.Reservation
	tickets group.Ticket
	joins   map[group.Ticket]chan group.JoinAnswer
	syncs   map[group.Ticket]chan group.SyncAnswer
	out     group.Answers
	staging map[*broker.StageOffsets]struct{} // admitted commits of transactions, until they are settled
	armed   int64                             // time for which the timer is set
}

// Open starts the coordinator of a broker, which must outlive it. ctx must outlive Close; its end
// cancels all waits.
func Open(ctx context.Context, o Options) *Coordinator {
	c := &Coordinator{
		o: o.withDefaults(), b: o.Broker, began: time.Now(), wake: wake.New(), armed: math.MaxInt64,
		joins: make(map[group.Ticket]chan group.JoinAnswer), syncs: make(map[group.Ticket]chan group.SyncAnswer),
		staging: make(map[*broker.StageOffsets]struct{}),
	}
	c.ctx, c.end = context.WithCancel(ctx)
	c.met = newMeters(c)
	c.done.Go(c.run)
	c.b.WhileLeading(func(ctx context.Context) {
		<-ctx.Done()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.endEpochLocked()
	})
	return c
}

// endEpochLocked ends the groups of an epoch that is over: members join again at the next leader.
func (c *Coordinator) endEpochLocked() {
	if c.core != nil && c.epoch != c.b.LeadingEpoch() {
		c.dropLocked()
	}
}

// Close refuses new requests, answers waiting ones (group.NotCoordinator), and waits until every
// admitted commit is settled or will never be sent. Calling it twice is safe.
func (c *Coordinator) Close() {
	c.end()
	c.done.Wait()
}

// run ticks the core, and stops the groups when the broker stops.
func (c *Coordinator) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-c.wake:
		case <-timer.C:
		case <-c.b.Done():
			c.stop()
			return
		case <-c.ctx.Done():
			c.stop()
			return
		}
		c.mu.Lock()
		if c.core != nil {
			c.core.Tick(c.now(), &c.out)
			c.armed = c.core.Next()
			c.settleLocked()
		}
		timer.Reset(time.Duration(min(c.armed-c.now(), int64(time.Hour))))
		c.mu.Unlock()
	}
}

// stop refuses further requests and drops the groups.
func (c *Coordinator) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	c.dropLocked()
}

// dropLocked answers all parked requests and drops the groups.
func (c *Coordinator) dropLocked() {
	for t, ch := range c.joins {
		ch <- group.JoinAnswer{Ticket: t, Code: group.NotCoordinator, Generation: -1}
	}
	for t, ch := range c.syncs {
		ch <- group.SyncAnswer{Ticket: t, Code: group.NotCoordinator}
	}
	clear(c.joins)
	clear(c.syncs)
	c.core, c.armed = nil, math.MaxInt64
	c.held.Release()
	c.held = nil
}

// now is the core's clock, in nanoseconds. It is monotonic.
func (c *Coordinator) now() int64 { return int64(time.Since(c.began)) }

// leadLocked reports whether requests can be answered. Each epoch has a core of its own, so that no
// generation of an earlier one is known.
func (c *Coordinator) leadLocked() group.Code {
	switch {
	case c.stopped || c.b.Follows() || c.b.Err() != nil:
		return group.NotCoordinator
	}
	epoch, led := c.b.LeadingEpoch(), c.epoch
	c.endEpochLocked()
	switch {
	case epoch == 0 && led != 0: // no longer leads
		return group.NotCoordinator
	case epoch == 0:
		return group.CoordinatorLoadInProgress
	case c.core != nil:
		return group.OK
	}
	class := c.b.Budget().Class(budget.Groups)
	held, err := class.Reserve(0)
	if err != nil {
		return group.CoordinatorNotAvailable
	}
	c.held, c.epoch = held, epoch
	c.core = group.New(group.Config{
		Epoch: epoch, Began: c.now(), NoReturns: len(c.b.TransactionRefs()) > 0, InitialDelay: int64(c.o.InitialDelay), SessionMin: int64(c.o.SessionMin), SessionMax: int64(c.o.SessionMax),
		Session: int64(c.o.Session), Topics: topics{c.b}, MembersMax: c.o.MembersMax, BytesMax: class.Limit(), MemberBytesMax: class.Limit() / memberShare,
	})
	return group.OK
}

// leadOfLocked reports whether requests about a group can be answered.
func (c *Coordinator) leadOfLocked(groupID string) group.Code {
	code := c.leadLocked()
	if code == group.OK && broker.CheckGroup(groupID) != nil {
		code = group.InvalidGroupID
	}
	return code
}

// Ready reports whether this broker coordinates groups: OK, NotCoordinator, or
// CoordinatorLoadInProgress.
func (c *Coordinator) Ready() group.Code {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leadLocked()
}

// settleLocked delivers the core's answers, accounts for its memory and schedules its next tick.
func (c *Coordinator) settleLocked() {
	for _, a := range c.out.Joins {
		c.joins[a.Ticket] <- a // never blocks: the capacity is 1, and there is one answer
		delete(c.joins, a.Ticket)
		if a.Code == group.GroupMaxSizeReached {
			c.met.full.Inc()
		}
	}
	for _, a := range c.out.Syncs {
		c.syncs[a.Ticket] <- a
		delete(c.syncs, a.Ticket)
	}
	clear(c.out.Joins)
	clear(c.out.Syncs)
	c.out = group.Answers{Joins: c.out.Joins[:0], Syncs: c.out.Syncs[:0]}
	c.countLocked()
	if c.core.Next() < c.armed {
		c.armed = c.core.Next()
		c.wake.Send()
	}
}

// countLocked updates the reservation of the groups. It fits, because the core bounds its memory by
// the limit of the class, and nothing else uses the class.
func (c *Coordinator) countLocked() {
	switch more := c.core.Bytes() - c.held.Size(); {
	case more > 0:
		if err := c.held.Grow(more); err != nil {
			c.o.Logger.Warn("groups: memory reservation failed", "err", err)
		}
	case more < 0:
		c.held.Shrink(-more)
	}
}

// Join is group.Core.Join. The answer is sent on the channel once; the caller need not receive it.
func (c *Coordinator) Join(r *group.JoinRequest) <-chan group.JoinAnswer {
	ch := make(chan group.JoinAnswer, 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if code := c.leadOfLocked(r.Group); code != group.OK {
		ch <- group.JoinAnswer{Code: code, Member: r.Member, Generation: -1}
		return ch
	}
	c.tickets++
	c.joins[c.tickets] = ch
	c.core.Join(c.now(), r, c.tickets, &c.out)
	c.settleLocked()
	return ch
}

// Sync is group.Core.Sync. The answer is sent on the channel once; the caller need not receive it.
func (c *Coordinator) Sync(r *group.SyncRequest) <-chan group.SyncAnswer {
	ch := make(chan group.SyncAnswer, 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if code := c.leadLocked(); code != group.OK {
		ch <- group.SyncAnswer{Code: code}
		return ch
	}
	c.tickets++
	c.syncs[c.tickets] = ch
	c.core.Sync(c.now(), r, c.tickets, &c.out)
	c.settleLocked()
	return ch
}

// Heartbeat is group.Core.Heartbeat.
func (c *Coordinator) Heartbeat(r *group.Caller) group.Code {
	c.mu.Lock()
	defer c.mu.Unlock()
	if code := c.leadLocked(); code != group.OK {
		return code
	}
	return c.core.Heartbeat(c.now(), r)
}

// Leave is group.Core.Leave. A code other than OK applies to all members.
func (c *Coordinator) Leave(groupID string, leaving []group.Leaving) ([]group.Code, group.Code) {
	c.mu.Lock()
	defer c.mu.Unlock()
	code := c.leadLocked()
	if code == group.OK && groupID == "" {
		code = group.InvalidGroupID
	}
	if code != group.OK {
		return nil, code
	}
	codes := c.core.Leave(c.now(), groupID, leaving, &c.out)
	c.settleLocked()
	return codes, group.OK
}

// Describe describes a group. It is Empty if it only has committed offsets, and Dead if it has
// nothing.
func (c *Coordinator) Describe(name string) (group.View, group.Code) {
	c.mu.Lock()
	code := c.leadLocked()
	v := group.View{Name: name, State: group.Dead}
	known := false
	if code == group.OK {
		v, known = c.core.Describe(name)
	}
	c.mu.Unlock()
	if code != group.OK || known {
		return v, code
	}
	if c.b.GroupRef(name).Offsets > 0 {
		v.State = group.Empty
	}
	return v, code
}

// List describes all groups with members or committed offsets, by name and without their members.
func (c *Coordinator) List() ([]group.View, group.Code) {
	c.mu.Lock()
	code := c.leadLocked()
	var active []group.View
	if code == group.OK {
		active = c.core.List()
	}
	c.mu.Unlock()
	if code != group.OK {
		return nil, code
	}
	var list []group.View
	for _, g := range c.b.GroupRefs() {
		for len(active) > 0 && active[0].Name < g.Name {
			list, active = append(list, active[0]), active[1:]
		}
		if len(active) > 0 && active[0].Name == g.Name {
			list, active = append(list, active[0]), active[1:]
			continue
		}
		list = append(list, group.View{Name: g.Name, State: group.Empty})
	}
	return append(list, active...), group.OK
}

// HeartbeatConsumer is group.Core.HeartbeatConsumer; it also returns the heartbeat interval.
func (c *Coordinator) HeartbeatConsumer(r *group.HeartbeatRequest) (group.HeartbeatAnswer, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if code := c.leadOfLocked(r.Group); code != group.OK {
		return group.HeartbeatAnswer{Code: code, Member: r.Member, Epoch: r.Epoch}, c.o.Beat
	}
	a := c.core.HeartbeatConsumer(c.now(), r)
	if a.Code == group.GroupMaxSizeReached {
		c.met.full.Inc()
	}
	c.settleLocked()
	return a, c.o.Beat
}

// CheckReader is group.Core.CheckReader.
func (c *Coordinator) CheckReader(r *group.Caller) group.Code {
	c.mu.Lock()
	defer c.mu.Unlock()
	if code := c.leadLocked(); code != group.OK {
		return code
	}
	return c.core.CheckReader(r)
}

// topics implements group.Topics with the topics of a broker.
type topics struct{ b *broker.Broker }

// Topic implements group.Topics.
func (t topics) Topic(name string) (group.TopicInfo, bool) {
	ref, ok := t.b.TopicNamed(name)
	return group.TopicInfo{ID: ref.ID, Partitions: int32(ref.Partitions)}, ok
}

// Names implements group.Topics.
func (t topics) Names() []string {
	all := t.b.Topics(context.Background()) //nolint:contextcheck // returns at once
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].Name
	}
	return names
}

// meters are the metrics of groups.
type meters struct {
	full *metrics.Counter // members refused for lack of memory
}

func newMeters(c *Coordinator) *meters {
	s := c.o.Metrics
	s.GetOrCreateGauge(`seb_groups_active`, func() float64 {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.core == nil {
			return 0
		}
		return float64(len(c.core.List()))
	})
	return &meters{full: s.GetOrCreateCounter(`seb_groups_members_refused_total`)}
}
