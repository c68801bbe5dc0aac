package watch

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/sebbroker/seb/internal/triggers/rules"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
)

// pendingMost bounds the examined deliveries of a trigger.
const pendingMost = 20

// deliver starts deliveries that are due, like package delivery.
func (b *Broker) deliver() {
	now := b.host.Wall()
	ids, next, err := b.engine.Due(b.ctx, now)
	if err != nil {
		return // a turn of the engine ends it
	}
	for _, id := range ids {
		list, _, err := b.engine.Pending(b.ctx, id, now, rules.PendingQuery{Limit: pendingMost})
		if err != nil {
			return
		}
		for i := range list {
			x := list[i]
			if b.under[x.ID] {
				continue
			}
			b.under[x.ID] = true
			b.begin(func(ctx context.Context, c *call) {
				defer func() { delete(b.under, x.ID) }()
				b.one(ctx, c, &x)
			})
		}
	}
	if !next.IsZero() {
		b.s.w.After(next.Sub(now), func() { b.host.Do(b.turn) })
	}
}

// one attempts a delivery and reports the result.
func (b *Broker) one(ctx context.Context, c *call, x *rules.Firing) {
	s := b.s
	c.sleep(s.upTo(20 * time.Millisecond))
	if b.dead || !b.wanted(ctx, x) {
		return
	}
	answered, good := false, false
	refused, lost := s.chance(s.cfg.Refused), s.chance(s.cfg.LostAnswer)
	s.w.After(s.upTo(200*time.Millisecond), func() { // even if the sender ends
		if !refused {
			s.receive(b, x)
		}
		s.w.After(s.upTo(200*time.Millisecond), func() {
			answered, good = true, !refused && !lost
			c.wake(0)
		})
	})
	c.until(&answered)
	if b.dead {
		return
	}
	a := rules.Attempt{Retraction: x.Retraction, State: rule.Delivered, Outcome: json.RawMessage(`{}`)}
	if !good {
		a.State, a.NextTry = rule.Pending, b.host.Wall().Add(time.Minute+s.around(time.Hour))
	}
	for !b.dead {
		err := b.engine.Report(ctx, x.ID, a)
		if err == nil || errors.Is(err, rules.ErrNotLeader) || errors.Is(err, rules.ErrUnknownFiring) {
			return
		}
		c.sleep(10 * time.Second)
	}
}

// wanted reports whether a firing is still to be delivered.
func (b *Broker) wanted(ctx context.Context, x *rules.Firing) bool {
	now, err := b.engine.Firing(ctx, x.ID)
	t, unknown := b.engine.Head(x.Trigger)
	return err == nil && unknown == nil && !t.Paused && b.host.Leads() &&
		now.State == rule.Pending && now.Retraction == x.Retraction && now.Tries == x.Tries
}

// receiver receives messages.
type receiver struct {
	received map[string]int // by ID and whether it is a retraction
}

// receive checks W2, W3 and W4: a delivered firing was recorded before, is correct, and is not
// early.
func (s *Sim) receive(b *Broker, x *rules.Firing) {
	s.Counts.Messages++
	t, id := s.truth, x.ID.String()
	f := t.firsts[x.ID]
	switch {
	case f == nil:
		s.w.Fail("W4: %s delivers %s of %s for %s, which is not recorded", b.host.Name(), id, x.Trigger, x.Entity)
		return
	case f.State != rule.Pending:
		s.w.Fail("W4: %s delivers %s, which is recorded as %s", b.host.Name(), id, f.State)
	case f.Trigger != x.Trigger || f.Entity != x.Entity || f.Version != x.Version || f.At != x.At || f.Cause != x.Cause:
		s.w.Fail("W4: %s delivers %s as %+v, it is recorded as %+v", b.host.Name(), id, *x, f.Record)
	case t.time/1000 < x.At || t.time/1000 < f.time:
		s.w.Fail("W2: %s delivers %s for time %d at %d", b.host.Name(), id, x.At, t.time/1000)
	case x.Retraction && f.taken == 0:
		s.w.Fail("W4: %s retracts %s, but the log does not", b.host.Name(), id)
	}
	if t.expected(&f.Record) == nil {
		s.w.Fail("W3: %s delivers %s of %s for %s because of %s, which is wrong", b.host.Name(), id, x.Trigger, x.Entity, x.Cause)
	}
	if x.Retraction {
		id += " back"
	}
	if s.receiver.received[id]++; s.receiver.received[id] > 1 {
		s.Counts.Again++
	}
}
