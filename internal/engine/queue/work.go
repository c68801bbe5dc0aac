package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sebbroker/seb/internal/engine/base/wake"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// Bounds of a lease.
const (
	LeaseMax      = 1000 // messages
	LeaseWaitMax  = time.Minute
	leaseBytesMax = 4 << 20 // bodies of one answer; the first message is always in it
)

// HeaderPrefix begins the names of headers that Seb writes.
const HeaderPrefix = "seb-"

// HeaderExpire is the header with the time, in ms since 1970, from which on a message is given to no worker.
const HeaderExpire = HeaderPrefix + "expire"

// seed makes hashes of keys; they are in no log.
var seed = maphash.MakeSeed()

func hashOf(key []byte) uint64 {
	if len(key) == 0 {
		return 0
	}
	return max(1, maphash.Bytes(seed, key))
}

// LeaseRequest asks for messages. Zero: one message, no waiting, the visibility of the queue.
type LeaseRequest struct {
	Queue      string
	Max        int
	Wait       time.Duration
	Visibility time.Duration
	By         string // principal
	Groups     bool   // several messages of a key together, in order, if the queue keeps the order of keys
	MaxBytes   int64  // of the answer's keys, values and headers; 0: only the bound of all answers
}

// Leased is a message that a worker has.
type Leased struct {
	ID
	Receipt    string
	Deliveries uint32
	Until      time.Time // end of the lease
	First      time.Time // of its first lease; after a takeover, or a retry with a delay, that of a later one
	Sent       time.Time // timestamp of the record
	Key        []byte    // nil: none
	Value      []byte
	Headers    []record.Header
	lease      uint64
}

// Leases are messages for a worker, whose memory is held until Release.
type Leases struct {
	List []Leased
	held *budget.Reservation
	back func([]Given)
}

// Return gives the messages back, because they did not reach their worker.
func (l *Leases) Return() {
	list := make([]Given, len(l.List))
	for i := range l.List {
		list[i] = Given{ID: l.List[i].ID, lease: l.List[i].lease}
	}
	if len(list) > 0 {
		l.back(list)
	}
}

// Release frees the memory.
func (l *Leases) Release() {
	if l != nil && l.held != nil {
		l.held.Release()
	}
}

// check fills in defaults.
func (r *LeaseRequest) check() error {
	if r.Max == 0 {
		r.Max = 1
	}
	switch {
	case r.Max < 1 || r.Max > LeaseMax:
		return &state.InvalidError{Field: "max", Reason: fmt.Sprintf("%d is not between 1 and %d", r.Max, LeaseMax)}
	case r.Wait < 0 || r.Wait > LeaseWaitMax:
		return &state.InvalidError{Field: "wait", Reason: fmt.Sprintf("%s is not between 0s and %s", r.Wait, LeaseWaitMax)}
	case r.Visibility < 0 || r.Visibility > state.QueueVisibilityMax:
		return &state.InvalidError{Field: "visibility", Reason: fmt.Sprintf("%s is not between 0s and 12h", r.Visibility)}
	}
	return nil
}

// Lease gives messages to a worker, and waits for the first of them. Without any in time the list is
// empty. Errors: state.ErrUnknownTopic, ErrNotQueue, state.ErrNotLeader, ErrInvalid, *LimitError, those of
// a read, and the context's.
func (m *Queues) Lease(ctx context.Context, r LeaseRequest) (*Leases, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	timer := time.NewTimer(r.Wait)
	defer timer.Stop()
	sought := false
	for last := r.Wait == 0; ; {
		l, given, wait, w, err := m.take(ctx, &r, last)
		if err != nil {
			return nil, err
		}
		if len(given) > 0 {
			out, err := m.deliver(ctx, l, given, wait, r.MaxBytes)
			if err != nil || len(out.List) > 0 {
				return out, err
			}
			continue // all of them have expired
		}
		if last && !sought && r.Wait == 0 { // it finds all messages that are stored
			if sought = true; m.readKeys(ctx, l) {
				continue
			}
		}
		if last {
			return &Leases{}, nil
		}
		if last, err = m.await(ctx, l, w, timer); err != nil {
			return nil, err
		}
	}
}

