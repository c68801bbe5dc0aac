package queue

import "github.com/sebbroker/seb/internal/engine/log/state"

// Look makes messages known that the log has: untouched ones from the cursor on, and those whose time
// has come. q is the committed state of a partition and next its end, with KeyOrder its last stable offset: an
// uncommitted message comes before newer ones of its key. If keys matter it returns runs of
// messages whose keys the caller must read, and pass to Saw.
func (c *Core) Look(now int64, p uint32, q *state.Queue, start, next int64) (seek []state.QueueRun) {
	a := &c.parts[p]
	a.next = next
	a.cursor = max(a.cursor, start, q.Done)
	if a.sought {
		return nil
	}
	room := c.room(a)
	ordered := c.Settings.KeyMode == state.KeyOrder
	take := func(r state.QueueRun) {
		for room > 0 && r.Span > 0 {
			if _, known := a.known[r.Base]; known {
				r.Base, r.Span = r.Base+1, r.Span-1
				continue
			}
			some := r
			for some.Span = 0; some.Span < r.Span && room > 0; some.Span++ {
				if _, known := a.known[r.Base+some.Span]; known {
					break
				}
				room--
			}
			seek = append(seek, some)
			r.Base, r.Span = some.End(), r.Span-some.Span
		}
	}
	if !ordered && now >= a.due { // order knows all messages below the cursor
		for r := range q.Runs.Due(now) {
			if take(r); room <= 0 {
				break
			}
		}
		if a.due = now; room > 0 {
			a.due = q.Runs.NextUntil(now)
		}
	}
	a.from = a.cursor
	a.cursor = a.walk(q, ordered, take, &room)
	if !keyed(&c.Settings) {
		for _, r := range seek {
			for at := r.Base; at < r.End(); at++ {
				c.add(now, p, at, 0, &r)
			}
		}
		return nil
	}
	if a.sought = len(seek) > 0; a.sought {
		a.over = map[int64]struct{}{}
	} else {
		c.within(a)
	}
	return seek
}

// room is how many more messages may be known. Those in flight have a limit of their own.
func (c *Core) room(a *part) int { return c.ahead - a.aside() }

// seeks reports whether it is time to make more messages known: not a few at a time, unless there are no
// others to give.
func (c *Core) seeks(a *part) bool {
	room := c.room(a)
	return !a.sought && (room >= c.ahead/2 || room > 0 && len(a.ready) == 0)
}

// Blocked reports whether the queue waits although it has more messages: as many as may be known wait for
// others of their keys.
func (c *Core) Blocked() bool {
	for i := range c.parts {
		a := &c.parts[i]
		if keyed(&c.Settings) && !a.sought && c.room(a) <= 0 && a.cursor < a.next && len(a.ready)+len(a.noisy) == 0 {
			return true
		}
	}
	return false
}

// walk takes messages from the cursor on, and returns the new cursor.
func (a *part) walk(q *state.Queue, ordered bool, take func(state.QueueRun), room *int) int64 {
	at := a.cursor
	untouched := func(to int64) {
		for at < to && *room > 0 { // those that are known already take no room
			n := min(to-at, int64(*room))
			take(state.QueueRun{Base: at, Span: n})
			at += n
		}
	}
	if at >= a.next || *room <= 0 {
		return at
	}
	for r := range q.Runs.All(at) {
		if r.Base >= a.next {
			break
		}
		if untouched(r.Base); at < r.Base {
			return at
		}
		end := r.End()
		if ordered && r.State != state.QueueDone {
			r.Base = max(r.Base, at)
			r.Span = min(end-r.Base, int64(*room))
			if take(r); *room <= 0 || r.End() < end { // some of it may have been known
				return r.End()
			}
		}
		at = max(at, end)
	}
	untouched(a.next)
	return min(at, a.next)
}

// Key is the key of a message: a hash, or 0.
type Key struct {
	Offset int64
	Hash   uint64
	Run    state.QueueRun // what Look has returned for it
}

// Saw ends a search for keys that Look has asked for. Without all of them the next Look asks again.
func (c *Core) Saw(now int64, p uint32, keys []Key, all bool) {
	a := &c.parts[p]
	a.sought = false
	if !all {
		a.cursor, a.due = a.from, 0
		if n := len(keys); n > 0 && c.Settings.KeyMode == state.KeyOrder { // they are in order
			a.cursor = max(a.cursor, keys[n-1].Offset+1)
		}
	}
	for i := range keys {
		k := &keys[i]
		_, over := a.over[k.Offset]
		if _, known := a.known[k.Offset]; !known && !over {
			c.add(now, p, k.Offset, k.Hash, &k.Run)
		}
	}
	a.over = nil
	c.within(a)
}

// seen is the offset below which all messages are known that have to be.
func (a *part) seen() int64 {
	if a.sought {
		return a.from
	}
	return a.cursor
}

// within offers messages that waited for older ones to be known.
func (c *Core) within(a *part) {
	list := a.beyond
	a.beyond = nil
	for _, m := range list {
		if m.step == parked {
			c.offer(m)
		}
	}
}

// Know makes a message known whose key the caller has read because Settle needs it. q is the committed
// state of its partition.
func (c *Core) Know(now int64, id ID, hash uint64, q *state.Queue) {
	if run := q.Of(id.Offset); run.State != state.QueueDone && run.State != state.QueueUncommitted && c.parts[id.Partition].known[id.Offset] == nil {
		c.add(now, id.Partition, id.Offset, hash, &run)
	}
}

// add makes a message known, in the state of a run.
func (c *Core) add(now int64, p uint32, offset int64, hash uint64, r *state.QueueRun) *message {
	m := &message{
		ID: ID{p, offset}, key: hash, deliveries: r.Deliveries, epoch: r.Epoch, until: r.Until,
		settled: r.State == state.QueueWaiting, stored: true,
	}
	a := &c.parts[p]
	a.known[offset] = m
	if k := c.keyOf(m); k != nil && c.Settings.KeyMode == state.KeyOrder {
		k.insert(m)
	}
	switch {
	case r.State == state.QueueLeased && r.Until > now:
		c.count(m, 1)
		c.wait(m, leased)
	case r.Until > now:
		c.wait(m, waiting)
	case r.State == state.QueueLeased && c.exhausted(m):
		c.die(m, reasonExpired, "", nil)
	default:
		c.offer(m)
	}
	return m
}
