package queue

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// RedriveRequest moves messages of a queue, mostly a dead-letter queue, to another one.
type RedriveRequest struct {
	Queue  string
	To     string // "": the queue from which each letter comes
	After  *ID    // begins after this message
	Max    int    // to move with this request; 0: redriveMax
	Reason string // only letters with this text in their reason
	Text   string // only messages with this text in their body
	DryRun bool
	// Allow returns why the client may not send to a queue, or nil.
	Allow func(queue string) error
}

// Redriven is what a request has moved.
type Redriven struct {
	Moved   int
	Skipped int // did not match, or a worker has them
	Next    *ID // continues; nil: these were all
}

const (
	redriveMax  = 1000
	redriveSpan = 20_000 // messages that one request looks at
)

// Redrive appends messages to their queue and ends them in this one, each in one slot, so none is there
// twice. Errors: as of Lease, ErrInvalid, and those of an append to the target.
func (m *Queues) Redrive(ctx context.Context, r RedriveRequest) (out Redriven, err error) {
	if r.Max == 0 {
		r.Max = redriveMax
	}
	if r.Max < 1 || r.Max > redriveMax {
		return out, &state.InvalidError{Field: "max", Reason: fmt.Sprintf("%d is not between 1 and %d", r.Max, redriveMax)}
	}
	l, err := m.lock(ctx, r.Queue)
	if err != nil {
		return out, err
	}
	topic := l.ref()
	m.mu.Unlock()
	if r.To != "" {
		if _, err := m.target(l, &r, r.To); err != nil {
			return out, err
		}
	}
	if err := m.auditRedrive(ctx, &r); err != nil {
		return out, err
	}
	at := ID{0, -1}
	if r.After != nil {
		at = *r.After
	}
	looked := 0
	for ; int(at.Partition) < topic.Partitions; at = (ID{at.Partition + 1, -1}) {
		for {
			ids := m.left(topic, at, min(buryMax, r.Max-out.Moved))
			if len(ids) == 0 {
				break
			}
			n, last, err := m.redrive(ctx, l, &r, ids)
			out.Moved += n
			out.Skipped += last - n
			if err != nil {
				return out, err
			}
			at = ids[last-1]
			if looked += last; out.Moved >= r.Max || looked >= redriveSpan {
				next := at
				out.Next = &next
				return out, nil
			}
		}
	}
	return out, nil
}

// auditRedrive stores that a client moves messages, before it does.
func (m *Queues) auditRedrive(ctx context.Context, r *RedriveRequest) error {
	if r.DryRun {
		return nil
	}
	details := []string{"max", strconv.Itoa(r.Max)}
	for _, d := range []struct{ name, value string }{{"to", r.To}, {"reason", r.Reason}, {"text", r.Text}} {
		if d.value != "" {
			details = append(details, d.name, fmt.Sprintf("%.256s", d.value))
		}
	}
	if r.After != nil {
		details = append(details, "after", r.After.String())
	}
	return m.b.AuditQueue(ctx, "queue.redrive", r.Queue, details...)
}

// left returns messages after another one that are not done.
func (m *Queues) left(topic *broker.TopicRef, after ID, most int) (ids []ID) {
	m.b.ReadQueue(topic.ID, after.Partition, func(q *state.Queue, p *state.Partition) {
		for r := range q.Left(max(min(after.Offset, p.Next)+1, p.Start), p.Next) {
			for at := r.Base; at < r.End() && len(ids) < most; at++ {
				ids = append(ids, ID{after.Partition, at})
			}
			if len(ids) >= most {
				return
			}
		}
	})
	return ids
}

// redrive moves the messages of one partition that match, up to their target's change. last is how many it
// looked at.
func (m *Queues) redrive(ctx context.Context, l *live, r *RedriveRequest, ids []ID) (moved, last int, err error) {
	if err := m.moves.enter(ctx); err != nil {
		return 0, 0, err
	}
	defer m.moves.leave()
	var recs []record.Record
	var which []ID
	target, size := "", 0
	for i, id := range ids {
		rec, err := m.readOne(ctx, l.at(id.Partition), id)
		if err != nil {
			return moved, max(1, i), err
		}
		to := r.To
		if to == "" {
			to = header(&rec, HeaderQueue)
		}
		if to == "" {
			return moved, max(1, i), &state.InvalidError{Field: "to", Reason: fmt.Sprintf("message %s does not say from which queue it comes: name the target", id)}
		}
		if r.Reason != "" && !strings.Contains(header(&rec, HeaderReason), r.Reason) || r.Text != "" && !bytes.Contains(rec.Value, []byte(r.Text)) {
			last = i + 1
			continue
		}
		if len(recs) > 0 && (to != target || size+sizeOf(&rec) > buryBytes) {
			break
		}
		target, last = to, i+1
		size += sizeOf(&rec)
		recs, which = append(recs, stripped(&rec)), append(which, id)
	}
	if len(recs) == 0 {
		return 0, max(1, last), nil
	}
	moved, err = m.transfer(ctx, l, r, target, which, recs)
	return moved, max(1, last), err
}