// readKeys waits for the keys of messages that are being read, and reports whether there were any.
func (m *Queues) readKeys(ctx context.Context, l *live) bool {
	m.mu.Lock()
	done := l.seeking
	m.mu.Unlock()
	if done == nil {
		return false
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
	return true
}

// take takes messages, or adds a waiter unless it is the last try.
func (m *Queues) take(ctx context.Context, r *LeaseRequest, last bool) (l *live, given []Given, wait []*Change, w *waiter, err error) {
	if l, err = m.lock(ctx, r.Queue); err != nil {
		return nil, nil, nil, nil, err
	}
	defer m.mu.Unlock()
	now := m.now()
	visibility := r.Visibility
	if visibility == 0 {
		visibility = l.core.Settings.Visibility
	}
	m.look(l, now, true)
	if err = m.inFlight(); err == nil {
		lease := l.core.Lease
		if r.Groups {
			lease = l.core.LeaseGroups
		}
		given, wait, err = lease(now, r.Max, micros(visibility), r.By)
	}
	if limit, full := errors.AsType[*LimitError](err); full && !last && limit != nil {
		err = nil // a settlement makes room
	}
	if m.flush(l); len(given) > 0 {
		m.notify(l)
		m.touch(l) // its timers have changed
	} else if !last && err == nil {
		w = &waiter{wake: wake.New()}
		l.waiters = append(l.waiters, w)
		m.touch(l)
	}
	return l, given, wait, w, err
}

// await waits until a waiter is woken. last: the time is over.
func (m *Queues) await(ctx context.Context, l *live, w *waiter, timer *time.Timer) (last bool, err error) {
	select {
	case <-w.wake:
		return false, nil
	case <-timer.C:
		last = true
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	n := len(l.waiters)
	l.waiters = slices.DeleteFunc(l.waiters, func(x *waiter) bool { return x == w })
	if err != nil && len(l.waiters) == n { // it was woken: another one gets the message
		m.notify(l)
	}
	return last, err
}

// deliver waits until the leases may be given, and reads the messages.
func (m *Queues) deliver(ctx context.Context, l *live, given []Given, wait []*Change, most int64) (*Leases, error) {
	for _, ch := range wait {
		select {
		case <-ch.Stored:
			if ch.Err != nil {
				m.giveBack(l, given)
				return nil, ch.Err
			}
		case <-ctx.Done():
			m.giveBack(l, given)
			return nil, context.Cause(ctx)
		}
	}
	out, rest, expired, err := m.read(ctx, l, given, most)
	out.back = func(list []Given) { m.giveBack(l, list) }
	if err != nil && len(rest) > 0 && ctx.Err() == nil && !errors.Is(err, state.ErrOverBudget) && !errors.Is(err, budget.ErrOver) {
		m.unreadable(l, &rest[0], err)
	}
	m.giveBack(l, rest)
	m.expire(l, expired)
	if err != nil {
		out.Release()
		return nil, err
	}
	m.met.leased.Add(len(out.List))
	l.totals.Leased.Add(int64(len(out.List)))
	return out, nil
}

func (m *Queues) giveBack(l *live, list []Given) {
	if len(list) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	l.core.Return(list, 0)
	m.notify(l)
	m.touch(l) // the rate may allow the next one only later
}

// unreadablePause is how long a message is given to no worker after it could not be read.
const unreadablePause = 10 * time.Second

// unreadable lets workers get other messages than one that cannot be read.
func (m *Queues) unreadable(l *live, g *Given, err error) {
	m.lines.Warn(m.log, l.ref().Name, "a message of a queue cannot be read; others come first", "queue", l.ref().Name, "message", g.ID.String(), "err", err)
	m.mu.Lock()
	defer m.mu.Unlock()
	l.core.Return([]Given{*g}, m.now()+micros(unreadablePause))
}

// expire ends messages whose time is over.
func (m *Queues) expire(l *live, list []Given) {
	if len(list) == 0 {
		return
	}
	m.met.expired.Add(len(list))
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.live[l.ref().ID] != l {
		return // opened again: they expire again
	}
	for i := range list {
		g := &list[i]
		m.b.ReadQueue(l.ref().ID, g.Partition, func(q *state.Queue, _ *state.Partition) {
			_, _ = l.core.Settle(m.now(), &Receipt{g.ID, g.Deliveries, l.core.epoch}, Verdict{Do: Finish}, "", q)
		})
	}
	m.flush(l)
}

// reading reads messages that are given.
type reading struct {
	l       *live
	set     state.QueueSettings
	nonce   record.ID
	now     int64
	left    int64 // bytes that the answer has room for
	full    bool
	out     *Leases
	expired []Given // also those that were trimmed meanwhile
}

// read reads messages of up to most bytes, 0: leaseBytesMax. rest is those that have no room in the answer.
func (m *Queues) read(ctx context.Context, l *live, given []Given, most int64) (out *Leases, rest, expired []Given, err error) {
	if most == 0 || most > leaseBytesMax {
		most = leaseBytesMax
	}
	x := reading{l: l, now: m.now(), left: most, out: &Leases{}}
	known := false
	if x.nonce, known = m.b.Nonce(l.core.epoch); !known {
		return x.out, given, nil, state.ErrNotLeader
	}
	if x.out.held, err = m.b.Budget().Class(budget.Fetch).Reserve(0); err != nil {
		return x.out, given, nil, err
	}
	m.mu.Lock()
	x.set = l.core.Settings
	m.mu.Unlock()
	slices.SortFunc(given, func(a, b Given) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
	})
	for rest = given; len(rest) > 0 && err == nil && !x.full; {
		n := 1
		for n < len(rest) && rest[n].Partition == rest[0].Partition && rest[n].Offset-rest[n-1].Offset <= 16 {
			n++
		}
		some := rest[:n]
		err = m.b.EachRecord(ctx, l.at(some[0].Partition), some[0].Offset, some[n-1].Offset+1, func(r *record.Record) bool {
			some = x.take(r, some)
			return len(some) > 0 && !x.full
		})
		if rest = rest[n-len(some):]; len(some) > 0 {
			break
		}
	}
	switch {
	case err != nil && len(x.out.List) > 0:
		err = nil // the messages that were read
	case err == nil && len(x.out.List)+len(x.expired) == 0:
		err = fmt.Errorf("%w: no message of the queue was read", state.ErrOverBudget)
	}
	return x.out, rest, x.expired, err
}

// take takes a record if it is that of the first message, and returns the messages that are left.
func (x *reading) take(r *record.Record, some []Given) []Given {
	for len(some) > 0 && some[0].Offset < r.Offset {
		x.expired, some = append(x.expired, some[0]), some[1:]
	}
	if len(some) == 0 || r.Offset < some[0].Offset {
		return some
	}
	g := &some[0]
	if expires(&x.set, r) <= x.now {
		x.expired = append(x.expired, *g)
		return some[1:]
	}
	size := int64(sizeOf(r))
	if len(x.out.List) > 0 && (size > x.left || x.out.held.Grow(size) != nil) {
		x.full = true
		return some
	}
	if len(x.out.List) == 0 {
		_ = x.out.held.Grow(size) // one is always given
	}
	x.left -= size
	receipt := Receipt{g.ID, g.Deliveries, x.l.core.epoch}
	c := cloned(r)
	x.out.List = append(x.out.List, Leased{
		ID: g.ID, Receipt: receipt.Text(x.l.ref().ID, x.nonce), Deliveries: g.Deliveries, Until: time.UnixMicro(g.Until), First: time.UnixMicro(g.First),
		Sent: time.UnixMilli(c.Timestamp), Key: c.Key, Value: c.Value, Headers: c.Headers, lease: g.lease,
	})
	return some[1:]
}

// expires is when a message is given to no worker any more, µs.
func expires(s *state.QueueSettings, r *record.Record) int64 {
	for i := range r.Headers {
		if r.Headers[i].Key == HeaderExpire {
			if ms, err := strconv.ParseInt(string(r.Headers[i].Value), 10, 64); err == nil && ms >= 0 && ms < 1<<50 {
				return ms * 1000
			}
		}
	}
	if s.Expire == state.Unlimited || r.Timestamp < 0 || r.Timestamp >= 1<<50 { // of a foreign producer, also none
		return 1 << 62
	}
	return r.Timestamp*1000 + micros(s.Expire)
}

func sizeOf(r *record.Record) int {
	n := 256 + len(r.Key) + len(r.Value)
	for i := range r.Headers {
		n += 48 + len(r.Headers[i].Key) + len(r.Headers[i].Value)
	}
	return n
}

// cloned returns a copy of a record that is only valid for a moment.
func cloned(r *record.Record) record.Record {
	out := *r
	out.Key, out.Value, out.Headers = slices.Clone(r.Key), slices.Clone(r.Value), slices.Clone(r.Headers)
	for i := range out.Headers {
		h := &out.Headers[i]
		h.Key, h.Value = strings.Clone(h.Key), slices.Clone(h.Value) // the key, too, is in the batch's buffer
	}
	return out
}

// Waiting returns how many workers wait for messages of a queue.
func (m *Queues) Waiting(queue string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l, err := m.named(queue); err == nil {
		return len(l.waiters)
	}
	return 0
}
