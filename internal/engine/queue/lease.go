package queue

import (
	"container/heap"
	"slices"

	"github.com/sebbroker/seb/internal/engine/log/state"
)

// noisy is the least number of messages of a key in flight that lets others pass, with fair.
const noisy = 30

// burst is the time whose messages may be given at once by a rate, µs.
const burst = 100_000

// Given is a message that a worker gets.
type Given struct {
	ID
	Deliveries uint32
	Until      int64 // µs
	First      int64 // µs of its first lease, as far as the core knows it
	lease      uint64
}

// Lease gives up to most messages to a worker, for a time. If wait is not nil, they may be given only
// when these changes are stored: after a failure of one they are given back by themselves. A message on
// its last try comes alone, so that it does not take others along if it ends its worker.
func (c *Core) Lease(now int64, most int, visibility int64, by string) (given []Given, wait []*Change, err error) {
	return c.give(now, most, visibility, by, false)
}

// LeaseGroups is Lease that gives several messages of a key together, in order, if the queue keeps the order
// of keys: the oldest ones, up to the first that is with a worker or waits.
func (c *Core) LeaseGroups(now int64, most int, visibility int64, by string) (given []Given, wait []*Change, err error) {
	return c.give(now, most, visibility, by, c.Settings.KeyMode == state.KeyOrder && c.Settings.KeyLimit == 0 && c.Settings.KeyRate <= 0)
}

func (c *Core) give(now int64, most int, visibility int64, by string, together bool) (given []Given, wait []*Change, err error) {
	if c.Settings.Paused {
		return nil, nil, nil
	}
	c.Tick(now)
	if c.inflight >= c.Settings.InFlightMax {
		return nil, nil, &LimitError{Setting: "in-flight-max of the queue", Max: c.Settings.InFlightMax}
	}
	for len(given) < min(most, c.Settings.InFlightMax) && c.inflight < c.Settings.InFlightMax && c.rated(now) {
		var m *message
		if together {
			m = c.following(given)
		}
		if m == nil {
			m = c.pick(now)
		}
		if m == nil {
			break
		}
		last := c.Settings.MaxDeliveries > 1 && int64(m.deliveries)+1 >= int64(c.Settings.MaxDeliveries)
		if last && len(given) > 0 {
			c.unpick(m)
			break
		}
		if change := c.lease(m, now, visibility, by); change != nil && (len(wait) == 0 || wait[len(wait)-1] != change) {
			wait = append(wait, change)
		}
		given = append(given, Given{m.ID, m.deliveries, m.until, m.first, m.lease})
		if last {
			break
		}
	}
	return given, wait, nil
}

// following is the next message of the key of the last one that is given; nil: none.
func (c *Core) following(given []Given) *message {
	if len(given) == 0 {
		return nil
	}
	g := &given[len(given)-1]
	a := &c.parts[g.Partition]
	k := c.keyOf(a.known[g.Offset])
	if k == nil {
		return nil
	}
	i := slices.Index(k.list, a.known[g.Offset]) + 1
	if i == 0 || i == len(k.list) || k.list[i].step != parked || k.list[i].Offset >= a.seen() {
		return nil
	}
	return k.list[i]
}

// rated reports whether the queue's rate allows one more message, and counts it.
func (c *Core) rated(now int64) bool {
	if c.Settings.Rate <= 0 {
		c.free = 0
		return true
	}
	return now >= c.free
}

// spend counts a message that is given, by a rate, and returns when the next one may be.
func spend(now, next int64, rate float64) int64 {
	step := int64(1e6 / rate)
	return max(next, now-burst) + max(1, step)
}

