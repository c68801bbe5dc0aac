package delivery

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/sebbroker/seb/internal/delivery/template"
	"github.com/sebbroker/seb/internal/trigger"
	"github.com/sebbroker/seb/internal/trigger/rule"

	inner "github.com/sebbroker/seb/internal/delivery/webhook"
	"github.com/sebbroker/seb/webhook"
)

// attempt is what is kept of an attempt, in JSON.
type attempt struct {
	inner.Outcome
	// At is when it was over, Delivered when the message that it has fired was delivered, then or before; ms since 1970.
	At        int64 `json:"at"`
	Delivered int64 `json:"delivered,omitempty"`
}

// lastAttempt is what was kept of a firing's last attempt.
func lastAttempt(x *trigger.Firing) (a attempt) {
	if len(x.Outcome) > 0 && json.Unmarshal(x.Outcome, &a) != nil {
		return attempt{}
	}
	return a
}

// fly makes a delivery, and others of the trigger after it. The place for the next is free before an outcome is recorded.
func (d *Dispatcher) fly(ctx, reports context.Context, l *lane, p *plan, x *trigger.Firing) {
	defer d.rouse()
	defer d.flies(l, -1)
	for n := 1; x != nil; n++ {
		d.one(ctx, reports, l, p, x)
		if n == chainMax || ctx.Err() != nil {
			return
		}
		x, p = d.begin(l, d.opt.Webhooks.Now())
	}
}

// one makes one delivery.
func (d *Dispatcher) one(ctx, reports context.Context, l *lane, p *plan, x *trigger.Firing) {
	begun := d.ended()
	a, gone, err := d.try(ctx, p, x)
	until := time.Time{}
	if err != nil && !errors.Is(err, errFull) && !errors.Is(err, errUnwanted) {
		until = d.opt.Webhooks.Now().Add(troubleRest)
		if ctx.Err() == nil {
			d.opt.Logger.Warn("a delivery can not be prepared", "trigger", x.Trigger, "firing", x.ID.String(), "err", err)
		}
	}
	d.landed(l, errors.Is(err, errFull), begun, until)
	if a == nil {
		d.gone(l, x.ID)
		return
	}
	d.flights.Go(func() {
		defer d.gone(l, x.ID)
		if gone {
			d.pause(reports, p, x)
		}
		d.report(reports, x, *a)
	})
}

var (
	errFull     = errors.New("there is no room for one more attempt")
	errUnwanted = errors.New("it is not to be delivered any more")
)

// try makes an attempt at a delivery, if it is still wanted and allowed. It returns what to report, nil if nothing, and
// whether the receiver wants no messages any more.
func (d *Dispatcher) try(ctx context.Context, p *plan, x *trigger.Firing) (a *trigger.Attempt, gone bool, err error) {
	m, err := d.prepare(ctx, p, x)
	if wait, ok := errors.AsType[*notYet](err); ok {
		d.met.deferred.Inc()
		return &trigger.Attempt{Retraction: x.Retraction, State: rule.Pending, NextTry: wait.at, Deferred: true}, false, nil
	}
	if errors.Is(err, errUnwanted) {
		d.met.dropped.Inc()
	}
	if err != nil {
		return nil, false, err
	}
	defer m.release()
	o := m.send(ctx)
	d.met.outcomes[o.Kind].Inc()
	d.met.seconds.Update(o.Took.Seconds())
	return d.judge(p, x, o), o.Gone(), nil
}

// judge says what is to be reported of an attempt, and what else follows from it.
func (d *Dispatcher) judge(p *plan, x *trigger.Firing, o inner.Outcome) *trigger.Attempt {
	if o.Kind == inner.Stopped {
		return nil
	}
	now := d.opt.Webhooks.Now()
	d.leaveAlone(p, now, o.RetryAfter)
	kept := attempt{Outcome: o, At: now.UnixMilli(), Delivered: lastAttempt(x).Delivered}
	a := &trigger.Attempt{Retraction: x.Retraction, State: rule.Dead}
	next, again := p.Backoff.Next(o, x.Tries+1, now, rand.Float64())
	switch {
	case o.Kind == inner.Delivered:
		a.State = rule.Delivered
		if !x.Retraction {
			kept.Delivered = kept.At
		}
	case again:
		a.State, a.NextTry = rule.Pending, next
	default:
		d.met.dead.Inc()
		d.opt.Logger.Warn("a firing can not be delivered: no more attempts are made", "trigger", x.Trigger, "firing", x.ID.String(),
			"attempts", x.Tries+1, "status", o.Status)
	}
	a.Outcome, _ = json.Marshal(kept) // numbers and texts: it can not fail
	return a
}

