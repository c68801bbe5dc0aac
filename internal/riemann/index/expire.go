package index

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/sebbroker/seb/internal/follow"
	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/internal/trigger/rule"
	"github.com/sebbroker/seb/record"
)

// clockStep is what the clock must be beyond a deadline, so that a slot at that time is after it.
const clockStep = 2 // ms

// expire appends expired records for events whose deadline has passed. The file has all records of
// pos, in which this broker leads in the epoch term. It returns how long there is no more to do.
func (w *worker) expire(ctx context.Context, pos *follow.Position, term uint32) (time.Duration, error) {
	now := w.opt.Now()
	if d := w.retry.Left(now, retryBackoff); d > 0 {
		return d, nil
	}
	complete := pos.Complete()
	passing := max(complete, now.UnixMilli()-clockStep)
	if passing < w.f.earliest { // a turn after a commit of other topics ends here, without a query
		return w.untilDue(now), nil
	}
	list, err := w.f.overdue(ctx, passing, w.opt.expireBatch)
	if err == nil && len(list) == 0 {
		w.f.earliest, err = w.f.firstDue(ctx)
	}
	if err != nil {
		return 0, err
	}
	if len(list) == 0 {
		return w.untilDue(now), nil
	}
	part, passed := list[0].part, true
	var recs []record.Record
	for i := range list {
		if e := &list[i]; e.part == part {
			recs = append(recs, e.expiredRecord())
			passed = passed && e.due <= complete
		}
	}
	expected := w.f.cursors[part].next
	if passed && w.contended {
		expected = -1 // a later event is in a slot after the deadline
	}
	err = w.opt.Log.Append(ctx, w.f.topic, part, recs, expected)
	switch {
	case err == nil:
		w.retry, w.contended = follow.Retry{}, false
		return 0, nil // read it before the next decision
	case ctx.Err() != nil:
		w.uncertain = term
		return 0, nil
	case errors.Is(err, state.ErrOffsetMismatch) && !w.contended:
		w.contended = true
		return 0, nil // other records came first: read them
	case errors.Is(err, state.ErrOffsetMismatch):
	case errors.Is(err, state.ErrOutcomeUnknown):
		w.uncertain = term
		return follow.Idle, nil
	default:
		w.opt.Logger.Warn("expired Riemann events not recorded", "events", len(recs), "err", err)
	}
	return w.retry.Again(now, retryBackoff), nil
}

// untilDue returns the time until a deadline may have passed.
func (w *worker) untilDue(now time.Time) time.Duration {
	if w.f.earliest == noDeadline {
		return follow.Idle
	}
	return min(max(time.UnixMilli(w.f.earliest+clockStep).Sub(now), time.Millisecond), follow.Idle)
}

// expiredName is the name of an expired record as an event. It is not the service, because a trigger
// that waits for the next event of a service must not take its expiry for one.
const expiredName = "expired"

// expiredData is the data of an expired record. No event of a Riemann client that has the name
// expiredName has a member "service".
type expiredData struct {
	Service string  `json:"service"`
	State   string  `json:"state"` // stateExpired
	TTL     float64 `json:"ttl"`   // that has passed, in seconds
}

// expiredRecord returns the record that expires an event. Its ID makes it the only one that
// triggers count.
func (e *entry) expiredRecord() record.Record {
	host, service := splitKey(e.key)
	at := time.UnixMilli(e.due).UTC()
	data, _ := json.Marshal(expiredData{string(service), stateExpired, float64(e.due-e.at) / 1000})
	value, _ := json.Marshal(&rule.Event{ // texts, a number and a time have no error
		Name: expiredName, EntityID: string(host), ID: expiredPrefix + strconv.FormatInt(e.offset, 10), Data: data, OccurredAt: &at,
	})
	return record.Record{Key: host, Value: value}
}
