package log

import (
	"context"
	"errors"
	"time"

	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
)

// A leader that has standbys hands over to one of them, or stops because another broker leads:
//
//	Park ──▶ another broker stands ──▶ StepDown, or its SEAL
//	  └────▶ it does not           ──▶ Unpark

var (
	// ErrSteppedDown rejects what waits at a leader when it steps down. It is state.ErrNotLeader.
	ErrSteppedDown = core.ErrSteppedDown
	// ErrUnparked: a call of Unpark ended a call of Park.
	ErrUnparked = errors.New("the log continues to lead")
	// ErrNoStandby: a log without Options.Standby does not step down, because it would end.
	ErrNoStandby = errors.New("the log does not follow other brokers")
)

// StepDown ends this log's leadership of an epoch (0: of any), and lets it follow. It makes no request,
// so it works while the store does not answer. Appends that wait are rejected with ErrSteppedDown:
// they are in no slot. Those that were sent are unknown, and may still be stored.
//
// A log that does not lead that epoch does not change. Errors: ErrNoStandby; the error that ended the
// log; ErrClosed; ctx's cause.
func (l *Log) StepDown(ctx context.Context, epoch uint32) error {
	_, err := l.ask(func(ctx context.Context, o *owner, answer chan<- reported) {
		if !o.opt.Standby || o.opt.Core.ReadOnly {
			answer <- reported{err: ErrNoStandby}
			return
		}
		if epoch == 0 || epoch == o.core.Epoch() {
			o.step(ctx, &core.Event{Kind: core.EvStepDown})
		}
		r := reported{}
		if o.core.Role() == core.RoleStopped {
			r.err = o.core.Err()
		}
		answer <- r
	})(ctx)
	return err
}

// Park lets a leader freeze nothing more: appends wait, up to Options.QueueBytes, and then fail with
// ErrQueueFull. It returns what Report returns, with drain when nothing is in flight any more.
//
// The log stays parked until Unpark, StepDown or Close, also after an error. Errors: state.ErrNotLeader
// if the log does not lead, or not any more; ErrUnparked; the error that ended the log; ErrClosed;
// ctx's cause.
func (l *Log) Park(ctx context.Context, drain bool) (state.Report, error) {
	return l.BeginPark(drain)(ctx)
}

// BeginPark is Park for a caller that does not wait: a later call of Unpark or StepDown comes after it,
// whenever wait is called.
func (l *Log) BeginPark(drain bool) (wait func(ctx context.Context) (state.Report, error)) {
	return l.ask(func(ctx context.Context, o *owner, answer chan<- reported) {
		if o.flushing {
			answer <- reported{err: ErrClosed}
			return
		}
		o.step(ctx, &core.Event{Kind: core.EvPark})
		o.parks = append(o.parks, park{answer, drain})
		o.parked()
	})
}

// Unpark lets a parked leader continue. It commits an empty slot first, and the appends that waited
// after it: if another broker has sealed the epoch meanwhile they are rejected, and none is unknown.
func (l *Log) Unpark() {
	l.in.put(message{do: func(ctx context.Context, o *owner) {
		o.step(ctx, &core.Event{Kind: core.EvUnpark})
		o.parked()
	}})
}

// Show lets a leader show that it leads, for a broker that does not hear it: if nothing was committed
// for pace, it commits an empty slot. Each slot promises that the next one comes within promise. Zero:
// no such slots, no promise. It counts until the log leads no more.
func (l *Log) Show(pace, promise time.Duration) {
	ev := core.Event{Kind: core.EvShow, Pace: core.Duration(pace), Promise: uint32(promise.Milliseconds())}
	l.in.put(message{do: func(ctx context.Context, o *owner) { o.step(ctx, &ev) }})
}

// ask lets the owner call f, which sends one answer, now or later. wait returns the answer.
func (l *Log) ask(f func(context.Context, *owner, chan<- reported)) (wait func(ctx context.Context) (state.Report, error)) {
	answer := make(chan reported, 1)
	if !l.in.put(message{do: func(ctx context.Context, o *owner) { f(ctx, o, answer) }}) {
		answer <- reported{err: ErrClosed}
	}
	return func(ctx context.Context) (state.Report, error) {
		select {
		case r := <-answer:
			return r.Report, r.err
		case <-l.ended:
			return state.Report{}, ErrClosed
		case <-ctx.Done():
			return state.Report{}, context.Cause(ctx)
		}
	}
}