// target returns the queue that gets messages, if the client may send to it.
func (m *Queues) target(l *live, r *RedriveRequest, to string) (target broker.TopicRef, err error) {
	if r.Allow != nil {
		if err := r.Allow(to); err != nil {
			return target, err
		}
	}
	target, ok := m.b.TopicNamed(to)
	switch {
	case !ok && r.To == "":
		return target, &state.InvalidError{Field: "to", Reason: fmt.Sprintf("queue %q, from which messages come, does not exist: name another one", to)}
	case !ok:
		return target, &state.InvalidError{Field: "to", Reason: fmt.Sprintf("there is no queue %q", to)}
	case target.ID == l.ref().ID:
		return target, &state.InvalidError{Field: "to", Reason: "is the queue itself"}
	}
	return target, nil
}

// transfer appends messages to a target and ends them, in one slot.
func (m *Queues) transfer(ctx context.Context, l *live, r *RedriveRequest, to string, ids []ID, recs []record.Record) (moved int, err error) {
	target, err := m.target(l, r, to)
	if err != nil {
		return 0, err
	}
	if r.DryRun {
		return len(ids), nil
	}
	ch, err := m.claim(ctx, l.ref().ID, r.Queue, &target, ids, recs)
	if err != nil || ch == nil {
		return 0, err
	}
	if err := ch.wait(ctx); err != nil {
		return 0, err
	}
	return ch.Len(), nil
}

// claim begins to move the messages that no worker has; nil: there are none. The queue may have been opened
// again since the messages were read.
func (m *Queues) claim(ctx context.Context, topic record.ID, queue string, target *broker.TopicRef, ids []ID, recs []record.Record) (*Change, error) {
	l, err := m.lock(ctx, queue)
	if err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	if l.ref().ID != topic {
		return nil, state.ErrUnknownTopic
	}
	ch, kept := NewChange(ids[0].Partition), recs[:0]
	for i, id := range ids {
		m.b.ReadQueue(topic, id.Partition, func(q *state.Queue, p *state.Partition) {
			l.core.Extended(id.Partition, p.Next)
			err := l.core.Claim(m.now(), id, q, ch)
			if err == ErrUnread { // the record has the key that the core does not know
				l.core.Know(m.now(), id, hashOf(recs[i].Key), q)
				err = l.core.Claim(m.now(), id, q, ch)
			}
			if err == nil {
				kept = append(kept, recs[i])
			}
		})
	}
	if len(kept) == 0 {
		return nil, nil
	}
	m.carry(ctx, l, ch, func(ctx context.Context, u *broker.QueueUpdate) error {
		return m.append(ctx, u, target, min(u.Partition, uint32(target.Partitions-1)), kept)
	})
	return ch, nil
}

// carry stores a change that is not the open one. What becomes of it is noted also if the client does not wait
// for it.
func (m *Queues) carry(ctx context.Context, l *live, ch *Change, store func(context.Context, *broker.QueueUpdate) error) {
	c, u := l.core, m.update(l, ch.Partition)
	u.Change = c.Take(ch)
	l.pending++
	m.busy.Go(func() {
		err := store(context.WithoutCancel(ctx), u)
		m.mu.Lock()
		defer m.mu.Unlock()
		c.Done(ch, m.now(), err)
		m.touch(l)
		m.settled(l)
	})
}

func header(r *record.Record, name string) string {
	for i := range r.Headers {
		if r.Headers[i].Key == name {
			return string(r.Headers[i].Value)
		}
	}
	return ""
}

// stripped returns a letter as the message that it was.
func stripped(r *record.Record) record.Record {
	out := *r
	out.Headers = nil
	for _, h := range r.Headers {
		if !strings.HasPrefix(h.Key, HeaderPrefix) {
			out.Headers = append(out.Headers, h)
		}
	}
	return out
}
