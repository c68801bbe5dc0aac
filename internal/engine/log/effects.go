package log

import (
	"context"
	"math/rand/v2"

	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/record"
)

// step passes an event to the core and performs the effects. If that encodes a slot, the core
// learns of it before any other event, because the next slot must name its checksum.
func (o *owner) step(ctx context.Context, ev *core.Event) {
	o.stepOnce(ctx, ev)
	for len(o.encoded) > 0 {
		next := o.encoded[0]
		o.encoded = o.encoded[1:]
		o.stepOnce(ctx, &next)
	}
	o.encoded = nil
}

func (o *owner) stepOnce(ctx context.Context, ev *core.Event) {
	o.stepLocked(ev)
	o.noteProducers()
	for i := range o.fx.List {
		o.perform(ctx, &o.fx.List[i])
	}
}

// stepLocked changes the state under the lock and reports commits to the broker before it unlocks.
// So the tail and the waiters of the broker are up to date before a reader can see the new state.
func (o *owner) stepLocked(ev *core.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fx.Reset()
	o.core.Step(o.now(), ev, &o.fx)
	advanced := false
	for i := range o.fx.List {
		switch e := &o.fx.List[i]; e.Kind {
		case core.EffCommit:
			o.publish(e.Frozen)
		case core.EffApplied:
			advanced = true
		case core.EffRole: // before callers see its consequences
			if e.Err == core.ErrOvertaken {
				continue // it follows again at once
			}
			s := Status{Role: e.Role, Epoch: e.Epoch, Journaled: o.core.Journaled(), Err: e.Err, Ended: o.core.Err()}
			if e.Role == core.RoleFenced {
				s.Epoch = o.Status().Epoch
			}
			o.status.Store(&s)
		}
	}
	o.publishAccess()
	if advanced && o.opt.Hooks.Advanced != nil {
		o.opt.Hooks.Advanced()
	}
}

// publishAccess publishes the committed principals and rules if they have changed, or if the state
// was loaded again. It runs before the answer to the change, so no request that begins after the
// answer is judged by the previous ones.
func (o *owner) publishAccess() {
	s := o.core.State()
	if s == nil || s == o.accessOf && s.Access.Version == o.access.Load().Version {
		return
	}
	o.accessOf = s
	t := s.Access.Share()
	o.access.Store(&t)
	if o.opt.Hooks.AccessChanged != nil {
		o.opt.Hooks.AccessChanged()
	}
}

func (o *owner) perform(ctx context.Context, e *core.Effect) {
	switch e.Kind {
	case core.EffCommit:
		o.commit(e.Frozen)
	case core.EffUnknown:
		o.unknown(e.Frozen)
	case core.EffReject:
		o.rejectProposal(e.Proposal, e.Reject)
	case core.EffRole:
		o.setRole(e)
	case core.EffConfirmed:
		o.confirmed(e)
	case core.EffAlarm:
		o.alarm(e.Danger, "shard", o.opt.Core.Shard, "err", e.Err)
	case core.EffApplied:
	case core.EffNonce:
		o.reply(&core.Event{Kind: core.EvNonce, Op: e.Op, Nonce: record.NewID()})
	default:
		o.schedule(ctx, e)
	}
}

// schedule starts a request, now or after its delay. A slot is encoded at once in any case.
func (o *owner) schedule(ctx context.Context, e *core.Effect) {
	if e.Kind == core.EffPutData {
		o.encode(e)
	}
	if e.Delay <= 0 {
		o.request(ctx, e)
		return
	}
	// Jitter spreads the retries of brokers that were turned away together.
	o.delayed = append(o.delayed, delayed{at: o.now() + e.Delay/2 + rand.Int64N(e.Delay), e: *e})
}

func (o *owner) confirmed(e *core.Effect) {
	answer := o.confirms[e.Tag]
	if answer == nil {
		return
	}
	delete(o.confirms, e.Tag)
	answer <- e.Reject
}