// park is an unanswered call of Park.
type park struct {
	answer chan<- reported
	drain  bool
}

// parked answers the calls of Park that need not wait any more.
func (o *owner) parked() {
	if len(o.parks) == 0 {
		return
	}
	var err error
	switch role := o.core.Role(); {
	case o.core.Parked():
	case role == core.RoleLeader:
		err = ErrUnparked
	case role == core.RoleStopped || role == core.RoleFenced && !o.opt.Standby:
		err = o.core.Err()
	default:
		err = state.ErrNotLeader
	}
	waiting := o.parks[:0]
	for _, p := range o.parks {
		switch {
		case err != nil:
			p.answer <- reported{err: err}
		case p.drain && o.core.InFlight() > 0:
			waiting = append(waiting, p)
		default:
			p.answer <- o.report()
		}
	}
	o.parks = waiting
}

// ErrOvertaken: Stand ended without leading, because another broker writes the log. It is
// state.ErrNotLeader.
var ErrOvertaken = core.ErrOvertaken

// Stand makes a log that follows lead, with the state that it has: it ends the epoch in which it is,
// and no other. It returns nil once the log leads, and also if it leads already. Until then appends
// wait. The log must have applied all slots, for example after Confirm: with a slot that it does not
// know, or if another broker is faster, it continues to follow, and the error is ErrOvertaken.
//
// Concurrent calls share one attempt. An attempt continues when ctx ends, because a SEAL that was
// sent has an outcome. Errors: state.ErrReadOnly without Options.Standby; the error that ended the
// log; ErrClosed; ctx's cause.
func (l *Log) Stand(ctx context.Context) error { return l.stand(ctx, false) }

// Succeed is Stand against an epoch whose leader has ended. The log applies the slots that it left, and
// ends the epoch behind them.
func (l *Log) Succeed(ctx context.Context) error { return l.stand(ctx, true) }

func (l *Log) stand(ctx context.Context, gone bool) error {
	return l.call(ctx, func(_ context.Context, o *owner, answer chan<- error) { o.standFor(answer, gone) })
}

// standFor handles a call of Stand or Succeed. next begins the attempt.
func (o *owner) standFor(answer chan<- error, gone bool) {
	switch role := o.core.Role(); {
	case role == core.RoleLeader:
		answer <- nil
	case role == core.RoleStopped:
		answer <- o.core.Err()
	case !o.opt.Standby || o.opt.Core.ReadOnly:
		answer <- state.ErrReadOnly
	default:
		o.stands = append(o.stands, answer)
		o.gone = o.gone || gone
	}
}

// stood ends the calls of Stand.
func (o *owner) stood(err error) {
	for _, answer := range o.stands {
		answer <- err
	}
	o.stands, o.gone = nil, false
}

// next replaces the core by the next one of its log, if it is time: a fenced one follows, and a
// follower stands when it is asked to.
//
// The old core's requests are canceled with its context, and those that were not sent are dropped.
// Their callers have their answers, because a fenced core has answered all of them.
//
// What waits in the queue of a fenced core is rejected before. It was submitted to a leader, and must
// not become a part of a later epoch, before which another leader has written.
func (o *owner) next(ctx context.Context) bool {
	if !o.opt.Standby || o.flushing {
		return false
	}
	fenced := o.core.Role() == core.RoleFenced
	if !fenced && (len(o.stands) == 0 || !o.core.CanStand()) {
		return false
	}
	if fenced {
		o.freeze(ctx)
	}
	o.mu.Lock()
	if fenced {
		o.core = o.core.Follow()
	} else {
		o.core = o.core.Stand(o.gone)
	}
	o.mu.Unlock()
	clear(o.delayed)
	o.delayed = o.delayed[:0]
	if !fenced {
		o.restartClock()
	}
	return true
}
