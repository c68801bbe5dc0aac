package delivery

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/sebbroker/seb/internal/engine/base/pause"
	"github.com/sebbroker/seb/internal/triggers/delivery/template"
	"github.com/sebbroker/seb/internal/triggers/rules"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"

	inner "github.com/sebbroker/seb/internal/triggers/delivery/webhook"
	"github.com/sebbroker/seb/webhook"
)

// attempt is the recorded outcome of an attempt, in JSON.
type attempt struct {
	inner.Outcome
	// At is the end of the attempt, Delivered the time when the fired message was delivered, now or
	// earlier; ms since 1970.
	At        int64 `json:"at"`
	Delivered int64 `json:"delivered,omitempty"`
}

// lastAttempt is the recorded outcome of a firing's last attempt.
func lastAttempt(x *rules.Firing) (a attempt) {
	if len(x.Outcome) > 0 && json.Unmarshal(x.Outcome, &a) != nil {
		return attempt{}
	}
	return a
}

// deliver makes one delivery. When its message is built, and when its attempt has ended, it starts
// another one of the same trigger, which thus has all messages in flight that it may have. The half
// of the slots for building that it leaves free is for other triggers.
func (d *Dispatcher) deliver(ctx, reports context.Context, q *queue, p *plan, x *rules.Firing) {
	e := ending{}
	defer func() { d.remove(q, x, e.holds(p)) }()
	next := func() { d.start(ctx, reports, q, buildersMax/2) }
	e.begun, e.round = d.begun(q)
	a, o, err := d.try(ctx, p, x, next)
	e.outcome, e.full = o, errors.Is(err, errFull)
	e.failed = err != nil && !errors.Is(err, errNotPending)
	if e.failed && !e.full && ctx.Err() == nil {
		d.lines.Warn(d.opt.Logger, x.Trigger, "delivery preparation failed", "trigger", x.Trigger, "firing", x.ID.String(), "err", err)
	}
	d.finishAttempt(q, p, x, e)
	next()
	d.wakeups.Send()
	if a == nil {
		return
	}
	if o.Gone() {
		d.pause(reports, p, x)
	}
	d.report(reports, x, *a)
}

var (
	errFull       = errors.New("no capacity for another attempt")
	errNotPending = errors.New("firing is no longer pending")
)

// try attempts a delivery if it is still pending and the rules allow it. It returns the attempt to
// report, nil if none, and its outcome. It calls built when the message is built.
func (d *Dispatcher) try(ctx context.Context, p *plan, x *rules.Firing, built func()) (a *rules.Attempt, o inner.Outcome, err error) {
	m, err := d.prepare(ctx, p, x)
	if wait, ok := errors.AsType[*notBeforeError](err); ok {
		d.met.deferred.Inc()
		return &rules.Attempt{Retraction: x.Retraction, State: rule.Pending, NextTry: wait.at, Deferred: true}, o, nil
	}
	if errors.Is(err, errNotPending) {
		d.met.dropped.Inc()
	}
	if err != nil {
		return nil, o, err
	}
	defer m.release()
	built()
	o = m.send(ctx)
	d.met.outcomes[o.Kind].Inc()
	d.met.seconds.Update(o.Took.Seconds())
	return d.judge(p, x, o), o, nil
}

// judge builds the report of an attempt, and applies Retry-After.
func (d *Dispatcher) judge(p *plan, x *rules.Firing, o inner.Outcome) *rules.Attempt {
	if o.Kind == inner.Stopped {
		return nil
	}
	now := d.opt.Webhooks.Now()
	d.pauseReceiver(p, now, o.RetryAfter)
	kept := attempt{Outcome: o, At: now.UnixMilli(), Delivered: lastAttempt(x).Delivered}
	a := &rules.Attempt{Retraction: x.Retraction, State: rule.Dead}
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
		d.lines.Warn(d.opt.Logger, x.Trigger, "firing dead after last delivery attempt", "trigger", x.Trigger, "firing", x.ID.String(),
			"attempts", x.Tries+1, "status", o.Status)
	}
	a.Outcome, _ = json.Marshal(kept) // numbers and strings: cannot fail
	return a
}

