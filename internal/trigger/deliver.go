package trigger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/sebbroker/seb/internal/trigger/rule"

	"github.com/sebbroker/seb/internal/trigger/store"
	"github.com/sebbroker/seb/record"
)

// Firing is a firing and what became of it.
type Firing = store.Firing

// LimitMax is the most firings that one call gives.
const LimitMax = 10_000

// Due says for which triggers something is to be delivered at an instant, and when the next of others comes; zero if
// nothing is. What is paused has nothing to be delivered. Only the leader has, once it knows what those have delivered who led
// before: others are told nothing.
func (e *Engine) Due(ctx context.Context, now time.Time) (ids []string, next time.Time, err error) {
	p, _, err := e.fold.Peek()
	if err != nil || !p.Firm || !e.opt.Log.Leads() {
		return nil, time.Time{}, err
	}
	first := int64(math.MaxInt64)
	err = e.fold.Query(func(q store.Queries) error {
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

// Pending are firings of a trigger that are to be delivered at an instant, those that are due first first, at most limit: each
// is recorded, and stays pending until Report. What was delivered and could not be reported, as in a crash, comes again.
func (e *Engine) Pending(ctx context.Context, trigger string, now time.Time, limit int) (list []Firing, err error) {
	t, err := e.Head(trigger)
	if p, _, _ := e.fold.Peek(); err != nil || t.Paused || !p.Firm || !e.opt.Log.Leads() {
		return nil, err
	}
	err = e.fold.Query(func(q store.Queries) (err error) {
		list, err = q.Pending(ctx, trigger, now.UnixMilli(), min(limit, LimitMax))
		return err
	})
	return list, err
}

// Attempt is what came of an attempt at delivering a firing.
type Attempt struct {
	// Retraction is that of the firing as it was handed out.
	Retraction bool
	// State is Delivered or Dead when there are to be no more attempts, or Pending: the next one comes at NextTry. With
	// Deferred there was none yet, and it is to wait until then.
	State    rule.State
	NextTry  time.Time
	Deferred bool
	Outcome  json.RawMessage // kept with it; at most OutcomeBytesMax of JSON
}

// OutcomeBytesMax is how long an attempt's outcome may be.
const OutcomeBytesMax = 16 << 10

// Report records an attempt, and returns when that is known to the engine. Errors: ErrInvalid, ErrUnknownFiring,
// ErrNotLeader, ErrUnavailable, those of an append, after which the attempt may count or not.
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
		return fmt.Errorf("%w: state %q is not one of pending | delivered | dead", ErrInvalid, a.State)
	}
	return e.tell(ctx, id, rec)
}

// Resend delivers a firing once more, whatever became of it. Errors: those of Report.
func (e *Engine) Resend(ctx context.Context, id rule.ID) error {
	return e.tell(ctx, id, &rule.Record{Kind: rule.Resend, ID: id.String()})
}

// tell appends a record of a firing, and waits until the engine has read it.
func (e *Engine) tell(ctx context.Context, id rule.ID, rec *rule.Record) error {
	x, err := e.Firing(ctx, id)
	if err != nil {
		return err
	}
	if x.Recorded == 0 {
		return fmt.Errorf("%w: %s is %s, and not in the log", ErrUnknownFiring, id, x.State)
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
	e.fold.loop.Wake()
	return e.fold.Wait(ctx, func(p *Progress) bool { return p.Followed > base })
}

// Firing is a firing by its id, or ErrUnknownFiring.
func (e *Engine) Firing(ctx context.Context, id rule.ID) (x Firing, err error) {
	err = e.fold.Query(func(q store.Queries) error {
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

// FiringQuery says which firings are wanted: Trigger, or with "" those of all, behind a Seq, at most Limit.
type FiringQuery = store.FiringQuery

// Firings are firings in the order in which this engine learned of them, which is that of Seq; to go on, ask again with
// After as the last Seq. With a file that was made anew the numbers are others.
func (e *Engine) Firings(ctx context.Context, q FiringQuery) (list []Firing, err error) {
	if q.Limit < 1 || q.Limit > LimitMax {
		return nil, fmt.Errorf("%w: limit %d is not between 1 and %d", ErrInvalid, q.Limit, LimitMax)
	}
	err = e.fold.Query(func(f store.Queries) (err error) {
		list, err = f.Firings(ctx, q)
		return err
	})
	return list, err
}

// MatchedEvent is an event because of which something has fired.
type MatchedEvent struct {
	rule.Event
	Offset int64
	Time   int64 // ms
}

// MatchedEvents reads the events because of which something has fired. Those that are no longer in the log are left out.
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
			continue // trimmed, or of a topic of that name that was deleted
		}
		w, err := e.witness(ctx, t.ID, x.Partition, offset)
		if err != nil {
			return nil, err
		}
		if w != nil && w.EntityID == x.Entity && w.Time <= x.At { // else it is of a topic that was created later
			list = append(list, *w)
		}
	}
	return list, nil
}

// witness reads one event; nil if it is not there.
func (e *Engine) witness(ctx context.Context, topic record.ID, partition uint32, offset int64) (*MatchedEvent, error) {
	b, err := e.opt.Log.Read(ctx, topic, partition, offset, 1)
	if err != nil {
		return nil, err
	}
	defer b.Release()
	var r record.Reader
	for _, part := range b.Parts {
		for r.Reset(part, offset); r.Next(); {
			rec := r.Record()
			if rec.Offset != offset {
				return nil, nil
			}
			ev, err := rule.ParseEvent(rec.Key, rec.Value)
			if errors.Is(err, rule.ErrEvent) {
				return nil, nil
			}
			return &MatchedEvent{Event: ev, Offset: offset, Time: rec.Timestamp}, err
		}
		if r.Err() != nil {
			return nil, r.Err()
		}
	}
	return nil, nil
}
