package rules

import (
	"context"
	"math"
	"time"

	"github.com/sebbroker/seb/internal/engine/views"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/internal/triggers/rules/store"
	"github.com/sebbroker/seb/record"
)

// lead does the work of the leader: it records firings, and advances the log's time when a deadline
// needs that. It returns the time until there is more to do.
func (w *worker) lead(ctx context.Context) (wait time.Duration, err error) {
	now := w.opt.Now()
	if d := w.sendRetry.Left(now, w.opt.Sizes.Retry); d > 0 {
		return d, nil
	}
	if at := w.followed(); w.readyIn() == 0 || at < w.sent {
		if w.firingsEnd() > at {
			return 0, nil
		}
		return views.Idle, nil // reading the append wakes the loop
	}
	recs, err := w.pendingRecords(ctx)
	if err != nil {
		return 0, err
	}
	wait = views.Idle
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
		w.opt.Logger.Warn("firings not recorded", "err", err)
		return w.sendRetry.Again(now, w.opt.Sizes.Retry), nil
	}
	w.sendRetry = views.Retry{}
	return 0, nil
}

// elected notes the end of the records of earlier leaders. All of them must be read before this
// broker records or delivers anything.
func (w *worker) elected(epoch uint32) {
	if w.epoch != 0 {
		w.snapshotter.known = false // another leader in between may have saved one
	}
	w.epoch, w.electedEnd, w.sent = epoch, w.firingsEnd(), 0
}

// readyIn returns the epoch in which this broker leads and has read all records of earlier leaders;
// 0: none.
func (w *worker) readyIn() uint32 {
	if w.followed() < w.electedEnd {
		return 0
	}
	return w.epoch
}

// followed returns the next offset of the topic of firings.
func (w *worker) followed() int64 { return w.cursors[store.CursorKey{Topic: w.topics[1]}].Next }

// firingsEnd returns the end of the topic of firings at the position; 0 if it does not exist.
func (w *worker) firingsEnd() int64 {
	if len(w.pos.Topics[1]) == 0 {
		return 0
	}
	return w.pos.Topics[1][0].Next
}

// send appends records to the topic of firings, and creates it if needed.
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

// untilTick returns the time until a tick is needed: until the clock has passed a deadline that the
// log's time has not. 0: now.
func (w *worker) untilTick(now time.Time) time.Duration {
	due := int64(math.MaxInt64)
	for _, l := range w.live {
		if l.status != store.Joined || w.complete[l.Events] != w.pos.Complete() {
			continue
		}
		due = min(due, l.firstDue())
		if !l.startChecked {
			due = min(due, l.At+1)
		}
	}
	if due == math.MaxInt64 || due >= math.MaxInt64/int64(time.Millisecond) {
		return views.Idle
	}
	wait := time.UnixMilli(due + 2).Sub(now) // a slot at that time completes it
	wait = max(wait, w.opt.Sizes.TickEvery-now.Sub(w.tickedAt))
	return min(max(wait, 0), views.Idle)
}

// outboxBytes bounds the records of one append, approximately.
const outboxBytes = 512 << 10

// pendingRecords returns records of the first firings and retractions in the outbox, in order, with
// their states.
func (w *worker) pendingRecords(ctx context.Context) (recs []record.Record, err error) {
	if !w.outboxPending {
		return nil, nil
	}
	err = w.f.Update(ctx, func(tx *store.Tx) error {
		after, size := int64(0), 0
		for len(recs) < w.opt.Sizes.Outbox && size < outboxBytes {
			list, err := tx.Outbox(after, min(store.HeldMax, w.opt.Sizes.Outbox-len(recs)))
			if err != nil {
				return err
			}
			if len(list) == 0 {
				break
			}
			for i := range list {
				after = list[i].Seq
				rec, err := w.recordOf(tx, &list[i])
				if err != nil {
					return err
				}
				if rec != nil {
					recs = append(recs, rec.Encoded())
					size += len(recs[len(recs)-1].Value)
				}
			}
		}
		w.outboxPending = after > 0
		return nil
	})
	return recs, err
}

// recordOf returns the record of an outbox entry. If none is needed, it deletes the entry.
func (w *worker) recordOf(tx *store.Tx, o *store.OutboxEntry) (rec *rule.Record, err error) {
	x := o.Firing
	if x == nil {
		if x, err = tx.Firing(o.Retracts); err != nil {
			return nil, err
		}
	}
	if x != nil {
		gone, err := w.erased(tx, &entityKey{x.Topic, x.Partition, x.Entity}, x.Cause, x.At)
		if err != nil {
			return nil, err
		}
		if gone {
			return nil, tx.DeleteFiring(x.ID)
		}
	}
	if o.Firing == nil {
		if x == nil || x.RetractedAt != 0 || x.State == rule.Suppressed || x.State == rule.Carried || x.State == rule.Cancelled {
			return nil, tx.DeleteRetraction(o.Retracts)
		}
		return &rule.Record{Kind: rule.Retract, ID: x.ID.String(), At: o.At, Cause: o.Cause}, nil
	}
	rec = &rule.Record{
		Kind: rule.FiredRecord, ID: x.ID.String(), Trigger: x.Trigger, Version: x.Version, Entity: x.Entity, Topic: x.Topic,
		Partition: x.Partition, Witness: x.Witness, At: x.At, Cause: x.Cause, State: rule.Pending,
	}
	l := w.find(x.Trigger)
	switch {
	case x.State == rule.Suppressed, l != nil && l.Paused:
		rec.State = rule.Suppressed
	case x.State == rule.Carried: // of a replaced version
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

// carried reports whether a version has carry_fired and an earlier version has fired in place of
// this firing: for a trigger that fires once with any firing, else with one of the same cause.
// Firings older than the oldest record count as fired.
func (w *worker) carried(tx *store.Tx, l *live, x *store.Firing) (bool, error) {
	if !l.carries || x.Version == 1 {
		return false, nil
	}
	if floor := w.f.Floor(); x.At < floor && l.Created < floor {
		return true, nil
	}
	for after := int64(0); ; {
		list, err := tx.EntityFirings(x.Entity, x.Trigger, after, chunk)
		if err != nil {
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
		if len(list) < chunk {
			return false, nil
		}
	}
}
