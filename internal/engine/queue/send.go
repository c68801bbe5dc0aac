package queue

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// DedupBytes bounds the length of a dedup ID.
const DedupBytes = 256

// Message is a message to send.
type Message struct {
	Key, Value []byte // nil Key: none
	Headers    []record.Header
	Delay      time.Duration
	Dedup      string // "": none
	Priority   int    // 0 is served first
	Expire     time.Duration
}

// Sent is the result of a message.
type Sent struct {
	ID        ID
	Duplicate bool // an earlier message with its dedup ID has this ID
	Err       error
}

// sentIDs finds the messages of a queue that must not be sent again. The state has them; here is only
// where, because there may be many.
type sentIDs struct {
	at    map[uint64]place // of those that are stored, by the beginning of their hash
	swept int              // size of at after the last sweep
	under map[record.ID]*sending
}

// place is a message: its offset, and its partition in the low bits.
type place int64

const placeBits = 8

func placeOf(id ID) place { return place(id.Offset<<placeBits | int64(id.Partition)) }

func (p place) id() ID {
	return ID{Partition: uint32(p & (1<<placeBits - 1)), Offset: int64(p >> placeBits)}
}

// sending is a message with a dedup ID on its way to the log.
type sending struct {
	done  chan struct{} // closed when it is stored, or will not be
	until int64         // µs
}

func short(hash record.ID) uint64 { return binary.BigEndian.Uint64(hash[:]) }

// sentOf returns the messages that the log remembers.
func (m *Queues) sentOf(l *live) *sentIDs {
	s := &sentIDs{under: map[record.ID]*sending{}}
	m.sweep(l, s)
	return s
}

// sweep reads the messages that the log remembers again, without those whose time is over: a newer message
// of another partition may have their IDs.
func (m *Queues) sweep(l *live, s *sentIDs) {
	now := m.now()
	s.at = map[uint64]place{}
	for p := range uint32(l.ref().Partitions) {
		m.b.ReadQueue(l.ref().ID, p, func(q *state.Queue, _ *state.Partition) {
			for i := range q.Sent {
				if x := &q.Sent[i]; x.Until > now {
					s.at[short(x.Hash)] = placeOf(ID{p, x.Offset})
				}
			}
		})
	}
	s.swept = len(s.at)
}

// find returns the stored message with a dedup ID, if that still counts.
func (m *Queues) find(l *live, hash record.ID, now int64) (id ID, found bool) {
	p, ok := l.sent.at[short(hash)]
	if !ok {
		return id, false
	}
	id = p.id()
	m.b.ReadQueue(l.ref().ID, id.Partition, func(q *state.Queue, _ *state.Partition) {
		x := q.SentAt(id.Offset)
		found = x != nil && x.Hash == hash && x.Until > now
	})
	return id, found
}

// group is messages that are appended together.
type group struct {
	first int // index of the first message
	recs  []record.Record
	part  uint32
	until int64 // µs; 0: no delay
	hash  record.ID
	plain *broker.Ticket // without delay and dedup ID
	under *sending       // with a hash, unless another message has it
	same  *group         // an earlier one of the request, with its dedup ID

	done chan struct{} // not plain: closed when base and err are set
	base int64
	err  error
}

// isPlain reports whether the queue need not remember anything of the messages.
func (g *group) isPlain() bool { return g.until == 0 && g.hash.IsZero() }

// terms are those of the messages of a request.
type terms struct {
	state.QueueSettings
	priorities int
	full       error // of messages that the state of queues must remember; nil: there is room
	encode     record.EncodeOptions
	epoch      uint32
	now        int64
	// paired: all messages go with changes of the queue. The log makes slots of those after plain ones that
	// came later, and the messages of a key must keep their order.
	paired bool
}

// alone reports whether a message may be too large, so that others must not be appended with it.
func (t *terms) alone(r *record.Record) bool {
	return sizeOf(r) > min(t.encode.BatchBytes, record.BatchTarget)/2
}

// termsOf returns a queue, and the terms of messages that are sent to it now.
func (m *Queues) termsOf(ctx context.Context, queue string) (*live, *terms, error) {
	l, err := m.lock(ctx, queue)
	if err != nil {
		return nil, nil, err
	}
	t := &terms{QueueSettings: l.core.Settings, priorities: l.ref().Partitions, epoch: m.epoch, now: m.now()}
	m.mu.Unlock()
	_, of, err := m.b.Resolved(queue)
	if err != nil {
		return nil, nil, err
	}
	t.encode = record.EncodeOptions{Compression: of.Codec(), BatchBytes: of.MaxBatchBytes}
	t.full = m.full()
	return l, t, nil
}

