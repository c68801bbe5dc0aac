package queue

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// Headers of a dead letter.
const (
	HeaderQueue      = HeaderPrefix + "queue"      // from which it comes
	HeaderMessage    = HeaderPrefix + "message"    // its ID there
	HeaderDeliveries = HeaderPrefix + "deliveries" // so many
	HeaderReason     = HeaderPrefix + "reason"     // of the last failure
	HeaderTries      = HeaderPrefix + "tries"      // those that are remembered, as JSON
)

// moves bounds the memory of messages that are moved to other queues: each has buryBytes of them, or one message.
// All together may take 1/movesShare of the memory limit.
type moves chan struct{}

const movesShare = 16

func (x moves) enter(ctx context.Context) error {
	select {
	case x <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (x moves) leave() { <-x }

const (
	buryMax    = 100     // dead letters of a slot
	buryBytes  = 1 << 20 // of their bodies; one may be larger
	buryPauses = 7       // doublings of a second after failures
)

// Try is a failed try of a message, as in the header seb-tries.
type Try struct {
	Time   time.Time `json:"time"`
	By     string    `json:"by,omitempty"`
	Reason string    `json:"reason,omitempty"`
}

// bury moves dying messages to the dead-letter queue. It returns when a failed move is tried again.
func (m *Queues) bury(l *live, now int64) (next int64) {
	next = math.MaxInt64
	for p := range l.burying {
		if l.burying[p] {
			continue
		}
		if now < l.buryAt[p] {
			next = min(next, l.buryAt[p])
			continue
		}
		if !l.core.buries() { // no more
			l.core.Spare(uint32(p), ErrNoDeadLetter)
		}
		list := l.core.Dying(uint32(p), buryMax)
		if len(list) == 0 {
			continue
		}
		l.burying[p] = true
		l.pending++
		ctx, c, u := m.ctx, l.core, m.update(l, uint32(p))
		to := c.Settings.DeadLetter
		m.busy.Go(func() {
			moved, failed, err := m.move(ctx, l, u, to, list)
			m.mu.Lock()
			defer m.mu.Unlock()
			m.touch(l)
			m.buried(l, c, p, moved, failed, err)
		})
	}
	return next
}

func (m *Queues) buried(l *live, c *Core, p int, moved, failed []ID, err error) {
	l.burying[p] = false
	defer m.settled(l)
	m.met.dead.Add(len(moved))
	l.totals.Dead.Add(int64(len(moved)))
	c.Buried(uint32(p), moved, failed)
	m.notify(l)
	if err == nil {
		l.failures[p] = 0
		return
	}
	if m.ctx == nil || m.ctx.Err() != nil {
		return
	}
	m.met.failed.Inc()
	m.lines.Warn(m.log, l.ref().Name, "messages cannot be moved to the dead-letter queue; trying again",
		"queue", l.ref().Name, "dead_letter", c.Settings.DeadLetter, "err", err)
	if len(moved) == 0 {
		l.buryAt[p] = m.now() + micros(time.Second<<min(l.failures[p], buryPauses))
		l.failures[p]++
	}
}

// move moves the first messages of a list, with the record that they are done: in one slot. It returns
// which, and those whose move has failed. So a message that cannot be read holds up no others.
func (m *Queues) move(ctx context.Context, l *live, u *broker.QueueUpdate, to string, list []Dead) (moved, failed []ID, err error) {
	if err := m.moves.enter(ctx); err != nil {
		return nil, nil, err
	}
	defer m.moves.leave()
	target, ok := m.b.TopicNamed(to)
	if !ok {
		return nil, nil, fmt.Errorf("dead-letter queue %q: %w", to, state.ErrUnknownTopic)
	}
	var recs []record.Record
	bytes := 0
	for _, d := range list {
		r, e := m.readOne(ctx, l.at(d.Partition), d.ID)
		if e != nil {
			failed, err = append(failed, d.ID), e
			continue
		}
		m.letter(l, &d, &r)
		if bytes += sizeOf(&r); bytes > buryBytes && len(recs) > 0 {
			break
		}
		recs, moved = append(recs, r), append(moved, d.ID)
	}
	for len(moved) > 0 {
		u.Change = &state.QueueChange{}
		for _, id := range moved {
			u.Change.Runs = append(u.Change.Runs, state.QueueRun{Base: id.Offset, Span: 1, State: state.QueueDone})
		}
		slices.SortFunc(u.Change.Runs, func(a, b state.QueueRun) int { return cmp.Compare(a.Base, b.Base) })
		e := m.append(ctx, u, &target, min(u.Partition, uint32(target.Partitions-1)), recs)
		switch {
		case e == nil:
			return moved, failed, err
		case !errors.Is(e, broker.ErrTooLarge):
			return nil, failed, e
		case len(moved) == 1:
			return nil, append(failed, moved[0]), e
		}
		moved, recs = moved[:1], recs[:1] // alone it may be small enough
	}
	return nil, failed, err
}

// letter makes a dead letter of a message.
func (m *Queues) letter(l *live, d *Dead, r *record.Record) {
	var tries []Try
	m.b.ReadQueue(l.ref().ID, d.Partition, func(q *state.Queue, _ *state.Partition) {
		for _, t := range q.TriesOf(d.Offset) {
			tries = append(tries, Try{time.UnixMicro(t.Time).UTC(), t.By, t.Reason})
		}
	})
	tries = append(tries, Try{time.UnixMicro(m.now()).UTC(), d.By, d.Reason})
	text, _ := json.Marshal(tries) // times and strings: cannot fail
	r.Headers = slices.DeleteFunc(r.Headers, func(h record.Header) bool { return h.Key == HeaderExpire })
	for _, h := range []record.Header{
		{Key: HeaderQueue, Value: []byte(l.ref().Name)},
		{Key: HeaderMessage, Value: []byte(d.ID.String())},
		{Key: HeaderDeliveries, Value: strconv.AppendUint(nil, uint64(d.Deliveries), 10)},
		{Key: HeaderReason, Value: []byte(d.Reason)},
		{Key: HeaderTries, Value: text},
	} {
		r.Headers = append(slices.DeleteFunc(r.Headers, func(x record.Header) bool { return x.Key == h.Key }), h)
	}
}

// append appends records to a topic together with a change of a queue.
func (m *Queues) append(ctx context.Context, u *broker.QueueUpdate, target *broker.TopicRef, partition uint32, recs []record.Record) error {
	data, sum, err := record.Append(nil, recs, record.EncodeOptions{})
	if err != nil {
		return err
	}
	t, err := m.b.UpdateQueueWith(ctx, u, &broker.Append{Topic: target.Name, Partition: int32(partition), Data: data, Summary: sum, ExpectedOffset: -1})
	if err != nil {
		return err
	}
	return t.Wait(ctx)[0].Err()
}

// errNoMessage: the log has no record of a message.
var errNoMessage = errors.New("the log has no record of a message")

// readOne reads a message. Errors: errNoMessage, and those of a read.
func (m *Queues) readOne(ctx context.Context, at broker.Lookup, id ID) (out record.Record, err error) {
	found := false
	err = m.b.EachRecord(ctx, at, id.Offset, id.Offset+1, func(r *record.Record) bool {
		if r.Offset < id.Offset {
			return true
		}
		out, found = cloned(r), r.Offset == id.Offset
		return false
	})
	if err == nil && !found {
		return out, fmt.Errorf("%w: %s", errNoMessage, id)
	}
	return out, err
}

// String returns the ID as clients see it.
func (id ID) String() string {
	return strconv.FormatUint(uint64(id.Partition), 10) + "-" + strconv.FormatInt(id.Offset, 10)
}
