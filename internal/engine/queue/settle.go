package queue

import (
	"cmp"
	"slices"

	"github.com/sebbroker/seb/internal/engine/log/state"
)

const reasonExpired = "the lease is over"

// Change is what happens to messages of a partition with one record of the log.
type Change struct {
	Partition uint32
	Err       error         // why it is not stored, when Stored is closed
	Stored    chan struct{} // closed when it is stored, or will not be

	taken bool
	items []item
	tries []state.QueueTry
}

type item struct {
	m       *message
	run     state.QueueRun
	was     step
	extends bool
	until   int64 // extends: the end of the lease before
}

// triesMax bounds the tries of a change, which have reasons: all changes of a slot are read at once.
const triesMax = 1000

// NewChange returns an empty change, for Claim.
func NewChange(partition uint32) *Change {
	return &Change{Partition: partition, Stored: make(chan struct{})}
}

func (ch *Change) add(m *message, run state.QueueRun) {
	ch.items = append(ch.items, item{m: m, run: run, was: m.step})
}

func (ch *Change) try(m *message, by, reason string) {
	if len(ch.tries) < triesMax {
		ch.tries = append(ch.tries, state.QueueTry{Offset: m.Offset, By: by, Reason: reason})
	}
}

// Len is the number of messages.
func (ch *Change) Len() int { return len(ch.items) }

// record returns the change as the log stores it. The last change of a message counts.
func (ch *Change) record() *state.QueueChange {
	last := make(map[int64]int, len(ch.items))
	for i := range ch.items {
		last[ch.items[i].run.Base] = i
	}
	q := &state.QueueChange{Tries: ch.tries}
	for i := range ch.items {
		if last[ch.items[i].run.Base] == i {
			q.Runs = append(q.Runs, ch.items[i].run)
		}
	}
	slices.SortFunc(q.Runs, func(a, b state.QueueRun) int { return cmp.Compare(a.Base, b.Base) })
	q.Runs = joined(q.Runs)
	return q
}

// joined makes one run of those that follow each other in the same state.
func joined(runs []state.QueueRun) []state.QueueRun {
	kept := runs[:0]
	for _, r := range runs {
		if n := len(kept); n > 0 {
			if l := &kept[n-1]; r.Follows(l) {
				l.Span += r.Span
				continue
			}
		}
		kept = append(kept, r)
	}
	return kept
}

// change returns the change of a partition that the next record will have.
func (c *Core) change(p uint32) *Change {
	a := &c.parts[p]
	if a.open == nil {
		a.open = NewChange(p)
	}
	return a.open
}

// Open returns the change of a partition that waits for a record; nil: none.
func (c *Core) Open(p uint32) *Change { return c.parts[p].open }

// Take closes a change, which gets no more messages, and returns what the log stores.
func (c *Core) Take(ch *Change) *state.QueueChange {
	if a := &c.parts[ch.Partition]; a.open == ch {
		a.open = nil
	}
	ch.taken = true
	return ch.record()
}

// Riders returns the leases of a partition that no record has; nil: none.
func (c *Core) Riders(p uint32) *state.QueueChange {
	a := &c.parts[p]
	if len(a.rides) == 0 {
		return nil
	}
	ch := NewChange(p)
	for _, m := range a.rides {
		if m.rides = false; m.step == leased && !m.stored && a.known[m.Offset] == m {
			m.stored = true
			ch.add(m, m.asLeased())
		}
	}
	a.rides = nil
	if len(ch.items) == 0 {
		return nil
	}
	return ch.record()
}

// asLeased is the state of a message that a worker has.
func (m *message) asLeased() state.QueueRun {
	return state.QueueRun{Base: m.Offset, Span: 1, State: state.QueueLeased, Until: m.until, Deliveries: m.deliveries, Epoch: m.epoch}
}

// Leases returns all leases of a partition that workers have not settled, also those that are over; nil: none.
// No change may be on its way. The slot with some of the Riders may have been refused.
func (c *Core) Leases(p uint32) *state.QueueChange {
	ch := NewChange(p)
	for _, m := range c.parts[p].known { //tidy:unordered a record is in order
		if m.deliveries > 0 && !m.settled {
			ch.add(m, m.asLeased())
		}
	}
	if len(ch.items) == 0 {
		return nil
	}
	return ch.record()
}

// Done ends a change: it is stored, or it is in no slot because of an error.
func (c *Core) Done(ch *Change, now int64, err error) {
	for i := range ch.items {
		it := &ch.items[i]
		if err != nil {
			c.refuse(it, now)
			continue
		}
		c.stored(it, now)
	}
	ch.Err = err
	close(ch.Stored)
}

// stored applies a stored change to a message.
func (c *Core) stored(it *item, now int64) {
	m := it.m
	if it.run.State == state.QueueLeased || m.step != changing {
		return
	}
	if m.until = it.run.Until; it.run.State == state.QueueDone {
		c.forget(m)
		return
	}
	m.settled = true
	switch {
	case m.until <= now:
		c.offer(m)
	case c.Settings.KeyMode == state.KeyOrder: // it stays the first of its key
		c.wait(m, waiting)
	default: // the log knows it
		c.forget(m)
		c.DueAgain(m.Partition, m.until)
	}
}

