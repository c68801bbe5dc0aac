package log

import (
	"context"

	"github.com/sebbroker/seb/internal/log/core"
	"github.com/sebbroker/seb/internal/log/state"
)

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
	answer := make(chan error, 1)
	if !l.in.put(message{stand: answer, gone: gone}) {
		return ErrClosed
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
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