// pause pauses a trigger whose receiver has answered 410 Gone, unless its delivery has changed
// since.
func (d *Dispatcher) pause(ctx context.Context, p *plan, x *rules.Firing) {
	t, err := d.opt.Engine.Trigger(ctx, x.Trigger)
	if err != nil || t.Status == rule.Paused {
		return
	}
	if deliver, err := d.opt.Engine.Opened(&t.Definition); err != nil || !bytes.Equal(deliver, p.given) {
		return
	}
	d.met.paused.Inc()
	d.opt.Logger.Warn("trigger paused: receiver answered 410 Gone", "trigger", x.Trigger)
	if err := d.opt.Engine.Pause(ctx, x.Trigger, true); err != nil && ctx.Err() == nil {
		d.opt.Logger.Warn("pausing a trigger failed", "trigger", x.Trigger, "err", err)
	}
}

// checkPending returns errNotPending if a firing is no longer pending, or its trigger is paused or
// deleted. It is called right before sending, because either may happen at any time.
func (d *Dispatcher) checkPending(ctx context.Context, x *rules.Firing) error {
	now, err := d.opt.Engine.Firing(ctx, x.ID)
	if err != nil && !errors.Is(err, rules.ErrUnknownFiring) {
		return err
	}
	t, unknown := d.opt.Engine.Head(x.Trigger)
	if err != nil || unknown != nil || t.Paused || !d.opt.Log.Leads() ||
		now.State != rule.Pending || now.Retraction != x.Retraction || now.Tries != x.Tries {
		return errNotPending
	}
	return nil
}

// notBeforeError is the error of a delivery that a rule forbids before a time.
type notBeforeError struct{ at time.Time }

// Error includes the time.
func (e *notBeforeError) Error() string { return "not before " + e.at.String() }

// pastMax bounds the firings of an entity that a cap reads, including those not delivered.
const pastMax = 2 * inner.CapCountMax

// checkCap returns a *notBeforeError if the frequency cap forbids a delivery now. A retraction is
// always allowed.
func (d *Dispatcher) checkCap(ctx context.Context, p *plan, x *rules.Firing) error {
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
		return &notBeforeError{at}
	}
	return nil
}

// buildMessage builds the message of a firing from its events that are still in the log.
func (d *Dispatcher) buildMessage(ctx context.Context, x *rules.Firing) (*template.Message, error) {
	events, err := d.opt.Engine.MatchedEvents(ctx, x)
	if err != nil {
		return nil, err
	}
	m := &template.Message{
		ID: x.ID.String(), Trigger: x.Trigger, Version: x.Version, Entity: x.Entity, At: time.UnixMilli(x.At).UTC(),
		State: template.Fired, Attempt: x.Tries + 1,
	}
	if x.Retraction {
		m.State, m.At = template.Retracted, time.UnixMilli(x.RetractedAt).UTC()
	}
	for i := range events {
		e := &events[i]
		m.Witness = append(m.Witness, webhook.Event{Event: e.Name, Time: time.UnixMilli(e.Time).UTC(), Offset: e.Offset, Data: e.Data})
	}
	return m, nil
}

// report records an attempt. It retries until that succeeds or this broker is no longer the leader.
func (d *Dispatcher) report(ctx context.Context, x *rules.Firing, a rules.Attempt) {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 10*time.Second) {
		err := d.opt.Engine.Report(ctx, x.ID, a)
		switch {
		case err == nil, ctx.Err() != nil, errors.Is(err, rules.ErrNotLeader), errors.Is(err, rules.ErrClosed):
			return
		case errors.Is(err, rules.ErrUnknownFiring), errors.Is(err, rules.ErrInvalid):
			d.lines.Warn(d.opt.Logger, x.Trigger, "delivery attempt not recorded", "trigger", x.Trigger, "firing", x.ID.String(), "err", err)
			return
		}
		d.lines.Warn(d.opt.Logger, x.Trigger, "recording a delivery attempt failed", "trigger", x.Trigger, "firing", x.ID.String(), "err", err)
		if pause.Wait(ctx, wait) != nil {
			return
		}
	}
}
