package queue

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// Prepared is messages of a queue that an atomic request sends.
type Prepared struct {
	Parts []broker.Part // one for each priority

	m  *Queues
	l  *live
	at []place // of each message: the index of its part, and its position in that
}

// MessageError is why a message cannot be sent.
type MessageError struct {
	Index int // of the message
	Err   error
}

func (e *MessageError) Error() string { return fmt.Sprintf("message %d: %v", e.Index, e.Err) }

// Unwrap returns the reason.
func (e *MessageError) Unwrap() error { return e.Err }

// errAtomicDedup: the log finds a repeated atomic request by its producer, as a whole.
var errAtomicDedup = &state.InvalidError{Field: "dedup", Reason: "not in an atomic request: repeat the whole request with its producer ID and epoch"}

// Prepare makes parts of an atomic request of messages. Pass their ticket to Watch. producer may be nil. Errors:
// those of Send; *MessageError.
func (m *Queues) Prepare(ctx context.Context, queue string, list []Message, producer *record.Producer) (*Prepared, error) {
	l, t, err := m.termsOf(ctx, queue)
	if err != nil {
		return nil, err
	}
	t.encode.Producer = producer
	p := &Prepared{m: m, l: l, at: make([]place, len(list))}
	together := map[uint32]*group{} // by partition
	changes := map[uint32]*state.QueueChange{}
	for i := range list {
		x := &list[i]
		err := x.check(t)
		if err == nil && x.Dedup != "" {
			err = errAtomicDedup
		}
		if err != nil {
			return nil, &MessageError{i, err}
		}
		one := x.group(nil, i, t)[0]
		g := together[one.part]
		if g == nil {
			g = &group{part: one.part}
			together[one.part] = g
		}
		if one.until != 0 {
			changes[one.part] = delayed(changes[one.part], int64(len(g.recs)), one.until)
		}
		p.at[i] = placeOf(ID{one.part, int64(len(g.recs))})
		g.recs = append(g.recs, one.recs[0])
	}
	for _, part := range slices.Sorted(maps.Keys(together)) {
		if err := p.add(ctx, together[part], changes[part], t); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// delayed adds a message at an offset to a change.
func delayed(c *state.QueueChange, offset, until int64) *state.QueueChange {
	if c == nil {
		c = &state.QueueChange{}
	}
	if n := len(c.Runs); n > 0 && c.Runs[n-1].Until == until && c.Runs[n-1].Base+c.Runs[n-1].Span == offset {
		c.Runs[n-1].Span++
		return c
	}
	c.Runs = append(c.Runs, state.QueueRun{Base: offset, Span: 1, State: state.QueueWaiting, Until: until})
	return c
}

// add adds the part of a priority.
func (p *Prepared) add(ctx context.Context, g *group, c *state.QueueChange, t *terms) error {
	data, sum, err := record.Append(nil, g.recs, t.encode)
	if err != nil {
		return err
	}
	part := broker.Part{Append: broker.Append{
		Topic: p.l.ref().Name, Partition: int32(g.part), Data: data, Summary: sum, ExpectedOffset: -1, Check: broker.ClientOf(ctx).Check,
	}}
	if c != nil {
		part.Update = &broker.QueueUpdate{Epoch: t.epoch, Topic: p.l.ref().ID, Partition: g.part, Change: c, Placed: true}
	}
	p.Parts = append(p.Parts, part)
	return nil
}

// ID returns the ID of a message, from the results of Parts.
func (p *Prepared) ID(i int, results []broker.Result) ID {
	at := p.at[i].id()
	for k := range p.Parts {
		if uint32(p.Parts[k].Partition) == at.Partition {
			at.Offset += results[k].Base
		}
	}
	return at
}

// Watch lets the queue give the messages to workers once their delay is over, also if no caller waits for the
// ticket, in which Parts begin at first.
func (p *Prepared) Watch(t *broker.Ticket, first int) {
	m := p.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ctx.Err() != nil {
		return // it leads no more: the next leader reads the log
	}
	m.busy.Go(func() {
		results := t.Wait(context.Background())[first:]
		m.mu.Lock()
		defer m.mu.Unlock()
		for i := range p.Parts {
			m.stored(p.l, &p.Parts[i], &results[i])
		}
	})
}

// stored notes that a part is in the log. A duplicate was noted when its original was stored.
func (m *Queues) stored(l *live, part *broker.Part, r *broker.Result) {
	if r.Err != nil || r.Duplicate {
		return
	}
	m.met.sent.Add(part.Summary.Records)
	now := m.live[l.ref().ID]
	if now == nil || part.Update == nil {
		return
	}
	for _, r := range part.Update.Change.Runs {
		now.core.DueAgain(uint32(part.Partition), r.Until)
	}
	m.touch(now)
}