// refuse gives up a change of a message.
func (c *Core) refuse(it *item, now int64) {
	m := it.m
	switch {
	case it.extends:
		if m.step == leased && m.until == it.run.Until && m.deliveries == it.run.Deliveries { // the worker has it as before
			m.until = it.until
			c.ride(m)
			c.wait(m, leased)
			c.Tick(now)
		}
	case it.run.State == state.QueueLeased && m.step == leased && m.deliveries == it.run.Deliveries:
		m.timer, m.until = 0, now
		m.deliveries--
		c.count(m, -1)
		c.offer(m)
	case it.run.State == state.QueueLeased || m.step != changing:
	case it.was == leased: // the worker still has it
		c.count(m, 1)
		c.wait(m, leased)
		c.Tick(now)
	case m.until > now:
		c.wait(m, waiting)
	default:
		c.offer(m)
	}
}

// Do is what a worker says about a message.
type Do uint8

// The verdicts.
const (
	Finish Do = iota + 1 // it is done
	Retry                // it comes again, after Delay or by backoff
	Kill                 // it goes to the dead-letter queue
	Extend               // the worker needs it for Delay from now on
)

// Verdict is what a worker says about a message that it has.
type Verdict struct {
	Do     Do
	Delay  int64 // µs; negative: by backoff
	Reason string
	InTime bool  // not after the end of a lease of this leader
	Full   error // why the message cannot wait for another try; it still can get a dead letter
}

// Settle applies the verdict of a worker. q is the committed state of the message's partition. It returns
// the change that must be stored before the answer; nil: at once. Errors: ErrStale, ErrDone, ErrNoDeadLetter, v.Full.
func (c *Core) Settle(now int64, r *Receipt, v Verdict, by string, q *state.Queue) (*Change, error) {
	c.Tick(now)
	if int(r.Partition) >= len(c.parts) {
		return nil, ErrStale
	}
	m := c.parts[r.Partition].known[r.Offset]
	if m == nil {
		if keyed(&c.Settings) && c.recalls(now, r, q).State != 0 {
			return nil, ErrUnread
		}
		if m = c.recall(now, r, q); m == nil {
			if q.Of(r.Offset).State == state.QueueDone {
				return nil, ErrDone
			}
			return nil, ErrStale
		}
	}
	if m.deliveries == 0 && r.Delivery == 1 && r.Epoch < c.epoch && (m.step == ready || m.step == parked) {
		m.deliveries, m.epoch, m.settled = 1, r.Epoch, false // a lease that was not stored, of an earlier leader
	}
	if m.step == changing || m.step == dying || m.settled || m.deliveries != r.Delivery || m.epoch != r.Epoch {
		return nil, ErrStale
	}
	switch {
	case v.InTime && m.step != leased && m.epoch == c.epoch:
		return nil, ErrStale
	case v.Do == Extend:
		return c.extend(m, now, v.Delay), nil
	case v.Do == Kill && !c.buries():
		return nil, ErrNoDeadLetter
	case v.Do == Retry && v.Full != nil && !c.exhausted(m):
		return nil, v.Full
	}
	if m.timer = 0; m.step == leased {
		c.count(m, -1)
	}
	m.by = by
	switch {
	case v.Do == Kill, v.Do == Retry && c.exhausted(m):
		ch := NewChange(r.Partition)
		c.die(m, v.Reason, by, ch)
		return ch, nil
	case v.Do == Retry:
		if v.Delay < 0 {
			v.Delay = int64(float64(micros(c.Settings.Backoff.After(m.deliveries))) * (0.8 + 0.4*c.roll()))
		}
		ch := c.change(r.Partition)
		ch.try(m, by, v.Reason)
		c.alter(ch, m, state.QueueRun{State: state.QueueWaiting, Until: now + v.Delay, Deliveries: m.deliveries})
		return ch, nil
	}
	ch := c.change(r.Partition)
	c.alter(ch, m, state.QueueRun{State: state.QueueDone})
	return ch, nil
}

// recall makes a message known whose lease is of an earlier epoch, as its receipt says; nil if the log
// contradicts. A lease that was not stored counts until the message is given again.
func (c *Core) recall(now int64, r *Receipt, q *state.Queue) *message {
	a := &c.parts[r.Partition]
	run := c.recalls(now, r, q)
	if run.State == 0 {
		return nil
	}
	m := &message{ID: r.ID, deliveries: run.Deliveries, epoch: run.Epoch, until: run.Until, stored: true}
	a.known[r.Offset] = m
	if run.Until > now {
		c.count(m, 1)
		c.wait(m, leased)
	} else {
		c.offer(m)
	}
	return m
}