// Send sends messages, and waits until they are stored. Each has its own result. The error is that of the
// queue, as of Lease.
func (m *Queues) Send(ctx context.Context, queue string, list []Message) ([]Sent, error) {
	l, t, err := m.termsOf(ctx, queue)
	if err != nil {
		return nil, err
	}
	results := make([]Sent, len(list))
	var groups []*group
	for i := range list {
		x := &list[i]
		if results[i].Err = x.check(t); results[i].Err == nil {
			groups = x.group(groups, i, t)
		}
	}
	t.paired = t.KeyMode == state.KeyOrder && slices.ContainsFunc(groups, func(g *group) bool { return !g.isPlain() })
	first := map[record.ID]*group{}
	for _, g := range groups {
		if g.same = first[g.hash]; g.same == nil {
			m.send(ctx, l, t, g, results)
		}
		if !g.hash.IsZero() && g.same == nil {
			first[g.hash] = g
		}
	}
	for _, g := range groups {
		if m.sent(ctx, g, results); g.same != nil {
			r := results[g.same.first]
			r.Duplicate = r.Err == nil
			results[g.first] = r
		}
	}
	return results, nil
}

// full returns the error of a message that the state of queues must remember, or nil.
func (m *Queues) full() error {
	if held, most := m.b.StateMemory(); most > 0 && held.Queues > most/4*3 {
		return &FullError{Held: held.Queues, Max: most / 4 * 3}
	}
	return nil
}

// FullError: messages that are delayed, leased, tried again or remembered by dedup IDs, and schedules, take the
// memory that queues may have. It is broker.ErrQueueFull and state.ErrOverBudget.
type FullError struct{ Held, Max int64 } // bytes

func (e *FullError) Error() string {
	return fmt.Sprintf("the queues are full: delayed, leased and retried messages, dedup IDs and schedules take %d bytes of %d: wait, or start with a larger --memory-limit", e.Held, e.Max)
}

// Is reports whether t is broker.ErrQueueFull or state.ErrOverBudget.
func (e *FullError) Is(t error) bool { return t == broker.ErrQueueFull || t == state.ErrOverBudget }

// check checks a message against its queue.
func (x *Message) check(t *terms) error {
	invalid := func(field, format string, args ...any) error {
		return &state.InvalidError{Field: field, Reason: fmt.Sprintf(format, args...)}
	}
	switch {
	case x.Delay < 0 || x.Delay > state.QueueDelayMax:
		return invalid("delay", "%s is not between 0s and 365d", x.Delay)
	case x.Delay > 0 && t.KeyMode == state.KeyOrder:
		return invalid("delay", "%s: the queue keeps the order of keys, so only its setting delay delays messages", x.Delay)
	case x.Expire < 0:
		return invalid("expire", "%s is less than 0s", x.Expire)
	case len(x.Dedup) > DedupBytes:
		return invalid("dedup", "%d bytes, limit %d", len(x.Dedup), DedupBytes)
	case x.Priority < 0 || x.Priority >= t.priorities:
		return invalid("priority", "%d is not between 0 and %d", x.Priority, t.priorities-1)
	}
	for i := range x.Headers {
		if strings.HasPrefix(x.Headers[i].Key, HeaderPrefix) {
			return invalid("headers", "%q begins with %s, as those of Seb do", x.Headers[i].Key, HeaderPrefix)
		}
	}
	if x.Delay > 0 || t.Delay > 0 || x.Dedup != "" {
		return t.full
	}
	return nil
}

// group adds a message to the groups: to the last one, if nothing distinguishes them.
func (x *Message) group(groups []*group, i int, t *terms) []*group {
	r := record.Record{Timestamp: t.now / 1000, Key: x.Key, Value: x.Value, Headers: x.Headers}
	if x.Expire > 0 {
		at := time.UnixMicro(t.now).Add(x.Expire).UnixMilli()
		r.Headers = append(r.Headers[:len(r.Headers):len(r.Headers)], record.Header{Key: HeaderExpire, Value: fmt.Append(nil, at)})
	}
	g := &group{first: i, part: uint32(x.Priority)}
	if d := max(x.Delay, t.Delay); d > 0 {
		g.until = t.now + micros(d)
	}
	if x.Dedup != "" && t.DedupWindow > 0 {
		sum := sha256.Sum256([]byte(x.Dedup))
		copy(g.hash[:], sum[:])
	}
	if n := len(groups); n > 0 && g.hash.IsZero() && !t.alone(&r) {
		if l := groups[n-1]; l.hash.IsZero() && !t.alone(&l.recs[0]) && l.part == g.part && l.until == g.until && l.first+len(l.recs) == i {
			l.recs = append(l.recs, r)
			return groups
		}
	}
	g.recs = []record.Record{r}
	return append(groups, g)
}