// lease gives a message. It returns the change that must be stored before, or nil: the first lease of a
// message is stored with the next slot that is made anyway.
func (c *Core) lease(m *message, now, visibility int64, by string) *Change {
	expired := m.deliveries > 0 && !m.settled
	before := m.by
	c.leases++
	c.count(m, 1)
	if c.Settings.Rate > 0 {
		c.free = spend(now, c.free, c.Settings.Rate)
	}
	if k := c.keyOf(m); k != nil && c.Settings.KeyRate > 0 {
		if k.next = spend(now, k.next, c.Settings.KeyRate); len(k.list) > 0 {
			c.arm(k)
		}
	}
	if m.deliveries == 0 || m.first == 0 {
		m.first = now
	}
	m.deliveries++
	m.until, m.epoch, m.by, m.settled, m.stored, m.lease = now+visibility, c.epoch, by, false, false, c.leases
	c.wait(m, leased)
	if m.deliveries == 1 {
		c.ride(m)
		return nil
	}
	m.stored = true
	ch := c.change(m.Partition)
	ch.add(m, m.asLeased())
	if expired {
		ch.try(m, before, reasonExpired)
	}
	return ch
}

// ride lets the next record of the partition have a lease.
func (c *Core) ride(m *message) {
	if m.stored = false; !m.rides {
		m.rides = true
		a := &c.parts[m.Partition]
		a.rides = append(a.rides, m)
	}
}

// pick takes a ready message that may be given: nine times of ten of the first partition that has one,
// and so on.
func (c *Core) pick(now int64) *message {
	turn := c.leases
	var last *message
	for i := range c.parts {
		m := c.pickOf(now, &c.parts[i])
		if m == nil {
			continue
		}
		if last != nil {
			c.unpick(last)
		}
		if last = m; turn%10 != 9 {
			break
		}
		turn /= 10
	}
	return last
}

func (c *Core) pickOf(now int64, a *part) *message {
	for len(a.ready) > 0 {
		m := heap.Pop(&a.ready).(*message)
		if m.step != ready || a.known[m.Offset] != m {
			continue
		}
		if k := c.keyOf(m); k == nil || c.Settings.KeyMode == state.KeyOrder && c.Settings.KeyRate <= 0 || c.passes(now, a, k, m) {
			return m
		}
	}
	for len(a.noisy) > 0 {
		k := a.noisy[0]
		if len(k.list) == 0 || a.keys[k.hash] != k {
			a.noisy = a.noisy[1:]
			continue
		}
		if c.limited(k) || k.next > now {
			a.noisy = a.noisy[1:] // the end of a lease, or its timer, gives the next one
			continue
		}
		m := k.list[0]
		k.list = k.list[1:]
		if m.step != parked {
			continue
		}
		m.step = ready
		return m
	}
	return nil
}

func (c *Core) limited(k *key) bool {
	return c.Settings.KeyLimit > 0 && k.inflight >= c.Settings.KeyLimit
}

// passes reports whether a message may be given, as far as its key decides. Otherwise it is parked.
func (c *Core) passes(now int64, a *part, k *key, m *message) bool {
	slow := c.Settings.KeyRate > 0 && k.next > now
	if c.Settings.KeyMode == state.KeyOrder {
		if slow { // it stays the first of its key
			m.until = k.next
			c.wait(m, waiting)
		}
		return !slow
	}
	loud := c.Settings.KeyMode == state.KeyFair && k.inflight >= noisy && k.inflight*10 > c.inflight
	if !loud && !slow && !c.limited(k) {
		return true
	}
	m.step = parked
	k.list = append(k.list, m)
	switch {
	case slow:
		c.arm(k)
	case loud:
		a.noisy = append(a.noisy, k)
	}
	return false
}

// unpick gives a picked message back.
func (c *Core) unpick(m *message) { heap.Push(&c.parts[m.Partition].ready, m) }

// Return takes back messages that were given, but did not reach their worker: their first leases were not.
// They are given again from a time on.
func (c *Core) Return(list []Given, from int64) {
	for i := range list {
		g := &list[i]
		m := c.parts[g.Partition].known[g.Offset]
		if m == nil || m.step != leased || m.lease != g.lease {
			continue
		}
		m.timer = 0
		c.count(m, -1)
		if m.deliveries == 1 && !m.stored {
			m.deliveries = 0
		}
		if m.settled = true; from > c.now {
			m.until = from
			c.wait(m, waiting)
			continue
		}
		c.offer(m)
	}
}
