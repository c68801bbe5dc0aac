package queue

import (
	"container/heap"
	"math"
	"slices"
	"time"

	"github.com/sebbroker/seb/internal/engine/log/state"
)

// ID identifies a message of a queue.
type ID struct {
	Partition uint32
	Offset    int64
}

// step is what a message is doing.
type step uint8

const (
	ready    step = iota // in the heap of its partition
	parked               // in the list of its key
	waiting              // for a retry or a delay, until a time
	leased               // until a time
	changing             // a change of it is on its way to the log
	dying                // on its way to the dead-letter queue
	gone                 // no longer known
)

// message is a message that may be given to a worker soon, or is with one.
type message struct {
	ID
	key        uint64 // hash of its key; 0: none
	step       step
	until      int64  // waiting, leased: µs
	deliveries uint32 // leases so far
	epoch      uint32 // of the newest lease
	settled    bool   // a worker has returned the newest lease
	stored     bool   // the newest lease is in a change
	rides      bool   // it is in the rides of its partition
	lease      uint64 // number of the newest lease
	first      int64  // µs of the first lease, as far as it is known; 0: none
	by         string // principal with the newest lease
	timer      int64  // its newest entry in the timers; 0: none
}

// key is what a core knows of the messages of a key.
type key struct {
	hash     uint64
	part     uint32
	inflight int
	list     []*message // order: all known ones; else those that are parked
	next     int64      // the next message may be given at this time, by key-rate
	timed    bool       // a timer has it
}

// part is a partition of the queue. The lower ones come first.
type part struct {
	cursor int64 // the messages below are known, or not untouched
	next   int64 // end of the log
	known  map[int64]*message
	out    int // of them that workers have
	ready  offsets
	keys   map[uint64]*key
	noisy  []*key // with parked messages that may be given if no others are ready
	open   *Change
	rides  []*message // leases that no change has
	dying  []*death
	due    int64                   // when the runs of the state must be looked through again
	within []state.OpenTransaction // as in the newest Released

	sought bool               // keys are being read
	from   int64              // sought: the cursor before
	over   map[int64]struct{} // sought: forgotten meanwhile
	beyond []*message         // order: parked, because older messages of their keys may not be known
}

// Core decides which messages of one queue workers get, while a broker leads. It does no I/O: the
// caller passes the log's time (µs), what the log knows, and the keys of messages. It is not safe for
// concurrent use.
//
//	log ──Look──▶ ready ──Lease──▶ leased ──Settle──▶ Change ──Done──▶ forgotten, or waiting
//	                ▲                 │ its time is over
//	                └─────────────────┴──too often──▶ dying ──Buried──▶ forgotten
type Core struct {
	Settings state.QueueSettings
	epoch    uint32
	ahead    int // messages of a partition that are known at once
	parts    []part
	inflight int
	all      *int   // the messages in flight of all queues; nil: not counted
	leases   uint64 // given so far
	free     int64  // the next message may be given at this time, by rate
	over     int64  // leases that ended without a word of their worker
	timers   timers
	swept    int   // timers that were left after the last sweep
	armed    int64 // number of the newest timer
	now      int64 // of the last call
	roll     func() float64
}

// The messages of a partition that are known and not with workers, at most: without keys, and with keys.
const (
	aheadPlain = 2048
	aheadKeyed = 20_000
	aheadMin   = 32
)

// NewCore returns the core of a queue with a number of partitions. roll returns random numbers in [0, 1).
func NewCore(s state.QueueSettings, epoch uint32, partitions int, roll func() float64) *Core {
	c := &Core{epoch: epoch, roll: roll}
	c.Configure(s)
	c.Grow(partitions)
	return c
}

// Configure sets new settings. It reports false if messages that are known must be looked at again
// with their keys: then only a new Core will do.
func (c *Core) Configure(s state.QueueSettings) bool {
	was := &c.Settings
	same := len(c.parts) == 0 || was.KeyMode == s.KeyMode && was.KeyLimit == s.KeyLimit && was.KeyRate == s.KeyRate
	if was.Rate != s.Rate {
		c.free = 0
	}
	c.Settings = s
	if c.ahead == 0 {
		c.Within(aheadKeyed)
	}
	return same
}

// Within bounds the messages that are known and not with workers. More of them let keys that are blocked
// keep fewer others waiting.
func (c *Core) Within(ahead int) {
	most := aheadPlain
	if keyed(&c.Settings) {
		most = aheadKeyed
	}
	c.ahead = max(aheadMin, min(ahead, most))
}

