package trigger

import (
	"context"
	"math"
	"time"

	"github.com/sebbroker/seb/internal/follow"
	"github.com/sebbroker/seb/internal/trigger/rule"
	"github.com/sebbroker/seb/internal/trigger/store"
	"github.com/sebbroker/seb/record"
)

// lead does what only the leader does: it records what has fired, and makes the log's time advance where somebody waits for
// it. It returns how long there is nothing to do.
func (w *worker) lead(ctx context.Context) (wait time.Duration, err error) {
	now := w.opt.Now()
	if d := w.unsent.Left(now, w.opt.Sizes.Retry); d > 0 {
		return d, nil
	}
	if at := w.followed(); !w.firm() || at < w.sent {
		if w.firingsEnd() > at {
			return 0, nil
		}
		return follow.Idle, nil // the log tells when it has it
	}
	recs, err := w.judge(ctx)
	if err != nil {
		return 0, err
	}
	wait = follow.Idle
	if len(recs) == 0 {
		if wait = w.untilTick(now); wait > 0 {
			return wait, nil
		}
		w.tickedAt = now
		w.met.ticks.Inc()
		recs = append(recs, (&rule.Record{Kind: rule.Tick}).Encoded())
	}
	if err := w.send(ctx, recs); err != nil {
		if ctx.Err() != nil {
			return 0, nil
		}
		w.opt.Logger.Warn("firings can not be recorded", "err", err)
		return w.unsent.Again(now, w.opt.Sizes.Retry), nil
	}
	w.unsent = follow.Retry{}
	return 0, nil
}

// elected notes what those who led before have left: it must be known before anything is recorded or delivered.
func (w *worker) elected() { w.leads, w.firmEnd, w.sent = true, w.firingsEnd(), 0 }

// firm is whether this broker leads, and all is known that those have left who led before.
func (w *worker) firm() bool { return w.leads && w.followed() >= w.firmEnd }

// followed is the next offset of the topic of firings.
func (w *worker) followed() int64 { return w.cursors[store.CursorKey{Topic: w.topics[1]}].Next }

// firingsEnd is the end of the topic of firings at the position; 0 if it is not there.
func (w *worker) firingsEnd() int64 {
	if len(w.pos.Topics[1]) == 0 {
		return 0
	}
	return w.pos.Topics[1][0].Next
}

// send appends records to the topic of firings, which it makes if need be.
func (w *worker) send(ctx context.Context, recs []record.Record) error {
	topic, err := Ensure(ctx, w.opt.Log, w.opt.Firings, 1, AppendTimes)
	if err != nil {
		return err
	}
	base, err := w.opt.Log.Append(ctx, topic.ID, 0, recs)
	if err == nil {
		w.sent = base + int64(len(recs))
	}
	return err
}

// untilTick is how long it takes until a deadline has passed by the clock that the log's time has not reached; 0 if one has.
func (w *worker) untilTick(now time.Time) time.Duration {
	due := int64(math.MaxInt64)
	for _, l := range w.live {
		if l.status != store.Joined || !w.ready(l.Events) {
			continue
		}
		due = min(due, l.due)
		if !l.crossed {
			due = min(due, l.At+1)
		}
	}
	if due == math.MaxInt64 || due >= math.MaxInt64/int64(time.Millisecond) {
		return follow.Idle
	}
	wait := time.UnixMilli(due + 2).Sub(now) // a slot of then completes it
	wait = max(wait, w.opt.Sizes.TickEvery-now.Sub(w.tickedAt))
	return min(max(wait, 0), follow.Idle)
}

// judge makes records of what has fired and is not recorded, in order, and decides what is to become of it.
func (w *worker) judge(ctx context.Context) (recs []record.Record, err error) {
	if !w.owed {
		return nil, nil
	}
	err = w.f.Update(ctx, func(tx *store.Tx) error {
		list, err := tx.Outbox(0, w.opt.Sizes.Outbox)
		if err != nil {
			return err
		}
		w.owed = len(list) > 0
		for i := range list {
			rec, err := w.verdict(tx, &list[i])
			if err != nil {
				return err
			}
			if rec != nil {
				recs = append(recs, rec.Encoded())
				continue
			}
			if err := tx.DeleteOutbox(list[i].ID, list[i].Retracts); err != nil {
				return err
			}
		}
		return nil
	})
	return recs, err
}

// verdict is the record of something that has happened; nil if it is to have none.
func (w *worker) verdict(tx *store.Tx, o *store.OutboxEntry) (*rule.Record, error) {
	x, err := tx.Firing(o.ID)
	if err != nil || x == nil {
		return nil, err
	}
	if gone, err := w.erased(tx, &place{x.Topic, x.Partition, x.Entity}, x.Cause, x.At); err != nil {
		return nil, err
	} else if gone {
		return nil, tx.DeleteFiring(x.ID)
	}
	if o.Retracts {
		switch {
		case x.RetractedAt != 0, x.State == rule.Suppressed, x.State == rule.Carried, x.State == rule.Cancelled:
			return nil, nil
		}
		return &rule.Record{Kind: rule.Retract, ID: x.ID.String(), At: o.At, Cause: o.Cause}, nil
	}
	rec := &rule.Record{
		Kind: rule.FiredRecord, ID: x.ID.String(), Trigger: x.Trigger, Version: x.Version, Entity: x.Entity, Topic: x.Topic,
		Partition: x.Partition, Witness: x.Witness, At: x.At, Cause: x.Cause, State: rule.Pending,
	}
	l := w.find(x.Trigger)
	switch {
	case x.Recorded != 0:
		return nil, nil
	case x.State == rule.Suppressed, l != nil && l.Paused:
		rec.State = rule.Suppressed
	case x.State == rule.Carried: // of a version that was replaced
		rec.State = rule.Carried
	case l != nil && x.Version == l.Version:
		carried, err := w.carried(tx, l, x)
		if err != nil {
			return nil, err
		}
		if carried {
			rec.State = rule.Carried
		}
	}
	return rec, nil
}

// carried is whether a version has carry_fired, and an earlier one has fired in the place of this firing: ever, where a trigger
// fires once, else because of the same. What lies before the oldest record that is left may have been fired for.
func (w *worker) carried(tx *store.Tx, l *live, x *store.Firing) (bool, error) {
	if !l.carries || x.Version == 1 {
		return false, nil
	}
	if floor := w.f.Floor(); x.At < floor && l.Created < floor {
		return true, nil
	}
	for after := int64(0); ; {
		list, err := tx.EntityFirings(x.Entity, x.Trigger, after, chunk)
		if err != nil || len(list) == 0 {
			return false, err
		}
		for i := range list {
			y := &list[i]
			after = y.Seq
			if y.Version >= x.Version || y.Recorded == 0 && y.State != rule.Computed {
				continue
			}
			if l.once || y.Cause == x.Cause {
				return true, nil
			}
		}
	}
}