// send proposes a group.
func (m *Queues) send(ctx context.Context, l *live, t *terms, g *group, results []Sent) {
	fail := func(err error) {
		for i := range g.recs {
			results[g.first+i].Err = err
		}
	}
	data, sum, err := record.Append(nil, g.recs, t.encode)
	if err != nil {
		fail(err)
		return
	}
	a := broker.Append{Topic: l.ref().Name, Partition: int32(g.part), Data: data, Summary: sum, ExpectedOffset: -1, Check: broker.ClientOf(ctx).Check}
	if g.isPlain() && !t.paired {
		g.plain = m.b.Submit(ctx, []broker.Append{a})
		return
	}
	if !g.hash.IsZero() {
		id, known, err := m.remember(ctx, l, &t.QueueSettings, g)
		switch {
		case err != nil:
			fail(err)
			return
		case known:
			m.met.duplicates.Inc()
			results[g.first] = Sent{ID: id, Duplicate: true}
			return
		}
	}
	u := &broker.QueueUpdate{Epoch: t.epoch, Topic: l.ref().ID, Partition: g.part, Change: &state.QueueChange{}, Placed: true}
	if g.until != 0 {
		u.Change.Runs = []state.QueueRun{{Span: sum.Span, State: state.QueueWaiting, Until: g.until}}
	}
	if g.under != nil {
		u.Change.Sent = &state.QueueSent{Hash: g.hash, Until: g.under.until}
	}
	m.propose(ctx, l, g, u, &a)
}

// propose proposes a group with its change. What becomes of it is noted also if no caller waits for it any
// more, because its dedup ID and its delay count then, too.
func (m *Queues) propose(ctx context.Context, l *live, g *group, u *broker.QueueUpdate, a *broker.Append) {
	m.mu.Lock()
	defer m.mu.Unlock()
	g.done = make(chan struct{})
	t, err := (*log.Ticket)(nil), state.ErrNotLeader
	if m.epoch == u.Epoch && m.ctx.Err() == nil {
		t, err = m.b.UpdateQueueWith(ctx, u, a)
	}
	if err != nil {
		m.proposed(l, g, 0, err)
		return
	}
	m.busy.Go(func() {
		r := t.Wait(context.Background())[0]
		m.mu.Lock()
		defer m.mu.Unlock()
		m.proposed(l, g, r.Base, r.Err())
	})
}

// proposed notes what has become of a group.
func (m *Queues) proposed(l *live, g *group, base int64, err error) {
	g.base, g.err = base, err
	close(g.done)
	if g.under != nil {
		delete(l.sent.under, g.hash)
		close(g.under.done)
	}
	if err != nil {
		return
	}
	if g.under != nil {
		if l.sent.at[short(g.hash)] = placeOf(ID{g.part, base}); len(l.sent.at) > 2*l.sent.swept+1024 {
			m.sweep(l, l.sent)
		}
	}
	if now := m.live[l.ref().ID]; now != nil && g.until != 0 {
		now.core.DueAgain(g.part, g.until)
		m.touch(now)
	}
}

// remember notes a dedup ID, unless a message has it.
func (m *Queues) remember(ctx context.Context, l *live, s *state.QueueSettings, g *group) (id ID, known bool, err error) {
	for {
		m.mu.Lock()
		now := m.now()
		under := l.sent.under[g.hash]
		if under == nil {
			if id, known = m.find(l, g.hash, now); !known {
				g.under = &sending{done: make(chan struct{}), until: now + micros(s.DedupWindow)}
				l.sent.under[g.hash] = g.under
			}
			m.mu.Unlock()
			return id, known, nil
		}
		m.mu.Unlock()
		select {
		case <-under.done: // look again
		case <-ctx.Done():
			return id, false, context.Cause(ctx)
		}
	}
}

// sent waits for the result of a group.
func (m *Queues) sent(ctx context.Context, g *group, results []Sent) {
	switch {
	case g.plain != nil:
		r := g.plain.Wait(ctx)[0]
		g.base, g.err = r.Base, r.Err
	case g.done != nil:
		select {
		case <-g.done:
		case <-ctx.Done():
			for i := range g.recs {
				results[g.first+i].Err = fmt.Errorf("%w: %w", state.ErrOutcomeUnknown, context.Cause(ctx))
			}
			return
		}
	default:
		return
	}
	if g.err == nil {
		m.met.sent.Add(len(g.recs))
	}
	for i := range g.recs {
		results[g.first+i] = Sent{ID: ID{g.part, g.base + int64(i)}, Err: g.err}
	}
}