// recalls returns the lease of a receipt if the log knows it, or knows that the message was not given
// to a worker since; otherwise State is 0.
func (c *Core) recalls(now int64, r *Receipt, q *state.Queue) state.QueueRun {
	run := q.Of(r.Offset)
	first := r.Delivery == 1 && r.Epoch < c.epoch && r.Offset < c.parts[r.Partition].next
	switch {
	case first && run.State == 0, first && run.State == state.QueueWaiting && run.Deliveries == 0 && run.Until <= now:
		return state.QueueRun{State: state.QueueLeased, Until: now, Deliveries: 1, Epoch: r.Epoch}
	case run.State == state.QueueLeased && run.Deliveries == r.Delivery && run.Epoch == r.Epoch:
		return run
	}
	return state.QueueRun{}
}

// alter lets a message change its state with a record.
func (c *Core) alter(ch *Change, m *message, run state.QueueRun) {
	run.Base, run.Span = m.Offset, 1
	ch.add(m, run)
	m.step = changing
}

// extend gives a worker more time. More than the visibility of the queue is stored before the answer,
// and less with the next slot.
func (c *Core) extend(m *message, now, delay int64) *Change {
	if m.step != leased { // its time was over, and no worker has it
		c.count(m, 1)
	}
	before := m.until
	m.until = now + delay
	c.wait(m, leased)
	if delay <= micros(c.Settings.Visibility) {
		c.ride(m)
		return nil
	}
	m.stored = true
	ch := c.change(m.Partition)
	ch.add(m, m.asLeased())
	it := &ch.items[len(ch.items)-1]
	it.extends, it.until = true, before
	return ch
}

// Claim ends a message that no worker has with a change of the caller, who stores it. Errors: ErrLeased,
// ErrUnknownMessage, ErrUnread.
func (c *Core) Claim(now int64, id ID, q *state.Queue, ch *Change) error {
	c.Tick(now)
	if int(id.Partition) >= len(c.parts) || id.Offset < 0 || id.Offset >= c.parts[id.Partition].next {
		return ErrUnknownMessage
	}
	a := &c.parts[id.Partition]
	m := a.known[id.Offset]
	if m == nil {
		run := q.Of(id.Offset)
		switch {
		case run.State == state.QueueDone, run.State == state.QueueUncommitted:
			return ErrUnknownMessage
		case run.State == state.QueueLeased && run.Until > now:
			return ErrLeased
		case keyed(&c.Settings):
			return ErrUnread
		}
		m = &message{ID: id, step: waiting, until: run.Until, deliveries: run.Deliveries, epoch: run.Epoch, settled: true, stored: true}
		a.known[id.Offset] = m
	}
	switch m.step {
	case leased, changing, dying:
		return ErrLeased
	}
	m.timer = 0
	c.alter(ch, m, state.QueueRun{State: state.QueueDone})
	return nil
}

// death is a message on its way to the dead-letter queue.
type death struct {
	m      *message
	reason string
	by     string
	change *Change // of a worker who waits; nil: none
}

// buries reports whether the queue has a dead-letter queue.
func (c *Core) buries() bool {
	return c.Settings.DeadLetter != "" && c.Settings.DeadLetter != state.NoDeadLetter
}

// die lets a message go to the dead-letter queue.
func (c *Core) die(m *message, reason, by string, ch *Change) {
	m.step, m.timer = dying, 0
	a := &c.parts[m.Partition]
	a.dying = append(a.dying, &death{m, reason, by, ch})
}

// Dead is a message for the dead-letter queue.
type Dead struct {
	ID
	Deliveries uint32
	Reason, By string
}

// Dying returns up to most messages of a partition for the dead-letter queue. Buried removes them.
func (c *Core) Dying(p uint32, most int) (list []Dead) {
	for _, d := range c.parts[p].dying[:min(most, len(c.parts[p].dying))] {
		list = append(list, Dead{d.m.ID, d.m.deliveries, d.reason, d.by})
	}
	return list
}

// Buried notes that some of the dying messages of a partition are stored as dead letters and done, in one
// slot. Those that failed come after all others.
func (c *Core) Buried(p uint32, moved, failed []ID) {
	a := &c.parts[p]
	list := a.dying
	a.dying = nil
	var last []*death
	for _, d := range list {
		switch {
		case slices.Contains(moved, d.m.ID):
			c.forget(d.m)
			d.answer(nil)
		case slices.Contains(failed, d.m.ID):
			last = append(last, d)
		default:
			a.dying = append(a.dying, d)
		}
	}
	a.dying = append(a.dying, last...)
}

// Spare gives the dying messages of a partition to workers again.
func (c *Core) Spare(p uint32, why error) {
	a := &c.parts[p]
	list := a.dying
	a.dying = nil
	for _, d := range list {
		d.answer(why)
		c.offer(d.m)
	}
}

// answer answers the worker who waits.
func (d *death) answer(err error) {
	if d.change != nil {
		d.change.Err = err
		close(d.change.Stored)
		d.change = nil
	}
}

// End answers the workers that wait for changes which are not on their way to the log, and those whose
// messages are dying. The core is used no more.
func (c *Core) End(p uint32, now int64, proposed *Change, why error) {
	a := &c.parts[p]
	if ch := a.open; ch != nil && ch != proposed {
		c.Take(ch)
		c.Done(ch, now, why)
	}
	for _, d := range a.dying {
		d.answer(why)
	}
}