// pause pauses a trigger whose receiver wants no messages any more, unless it has another one by now.
func (d *Dispatcher) pause(ctx context.Context, p *plan, x *trigger.Firing) {
	t, err := d.opt.Engine.Trigger(ctx, x.Trigger)
	if err != nil || t.Status == rule.Paused || !bytes.Equal(t.Deliver, p.given) {
		return
	}
	d.met.paused.Inc()
	d.opt.Logger.Warn("a trigger is paused: its receiver has answered 410 Gone", "trigger", x.Trigger)
	if err := d.opt.Engine.Pause(ctx, x.Trigger, true); err != nil && ctx.Err() == nil {
		d.opt.Logger.Warn("a trigger can not be paused", "trigger", x.Trigger, "err", err)
	}
}

// wanted looks whether a firing is still to be delivered, as late as can be: it may have been taken back, or its trigger
// paused or deleted.
func (d *Dispatcher) wanted(ctx context.Context, x *trigger.Firing) error {
	now, err := d.opt.Engine.Firing(ctx, x.ID)
	if err != nil && !errors.Is(err, trigger.ErrUnknownFiring) {
		return err
	}
	t, unknown := d.opt.Engine.Head(x.Trigger)
	if err != nil || unknown != nil || t.Paused || !d.opt.Log.Leads() ||
		now.State != rule.Pending || now.Retraction != x.Retraction || now.Tries != x.Tries {
		return errUnwanted
	}
	return nil
}

// notYet says that a delivery is not allowed before an instant.
type notYet struct{ at time.Time }

// Error says until when.
func (e *notYet) Error() string { return "not before " + e.at.String() }

// pastMax is how many of an entity's firings are looked at for a cap: those that were not delivered are among them.
const pastMax = 2 * inner.CapCountMax

// allowed looks whether the frequency cap allows a delivery now, or returns a *notYet. What takes a message back always may
// follow it.
func (d *Dispatcher) allowed(ctx context.Context, p *plan, x *trigger.Firing) error {
	if p.Rules.Cap.Count < 1 || x.Retraction {
		return nil
	}
	list, err := d.opt.Engine.EntityFirings(ctx, x.Trigger, x.Entity, pastMax)
	if err != nil {
		return err
	}
	var past []time.Time
	for i := range list {
		if at := lastAttempt(&list[i]).Delivered; at != 0 && list[i].ID != x.ID {
			past = append(past, time.UnixMilli(at))
		}
	}
	now := d.opt.Webhooks.Now()
	if at := p.Rules.Next(now, past); at.After(now) {
		return &notYet{at}
	}
	return nil
}

// message makes the message of a firing, with the events that are still in the log.
func (d *Dispatcher) message(ctx context.Context, x *trigger.Firing) (*template.Message, error) {
	events, err := d.opt.Engine.Witnesses(ctx, x)
	if err != nil {
		return nil, err
	}
	m := &template.Message{
		ID: x.ID.String(), Trigger: x.Trigger, Version: x.Version, Entity: x.Entity, At: time.UnixMilli(x.At).UTC(),
		State: template.Fired, Attempt: x.Tries + 1,
	}
	if x.Retraction {
		m.State, m.At = template.Retracted, time.UnixMilli(x.Taken).UTC()
	}
	for i := range events {
		e := &events[i]
		m.Witness = append(m.Witness, webhook.Event{Event: e.Name, Time: time.UnixMilli(e.Time).UTC(), Offset: e.Offset, Data: e.Data})
	}
	return m, nil
}

// report records an attempt; it tries until that has worked, or this broker does not lead any more.
func (d *Dispatcher) report(ctx context.Context, x *trigger.Firing, a trigger.Attempt) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	<-timer.C
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 10*time.Second) {
		err := d.opt.Engine.Report(ctx, x.ID, a)
		switch {
		case err == nil, ctx.Err() != nil, errors.Is(err, trigger.ErrNotLeader), errors.Is(err, trigger.ErrClosed):
			return
		case errors.Is(err, trigger.ErrUnknownFiring), errors.Is(err, trigger.ErrInvalid):
			d.opt.Logger.Warn("an attempt at a delivery is not recorded", "trigger", x.Trigger, "firing", x.ID.String(), "err", err)
			return
		}
		d.opt.Logger.Warn("an attempt at a delivery can not be recorded yet", "trigger", x.Trigger, "firing", x.ID.String(), "err", err)
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
	}
}
