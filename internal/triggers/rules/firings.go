package rules

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/internal/triggers/rules/store"
	"github.com/sebbroker/seb/record"
)

// Firing is a firing and its state.
type Firing = store.Firing

// LimitMax is the largest limit of a query for firings.
const LimitMax = 10_000

// ready reports whether this broker leads, and has read the records of earlier leaders.
func (e *Engine) ready(p *Progress) bool {
	epoch := e.opt.Log.LeadingEpoch()
	return epoch != 0 && p.ReadyIn == epoch
}

// Due returns the triggers with firings to deliver at an instant, and when the next firing of the
// others is due; zero if there is none. Paused triggers have none. Only the leader returns any, and
// only after it has read the deliveries that earlier leaders recorded.
func (e *Engine) Due(ctx context.Context, now time.Time) (ids []string, next time.Time, err error) {
	p, _, err := e.follower.Peek()
	if err != nil || !e.ready(&p) {
		return nil, time.Time{}, err
	}
	first := int64(math.MaxInt64)
	err = e.follower.Query(func(q store.Queries) error {
		for id := ""; ; {
			var at int64
			id, at, err = q.NextPending(ctx, id)
			if err != nil || id == "" {
				return err
			}
			switch t := p.Find(id); {
			case t == nil || t.Paused:
			case at <= now.UnixMilli():
				ids = append(ids, id)
			default:
				first = min(first, at)
			}
		}
	})
	if first < math.MaxInt64 {
		next = time.UnixMilli(first)
	}
	return ids, next, err
}

// PendingQuery selects pending firings.
type PendingQuery = store.PendingQuery

// DuePosition is a position in the order of pending firings.
type DuePosition = store.DuePosition

// Pending returns firings of a trigger that are due at an instant, earliest first, and the position to
// which the query has read. Each is recorded, and stays pending until Report: after a crash between
// delivery and report it is delivered again.
func (e *Engine) Pending(ctx context.Context, trigger string, now time.Time, which PendingQuery) (list []Firing, read DuePosition, err error) {
	t, err := e.Head(trigger)
	if p, _, _ := e.follower.Peek(); err != nil || t.Paused || !e.ready(&p) {
		return nil, which.After, err
	}
	which.Limit = min(which.Limit, LimitMax)
	err = e.follower.Query(func(q store.Queries) (err error) {
		list, read, err = q.Pending(ctx, trigger, now.UnixMilli(), which)
		return err
	})
	return list, read, err
}

// Attempt is the result of an attempt to deliver a firing.
type Attempt struct {
	// Retraction is that of the firing that Pending returned.
	Retraction bool
	// State is Delivered or Dead after the last attempt, or Pending: the next attempt is due at
	// NextTry. Deferred: no attempt was made, and the first one waits until then.
	State    rule.State
	NextTry  time.Time
	Deferred bool
	Outcome  json.RawMessage // stored with the firing; JSON of at most OutcomeBytesMax
}

// OutcomeBytesMax bounds the outcome of an attempt.
const OutcomeBytesMax = 16 << 10

// Report records an attempt, and returns once the engine has read the record. Errors: ErrInvalid,
// ErrUnknownFiring, ErrNotLeader, ErrUnavailable, and those of an append, after which the attempt
// may count or not.
func (e *Engine) Report(ctx context.Context, id rule.ID, a Attempt) error {
	rec := &rule.Record{ID: id.String(), Retraction: a.Retraction, Outcome: a.Outcome}
	switch {
	case len(a.Outcome) > OutcomeBytesMax:
		return fmt.Errorf("%w: outcome: %d bytes, the limit is %d", ErrInvalid, len(a.Outcome), OutcomeBytesMax)
	case len(a.Outcome) > 0 && !json.Valid(a.Outcome):
		return fmt.Errorf("%w: outcome is not JSON", ErrInvalid)
	case a.State == rule.Pending:
		rec.Kind, rec.NextTry = rule.Attempt, a.NextTry.UnixMilli()
		if a.Deferred {
			rec.Kind = rule.Defer
		}
	case a.State == rule.Delivered || a.State == rule.Dead:
		rec.Kind, rec.State = rule.Done, a.State
	default:
		return fmt.Errorf("%w: invalid state %q, want pending, delivered or dead", ErrInvalid, a.State)
	}
	return e.appendRecord(ctx, id, rec)
}

// Resend delivers a firing again, in every recorded state. Errors: those of Report.
func (e *Engine) Resend(ctx context.Context, id rule.ID) error {
	return e.appendRecord(ctx, id, &rule.Record{Kind: rule.Resend, ID: id.String()})
}

// appendRecord appends a record of a firing, and waits until the engine has read it.
func (e *Engine) appendRecord(ctx context.Context, id rule.ID, rec *rule.Record) error {
	x, err := e.Firing(ctx, id)
	if err != nil {
		return err
	}
	if x.Recorded == 0 {
		return fmt.Errorf("%w: %s is %s and was not recorded", ErrUnknownFiring, id, x.State)
	}
	if !e.opt.Log.Leads() {
		return ErrNotLeader
	}
	t, ok := e.opt.Log.Topic(e.opt.Firings)
	if !ok {
		return ErrUnavailable
	}
	base, err := e.opt.Log.Append(ctx, t.ID, 0, []record.Record{rec.Encoded()})
	if err != nil {
		return fmt.Errorf("firing %s: %w", id, err)
	}
	e.follower.loop.Wake()
	return e.follower.Wait(ctx, func(p *Progress) bool { return p.Followed > base })
}

