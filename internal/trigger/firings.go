package trigger

import (
	"context"
	"fmt"

	"github.com/sebbroker/seb/internal/trigger/rule"
	"github.com/sebbroker/seb/internal/trigger/store"
	"github.com/sebbroker/seb/record"
)

// firings follows the topic of firings.
func (w *worker) firings(ctx context.Context) (more bool, err error) {
	for range w.opt.Sizes.Pieces {
		if err := w.missed(ctx); err != nil {
			return false, err
		}
		p, err := w.system(ctx, 1)
		if p == nil {
			return false, err
		}
		err = w.apply(ctx, p, func(tx *store.Tx) error {
			return w.each(p, func(r *record.Record, stamped bool) error { return w.outcome(tx, r, stamped) })
		})
		p.Release()
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

// missed notes that records of the topic were trimmed before they were read: what is older is not known.
func (w *worker) missed(ctx context.Context) error {
	if len(w.pos.Topics[1]) == 0 {
		return nil
	}
	span := w.pos.Topics[1][0]
	key := store.CursorKey{Topic: w.topics[1]}
	c := w.cursors[key]
	if span.Start <= c.Next {
		return nil
	}
	floor, there, err := w.first(ctx, key.Topic, span)
	if err != nil {
		return err
	}
	if !there {
		floor = w.pos.Time / 1000
	}
	floor++ // what was trimmed may be of the same millisecond
	w.opt.Logger.Warn("firings were trimmed before they were read: what fired earlier and is not known is left out",
		"offset", c.Next, "start", span.Start, "before_ms", floor)
	if err := w.f.SetFloor(ctx, max(floor, w.f.Floor())); err != nil {
		return err
	}
	c.Next = span.Start
	err = w.f.Update(ctx, func(tx *store.Tx) error { return tx.PutCursor(key, c) })
	if err == nil {
		w.cursors[key] = c
	}
	return err
}

// outcome applies a record of the topic of firings.
func (w *worker) outcome(tx *store.Tx, r *record.Record, stamped bool) error {
	rec, id, err := rule.ParseRecord(r.Value)
	if err == nil && (!stamped || rec.At > r.Timestamp) {
		err = fmt.Errorf("%w: it is of %d and was recorded at %d", rule.ErrRecord, rec.At, r.Timestamp)
	}
	if err != nil {
		w.met.skipped.Inc()
		w.opt.Logger.Warn("record of a firing is left out", "offset", r.Offset, "err", err)
		return nil
	}
	if rec.Kind == rule.Tick {
		return nil
	}
	x, err := tx.Firing(id)
	if err != nil {
		return err
	}
	if rec.Kind == rule.FiredRecord {
		return w.recorded(tx, x, &rec, r.Timestamp)
	}
	if x == nil || x.Recorded == 0 || !x.Follow(&rec, r.Timestamp) {
		return nil
	}
	if rec.Kind == rule.Retract {
		if err := tx.DeleteOutbox(id, true); err != nil {
			return err
		}
	}
	x.Changed = r.Timestamp
	return tx.UpdateFiring(x)
}

// recorded applies the record that a trigger has fired; x is what is known of it, if anything.
func (w *worker) recorded(tx *store.Tx, x *store.Firing, rec *rule.Record, at int64) error {
	if x != nil && x.Recorded != 0 {
		return nil // the first one counts
	}
	if x == nil {
		if gone, err := w.erased(tx, &place{rec.Topic, rec.Partition, rec.Entity}, rec.Cause, rec.At); err != nil || gone {
			return err
		}
		id, _ := rule.ParseID(rec.ID)
		x = &store.Firing{
			ID: id, Trigger: rec.Trigger, Entity: rec.Entity, Version: rec.Version, Topic: rec.Topic, Partition: rec.Partition,
			At: rec.At, Cause: rec.Cause, Witness: rec.Witness,
		}
		if _, err := tx.AddFiring(x); err != nil {
			return err
		}
	}
	x.Recorded, x.State, x.NextTry = at, rec.State, 0
	if x.State == rule.Pending {
		x.NextTry = at
		if l := w.find(x.Trigger); l != nil && at <= l.Created { // of a trigger of that name that was deleted
			x.State, x.NextTry = rule.Cancelled, 0
		}
	}
	w.met.recorded.Inc()
	if err := tx.DeleteOutbox(x.ID, false); err != nil {
		return err
	}
	return tx.UpdateFiring(x)
}

// place is where an entity has its events.
type place struct {
	topic     string
	partition uint32
	entity    string
}

// erased is whether an entity was erased after a cause that has happened at an instant (ms).
func (w *worker) erased(tx *store.Tx, p *place, cause string, happened int64) (bool, error) {
	t, ok := w.opt.Log.Topic(p.topic)
	if !ok {
		return false, nil
	}
	x, ok, err := tx.Erased(rule.Hash(t.ID, p.partition, p.entity, ""))
	return ok && rule.Before(cause, happened, rule.Mark{Offset: x.Offset, At: x.Time}), err
}
