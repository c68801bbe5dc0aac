package eventlog

import (
	"context"
	"math/rand/v2"

	"github.com/sebbroker/seb/internal/logcore"
	"github.com/sebbroker/seb/record"
)

// step gives the core an event and performs what follows from it. A slot that is encoded on the way is told to the core
// before any other event.
func (o *owner) step(ctx context.Context, ev *logcore.Event) {
	o.stepOnce(ctx, ev)
	for len(o.encoded) > 0 {
		next := o.encoded[0]
		o.encoded = o.encoded[1:]
		o.stepOnce(ctx, &next)
	}
	o.encoded = nil
}

func (o *owner) stepOnce(ctx context.Context, ev *logcore.Event) {
	o.stepLocked(ev)
	for i := range o.fx.List {
		o.perform(ctx, &o.fx.List[i])
	}
}

// stepLocked changes the state while nobody reads it, and tells the broker before anybody can.
func (o *owner) stepLocked(ev *logcore.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fx.Reset()
	o.core.Step(o.now(), ev, &o.fx)
	advanced := false
	for i := range o.fx.List {
		switch e := &o.fx.List[i]; e.Kind {
		case logcore.EffCommit:
			o.publish(e.Frozen)
		case logcore.EffApplied:
			advanced = true
		case logcore.EffRole: // before anybody hears of what follows from it
			s := Status{Role: e.Role, Epoch: e.Epoch, Err: e.Err}
			if e.Role == logcore.RoleFenced {
				s.Epoch, s.Successor, s.Leader = o.Status().Epoch, e.Epoch, e.Leader
			}
			o.status.Store(&s)
		}
	}
	if advanced && o.opt.Hooks.Advanced != nil {
		o.opt.Hooks.Advanced()
	}
}

func (o *owner) perform(ctx context.Context, e *logcore.Effect) {
	switch e.Kind {
	case logcore.EffCommit:
		o.commit(e.Frozen)
	case logcore.EffUnknown:
		o.unknown(e.Frozen)
	case logcore.EffReject:
		o.turnDown(e.Proposal, e.Reject)
	case logcore.EffRole:
		o.setRole(e)
	case logcore.EffConfirmed:
		o.confirmed(e)
	case logcore.EffAlarm:
		o.met.alarms.Inc()
		o.opt.Logger.Error("log alarm", "shard", o.opt.Core.Shard, "err", e.Err)
	case logcore.EffApplied:
	case logcore.EffNonce:
		o.in.put(message{event: &logcore.Event{Kind: logcore.EvNonce, Op: e.Op, Nonce: record.NewID()}})
	default:
		o.schedule(ctx, e)
	}
}

// schedule starts a request, now or when its delay is over. A slot is encoded at once all the same.
func (o *owner) schedule(ctx context.Context, e *logcore.Effect) {
	if e.Kind == logcore.EffPutData {
		o.encode(e)
	}
	if e.Delay <= 0 {
		o.request(ctx, e)
		return
	}
	// Jitter keeps brokers that were turned away together from coming back together.
	o.delayed = append(o.delayed, delayed{at: o.now() + e.Delay/2 + rand.Int64N(e.Delay), e: *e})
}

func (o *owner) confirmed(e *logcore.Effect) {
	c := o.confirms[e.Tag]
	if c == nil {
		return
	}
	delete(o.confirms, e.Tag)
	if e.Reject == logcore.RejectNone {
		c.answer <- nil
		return
	}
	c.answer <- o.rejection(e.Reject, 0)
}