// InFlight is the number of messages that workers have.
func (c *Core) InFlight() int { return c.inflight }

// CountIn adds the messages in flight to a sum from now on. nil: not any more, and those of the core leave it.
func (c *Core) CountIn(all *int) {
	if c.all != nil {
		*c.all -= c.inflight
	}
	if c.all = all; all != nil {
		*all += c.inflight
	}
}

// Grow adds partitions.
func (c *Core) Grow(partitions int) {
	for len(c.parts) < partitions {
		c.parts = append(c.parts, part{known: map[int64]*message{}, keys: map[uint64]*key{}})
	}
}

// keyed reports whether keys matter.
func keyed(s *state.QueueSettings) bool {
	return s.KeyMode != state.KeyNone || s.KeyLimit > 0 || s.KeyRate > 0
}

// keyOf returns the key of a message, if keys matter and it has one.
func (c *Core) keyOf(m *message) *key {
	if m.key == 0 || !keyed(&c.Settings) {
		return nil
	}
	a := &c.parts[m.Partition]
	k := a.keys[m.key]
	if k == nil {
		k = &key{hash: m.key, part: m.Partition}
		a.keys[m.key] = k
	}
	return k
}

// insert adds a message of an ordered key, which is mostly its newest.
func (k *key) insert(m *message) {
	i := len(k.list)
	for i > 0 && k.list[i-1].Offset > m.Offset {
		i--
	}
	k.list = slices.Insert(k.list, i, m)
}

// aside is the number of messages that are known and not with workers.
func (a *part) aside() int { return len(a.known) - a.out }

// count changes the numbers of messages in flight.
func (c *Core) count(m *message, sign int) {
	if c.inflight += sign; c.all != nil {
		*c.all += sign
	}
	c.parts[m.Partition].out += sign
	if k := c.keyOf(m); k != nil {
		if k.inflight += sign; sign < 0 {
			c.release(k)
		}
	}
}

// offer makes a message ready, unless an older one of its key comes first. Newer ones of the key may be with a
// worker that has got them together with this one.
func (c *Core) offer(m *message) {
	a := &c.parts[m.Partition]
	if k := c.keyOf(m); k != nil && c.Settings.KeyMode == state.KeyOrder {
		if m.step = parked; k.list[0] != m {
			return
		}
		if m.Offset >= a.seen() {
			a.beyond = append(a.beyond, m)
			return
		}
	}
	m.step = ready
	heap.Push(&a.ready, m)
}

// wait lets a message wait for its time, with a worker or without.
func (c *Core) wait(m *message, s step) {
	m.step = s
	c.armed++
	m.timer = c.armed
	c.push(timer{at: m.until, number: m.timer, m: m})
}

// push adds a timer. Timers that count no more go when they are most.
func (c *Core) push(t timer) {
	if len(c.timers) > 2*c.swept+1024 {
		c.timers = slices.DeleteFunc(c.timers, func(t timer) bool { return t.k == nil && t.m.timer != t.number })
		c.swept = len(c.timers)
		heap.Init(&c.timers)
	}
	heap.Push(&c.timers, t)
}

// arm lets a key give its parked messages when its rate allows it.
func (c *Core) arm(k *key) {
	if !k.timed {
		k.timed = true
		c.push(timer{at: k.next, k: k})
	}
}

// ring is the end of a key's timer.
func (c *Core) ring(k *key) {
	k.timed = false
	if k.next > c.now {
		c.arm(k)
		return
	}
	for at := k.next; at <= c.now && len(k.list) > 0 && c.Settings.KeyMode != state.KeyOrder; at = spend(at, at, c.Settings.KeyRate) {
		c.release(k)
	}
	c.drop(k)
}

// drop forgets a key of which nothing is known.
func (c *Core) drop(k *key) {
	switch keys := c.parts[k.part].keys; {
	case len(k.list) > 0 || k.inflight > 0:
	case k.next > c.now:
		c.arm(k)
	case keys[k.hash] == k:
		delete(keys, k.hash)
	}
}

// exhausted reports whether a message may not be given again.
func (c *Core) exhausted(m *message) bool {
	return c.Settings.MaxDeliveries > 0 && int64(m.deliveries) >= int64(c.Settings.MaxDeliveries)
}

