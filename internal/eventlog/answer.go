package eventlog

import (
	"github.com/sebbroker/seb/internal/logcore"
)

// ack is the answer to an append or operation whose slot is committed: the only function that makes one (rule R4).
func ack(f *logcore.Frozen, a *logcore.Append) Result {
	r := Result{Time: f.Head.Time, outcome: outcomeAcked}
	if a != nil {
		r.Base, r.Span = a.Base, int64(a.Span)
	}
	return r
}

// publish tells the broker of a committed slot. The state is locked: nobody has seen it yet.
func (o *owner) publish(f *logcore.Frozen) {
	p := f.Proposal.User.(*proposal)
	if o.opt.Hooks.Committed != nil {
		o.opt.Hooks.Committed(&Committed{
			Key: f.Key, Epoch: f.Head.Epoch, Slot: f.Head.Slot, Time: f.Head.Time, Index: f.Index,
			Topics: len(p.p.Ops) > 0, Object: p.object,
		})
	}
}

// commit answers the members of a committed slot. Only the handling of EffCommit calls it.
func (o *owner) commit(f *logcore.Frozen) {
	p := f.Proposal.User.(*proposal)
	for i, m := range p.ops {
		if why := p.p.Ops[i].Err; why != logcore.RejectNone {
			o.answer(m, failed(o.rejection(why, 0)))
			continue
		}
		o.answer(m, ack(f, nil))
	}
	for i, m := range p.appends {
		a := &p.p.Appends[i]
		if a.Err != logcore.RejectNone {
			m.drop()
			o.answer(m, failed(o.rejection(a.Err, a.Next)))
			continue
		}
		o.answer(m, ack(f, a))
	}
	o.met.committed(f, p, o.now())
	o.keep.offer(p.object)
	o.settled(p)
}

// unknown answers the members of a slot that was sent and has no verdict. Members that were left out of it are surely in
// no slot, but why rests on a state that was not committed: they hear only that this log can not go on.
func (o *owner) unknown(f *logcore.Frozen) {
	p := f.Proposal.User.(*proposal)
	why := logcore.RejectFenced
	if o.core.Role() == logcore.RoleStopped {
		why = logcore.RejectStopped
	}
	for i, m := range p.ops {
		o.lost(m, p.p.Ops[i].Err, why)
	}
	for i, m := range p.appends {
		o.lost(m, p.p.Appends[i].Err, why)
	}
	o.settled(p)
}

func (o *owner) lost(m *member, left, why logcore.Rejection) {
	m.drop()
	if left == logcore.RejectNone {
		o.answer(m, Result{})
		return
	}
	o.answer(m, failed(o.rejection(why, 0)))
}

// turnDown answers the members of a proposal that is in no slot. What they were refused for was checked against what is
// committed by now (rule R2).
func (o *owner) turnDown(lp *logcore.Proposal, why logcore.Rejection) {
	p := lp.User.(*proposal)
	or := func(own logcore.Rejection) logcore.Rejection {
		if own != logcore.RejectNone {
			return own
		}
		return why
	}
	for i, m := range p.ops {
		o.answer(m, failed(o.rejection(or(lp.Ops[i].Err), 0)))
	}
	for i, m := range p.appends {
		m.drop()
		o.answer(m, failed(o.rejection(or(lp.Appends[i].Err), lp.Appends[i].Next)))
	}
	o.settled(p)
}

// settled ends a proposal. Attempts that still run hold the object.
func (o *owner) settled(p *proposal) {
	delete(o.open, p)
	if p.object != nil {
		p.object.Release()
		p.object = nil
	}
}

// abandon answers whoever is left when the owner ends: rejected if queued, unknown if sent.
func (o *owner) abandon() {
	for o.batch.Len() > 0 {
		o.taken = o.batch.Take(o.taken[:0], o.now(), true)
		for _, m := range o.taken {
			o.reject(m, &RejectedError{Err: ErrClosed})
		}
	}
	for _, c := range o.confirms {
		c.answer <- ErrClosed
	}
	clear(o.confirms)
	for p := range o.open {
		r := failed(&RejectedError{Err: ErrClosed})
		if p.object != nil {
			r = Result{} // a PUT was begun
		}
		for _, m := range p.ops {
			o.answer(m, r)
		}
		for _, m := range p.appends {
			m.drop()
			o.answer(m, r)
		}
		o.settled(p)
	}
}

func failed(err error) Result { return Result{outcome: outcomeFailed, err: err} }

// rejection makes the error of a rejection by the core.
func (o *owner) rejection(why logcore.Rejection, next int64) error {
	e := &RejectedError{Why: why, Next: next}
	switch why {
	case logcore.RejectStore:
		e.Err = o.health.err()
	case logcore.RejectStopped:
		e.Err = o.Status().Err
	}
	return e
}
