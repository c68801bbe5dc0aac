package trigger

import (
	"context"
	"fmt"

	"github.com/sebbroker/seb/internal/trigger/rule"
	"github.com/sebbroker/seb/internal/trigger/store"
	"github.com/sebbroker/seb/record"
)

// firings reads the topic of firings, a bounded number of pieces.
func (w *worker) firings(ctx context.Context) (more bool, err error) {
	for range w.opt.Sizes.Pieces {
		if err := w.skipTrimmed(ctx); err != nil {
			return false, err
		}
		p, err := w.readSystem(ctx, 1)
		if p == nil {
			return false, err
		}
		err = w.apply(ctx, p, func(tx *store.Tx) error {
			return w.each(p, func(r *record.Record, stamped bool) error { return w.applyRecord(tx, r, stamped) })
		})
		p.Release()
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

// skipTrimmed moves past records of firings that were trimmed before they were read. Their firings
// are unknown, so the floor rises to the first record that is left.
func (w *worker) skipTrimmed(ctx context.Context) error {
	if len(w.pos.Topics[1]) == 0 {
		return nil
	}
	span := w.pos.Topics[1][0]
	key := store.CursorKey{Topic: w.topics[1]}
	c := w.cursors[key]
	if span.Start <= c.Next {
		return nil
	}
	floor, there, err := w.firstTime(ctx, key.Topic, span)
	if err != nil {
		return err
	}
	if !there {
		floor = w.pos.Time / 1000
	}
	floor++ // a trimmed record may have the same millisecond
	w.opt.Logger.Warn("firings trimmed before they were read; older unknown firings are left out",
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

// applyRecord applies a record of the topic of firings.
func (w *worker) applyRecord(tx *store.Tx, r *record.Record, stamped bool) error {
	rec, id, err := rule.ParseRecord(r.Value)
	if err == nil && (!stamped || rec.At > r.Timestamp) {
		err = fmt.Errorf("%w: at: %d is after its append time %d", rule.ErrRecord, rec.At, r.Timestamp)
	}
	if err != nil {
		w.met.skipped.Inc()
		w.opt.Logger.Warn("invalid firing record skipped", "offset", r.Offset, "err", err)
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
		return w.applyFired(tx, x, &rec, r.Timestamp)
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

// applyFired applies the record of a firing. x is the known firing with its ID, or nil.
func (w *worker) applyFired(tx *store.Tx, x *store.Firing, rec *rule.Record, at int64) error {
	if x != nil && x.Recorded != 0 {
		return nil // the first record counts
	}
	if x == nil {
		if gone, err := w.erased(tx, &entityKey{rec.Topic, rec.Partition, rec.Entity}, rec.Cause, rec.At); err != nil || gone {
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
		if l := w.find(x.Trigger); l != nil && at <= l.Created { // of a deleted trigger
			x.State, x.NextTry = rule.Cancelled, 0
		}
	}
	w.met.recorded.Inc()
	if err := tx.DeleteOutbox(x.ID, false); err != nil {
		return err
	}
	return tx.UpdateFiring(x)
}

// entityKey is an entity in a partition of a topic of events.
type entityKey struct {
	topic     string
	partition uint32
	entity    string
}

// erased reports whether an entity was erased after a cause at an instant (ms).
func (w *worker) erased(tx *store.Tx, p *entityKey, cause string, happened int64) (bool, error) {
	t, ok := w.opt.Log.Topic(p.topic)
	if !ok {
		return false, nil
	}
	x, ok, err := tx.Erased(rule.Hash(t.ID, p.partition, p.entity, ""))
	return ok && rule.Before(cause, happened, rule.Mark{Offset: x.Offset, At: x.Time}), err
}