// Firing returns a firing by its ID, or ErrUnknownFiring.
func (e *Engine) Firing(ctx context.Context, id rule.ID) (x Firing, err error) {
	err = e.follower.Query(func(q store.Queries) error {
		found, err := q.Firing(ctx, id)
		if found != nil {
			x = *found
		}
		return err
	})
	if err == nil && x.ID != id {
		err = fmt.Errorf("%w: %s", ErrUnknownFiring, id)
	}
	return x, err
}

// FiringQuery selects firings, at most Limit.
type FiringQuery = store.FiringQuery

// Firings returns firings in the order of Seq: that in which this engine learned of them. For the
// next page, set After to the last Seq, or Before with Newest. A rebuilt file has other numbers.
func (e *Engine) Firings(ctx context.Context, q FiringQuery) (list []Firing, err error) {
	if q.Limit < 1 || q.Limit > LimitMax {
		return nil, fmt.Errorf("%w: limit: want 1 to %d, given %d", ErrInvalid, LimitMax, q.Limit)
	}
	return query(e.follower, func(f store.Queries) ([]Firing, error) { return f.Firings(ctx, q) })
}

// Counts are the firings of a trigger, by its newest ones.
type Counts = store.Counts

// Counts counts up to limit firings of a trigger, the newest first.
func (e *Engine) Counts(ctx context.Context, trigger string, limit int) (Counts, error) {
	if limit < 1 || limit > LimitMax {
		return Counts{}, fmt.Errorf("%w: limit: want 1 to %d, given %d", ErrInvalid, LimitMax, limit)
	}
	return query(e.follower, func(q store.Queries) (Counts, error) { return q.Counts(ctx, trigger, e.opt.Now(), limit) })
}

// MatchedEvent is an event of the log that made a firing true.
type MatchedEvent struct {
	rule.Event
	Offset int64
	Time   int64 // ms
}

// MatchedEvents reads the matched events of a firing. It omits events that are no longer in the
// log.
func (e *Engine) MatchedEvents(ctx context.Context, x *Firing) (list []MatchedEvent, err error) {
	t, ok := e.opt.Log.Topic(x.Topic)
	if !ok {
		return nil, nil
	}
	for _, offset := range x.Witness {
		p, known := e.opt.Log.Position(t.ID)
		if !known {
			return nil, ErrUnavailable
		}
		if int(x.Partition) >= len(p.Topics[0]) || offset < p.Topics[0][x.Partition].Start || offset >= p.Topics[0][x.Partition].Next {
			continue // trimmed, or of a deleted topic with the same name
		}
		w, err := e.readEvent(ctx, t.ID, x.Partition, offset)
		if err != nil {
			return nil, err
		}
		if w != nil && w.EntityID == x.Entity && w.Time <= x.At { // else of a later topic
			list = append(list, *w)
		}
	}
	return list, nil
}

// readEvent reads one event; nil if the log does not have it.
func (e *Engine) readEvent(ctx context.Context, topic record.ID, partition uint32, offset int64) (w *MatchedEvent, err error) {
	err = e.recordAt(ctx, topic, partition, offset, func(rec *record.Record) error {
		ev, err := rule.ParseEvent(rec.Key, rec.Value)
		if errors.Is(err, rule.ErrEvent) {
			return nil
		}
		w = &MatchedEvent{Event: ev, Offset: offset, Time: rec.Timestamp}
		return err
	})
	return w, err
}

// recordAt calls f with the record at an offset, unless the log does not have it. The record is valid
// during the call.
func (e *Engine) recordAt(ctx context.Context, topic record.ID, partition uint32, offset int64, f func(*record.Record) error) error {
	b, err := e.opt.Log.Read(ctx, topic, partition, offset, 1)
	if err != nil {
		return err
	}
	defer b.Release()
	var r record.Reader
	for one, err := range b.All() {
		if err != nil {
			return err
		}
		if r.Reset(one, offset); r.Next() {
			if r.Offset() == offset {
				err = f(r.Record())
			}
			return err
		}
		if r.Err() != nil {
			return r.Err()
		}
	}
	return nil
}

// EntityFirings returns the newest firings of an entity by a trigger, newest first, at most limit.
func (e *Engine) EntityFirings(ctx context.Context, trigger, entity string, limit int) (list []Firing, err error) {
	if limit < 1 || limit > LimitMax {
		return nil, fmt.Errorf("%w: limit: want 1 to %d, given %d", ErrInvalid, LimitMax, limit)
	}
	return query(e.follower, func(q store.Queries) ([]Firing, error) { return q.EntityFirings(ctx, entity, trigger, limit) })
}

// Backlog returns the number of firings that wait for delivery, now or later, and when the first of
// them is due (ms; 0: none).
func (e *Engine) Backlog(ctx context.Context) (n, first int64, err error) {
	err = e.follower.Query(func(q store.Queries) (err error) {
		n, first, err = q.Backlog(ctx)
		return err
	})
	return n, first, err
}