// forget drops a message, whose key gives another one then.
func (c *Core) forget(m *message) {
	a := &c.parts[m.Partition]
	delete(a.known, m.Offset)
	if a.sought {
		a.over[m.Offset] = struct{}{}
	}
	m.timer, m.step = 0, gone
	k := c.keyOf(m)
	if k == nil {
		return
	}
	if c.Settings.KeyMode == state.KeyOrder {
		if i := slices.Index(k.list, m); i >= 0 {
			k.list = slices.Delete(k.list, i, i+1)
		}
	}
	c.release(k) // m may have been the first, or the one that the end of a lease has released
	c.drop(k)
}

// release makes the first parked message of a key ready.
func (c *Core) release(k *key) {
	if c.Settings.KeyMode == state.KeyOrder {
		if len(k.list) > 0 && k.list[0].step == parked {
			c.offer(k.list[0])
		}
		return
	}
	for len(k.list) > 0 {
		m := k.list[0]
		if k.list = k.list[1:]; m.step == parked {
			c.offer(m)
			return
		}
	}
}

// Tick lets what is over be over: leases and waits.
func (c *Core) Tick(now int64) {
	c.now = now
	for len(c.timers) > 0 && c.timers[0].at <= now {
		t := heap.Pop(&c.timers).(timer)
		if t.k != nil {
			c.ring(t.k)
			continue
		}
		m := t.m
		if m.timer != t.number {
			continue
		}
		if m.timer = 0; m.step == leased {
			c.count(m, -1)
			c.over++
			if c.exhausted(m) {
				c.die(m, reasonExpired, m.by, nil)
				continue
			}
		}
		c.offer(m)
	}
}

// Next returns when Tick, Look or Lease may have something to do that no call causes: µs, or
// math.MaxInt64.
func (c *Core) Next() int64 {
	next := int64(math.MaxInt64)
	if len(c.timers) > 0 {
		next = c.timers[0].at
	}
	for i := range c.parts {
		a := &c.parts[i]
		if c.Settings.KeyMode != state.KeyOrder && c.seeks(a) {
			next = min(next, a.due)
		}
		if len(a.ready)+len(a.noisy) > 0 && c.free > c.now {
			next = min(next, c.free)
		}
	}
	return next
}

// Wants reports whether Look may find more messages: the partition has some that are not known, and
// room for them.
func (c *Core) Wants(now int64, p uint32) bool {
	a := &c.parts[p]
	return c.seeks(a) && (a.cursor < a.next || now >= a.due && c.Settings.KeyMode != state.KeyOrder)
}

// Extended notes a new end of a partition.
func (c *Core) Extended(p uint32, next int64) {
	if int(p) < len(c.parts) { // else Grow comes later
		c.parts[p].next = max(c.parts[p].next, next)
	}
}

// Released lets the next Look find the messages of transactions that have ended. open are those of the partition
// that have not.
func (c *Core) Released(p uint32, open []state.OpenTransaction) {
	a := &c.parts[p]
	for _, o := range a.within {
		if !slices.Contains(open, o) {
			a.cursor, a.from = min(a.cursor, o.First), min(a.from, o.First)
		}
	}
	a.within = open
}

// Offers reports whether Lease may give a message.
func (c *Core) Offers(now int64) bool {
	if c.Settings.Paused || c.inflight >= c.Settings.InFlightMax || !c.rated(now) {
		return false
	}
	for i := range c.parts {
		if len(c.parts[i].ready) > 0 || len(c.parts[i].noisy) > 0 {
			return true
		}
	}
	return false
}

// DueAgain lets the next Look go through the messages that are delayed by the log.
func (c *Core) DueAgain(p uint32, at int64) { c.parts[p].due = min(c.parts[p].due, at) }

// DyingCount is the number of messages on their way to the dead-letter queue.
func (c *Core) DyingCount() (n int) {
	for i := range c.parts {
		n += len(c.parts[i].dying)
	}
	return n
}

// Held reports whether a message is with a worker, or a change of it is on its way to the log.
func (c *Core) Held(id ID) bool {
	m := c.parts[id.Partition].known[id.Offset]
	return m != nil && m.step >= leased
}

// Counts are numbers of messages that are known.
type Counts struct{ Ready, InFlight, Waiting, Dying int }

// Counts returns numbers of messages.
func (c *Core) Counts() (n Counts) {
	n.InFlight = c.inflight
	for i := range c.parts {
		n.Dying += len(c.parts[i].dying)
		for _, m := range c.parts[i].known { //tidy:unordered counts
			switch m.step {
			case ready, parked:
				n.Ready++
			case waiting:
				n.Waiting++
			}
		}
	}
	return n
}

// micros is a duration in µs.
func micros(d time.Duration) int64 { return d.Microseconds() }
