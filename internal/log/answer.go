package log

import (
	"github.com/sebbroker/seb/internal/failpoint"
	"github.com/sebbroker/seb/internal/log/core"
	"github.com/sebbroker/seb/internal/log/state"
)

// ack is the answer to an append or operation whose slot is committed, at time: the only function that makes one (rule
// R4). A duplicate's slot is that of its original, whose time nobody keeps: 0.
func ack(time int64, a *core.Append) Result {
	r := Result{Time: time, outcome: outcomeAcked}
	if a != nil {
		r.Base, r.Span = a.Base, int64(a.Span)
	}
	return r
}

// settleAppend answers an append of a proposal that the core is done with; committed says that the append is in a slot
// that is committed.
func (o *owner) settleAppend(m *member, a *core.Append, why core.Rejection, committed *core.Frozen) {
	if why != core.RejectNone {
		m.drop()
	}
	switch {
	case why == core.RejectNone && committed != nil:
		o.answer(m, ack(committed.Head.Time, a))
	case why == core.RejectDuplicate: // the core says so when the original is committed (rule R2)
		r := ack(0, a)
		r.Duplicate = true
		o.answer(m, r)
	case why == core.RejectUnknown:
		o.answer(m, Result{})
	default:
		o.answer(m, failed(o.rejection(why, a.Next)))
	}
}

// settleOp is the same for an operation.
func (o *owner) settleOp(m *member, op *core.Op, why core.Rejection, committed *core.Frozen) {
	if why == core.RejectNone && committed != nil {
		o.answer(m, ack(committed.Head.Time, nil))
		return
	}
	o.answer(m, failed(o.rejection(why, op.Next)))
}

// publish tells the broker of a committed slot. The state is locked: nobody has seen it yet.
func (o *owner) publish(f *core.Frozen) {
	p := f.Proposal.User.(*proposal)
	if o.opt.Hooks.Committed != nil {
		o.opt.Hooks.Committed(&Committed{
			Key: f.Key, Epoch: f.Head.Epoch, Slot: f.Head.Slot, Time: f.Head.Time, Index: f.Index,
			Topics: changesTopics(p.p.Ops), Object: p.object,
		})
	}
}

// changesTopics says whether an operation that was accepted changes what readers find.
func changesTopics(ops []core.Op) bool {
	for i := range ops {
		if ops[i].Err != core.RejectNone {
			continue
		}
		switch ops[i].Record.Kind {
		case state.TopicCreate, state.TopicDelete, state.TopicChange, state.TopicTrim:
			return true
		}
	}
	return false
}

// commit answers the members of a committed slot. Only the handling of EffCommit calls it.
func (o *owner) commit(f *core.Frozen) {
	failpoint.Hit("commit.before-answer")
	p := f.Proposal.User.(*proposal)
	for i, m := range p.ops {
		o.settleOp(m, &p.p.Ops[i], p.p.Ops[i].Err, f)
	}
	for i, m := range p.appends {
		o.settleAppend(m, &p.p.Appends[i], p.p.Appends[i].Err, f)
	}
	failpoint.Hit("commit.after-answer")
	o.met.committed(f, p, o.now())
	o.keep.offer(p.object)
	o.settled(p)
}

// unknown answers the members of a slot that was sent and has no verdict. Members that were left out of it are surely in
// no slot, but why rests on a state that was not committed: they hear only that this log can not go on.
func (o *owner) unknown(f *core.Frozen) {
	failpoint.Hit("fenced.before-answer")
	p := f.Proposal.User.(*proposal)
	why := core.RejectFenced
	if o.core.Role() == core.RoleStopped {
		why = core.RejectStopped
	}
	for i, m := range p.ops {
		o.lost(m, p.p.Ops[i].Err, why)
	}
	for i, m := range p.appends {
		o.lost(m, p.p.Appends[i].Err, why)
	}
	o.settled(p)
}

func (o *owner) lost(m *member, left, why core.Rejection) {
	m.drop()
	if left == core.RejectNone || left == core.RejectUnknown {
		o.answer(m, Result{})
		return
	}
	o.answer(m, failed(o.rejection(why, 0)))
}

// turnDown answers the members of a proposal that is in no slot. What they were refused for was checked against what is
// committed by now (rule R2).
func (o *owner) turnDown(lp *core.Proposal, why core.Rejection) {
	p := lp.User.(*proposal)
	or := func(own core.Rejection) core.Rejection {
		if own != core.RejectNone {
			return own
		}
		return why
	}
	for i, m := range p.ops {
		o.settleOp(m, &lp.Ops[i], or(lp.Ops[i].Err), nil)
	}
	for i, m := range p.appends {
		m.drop()
		o.settleAppend(m, &lp.Appends[i], or(lp.Appends[i].Err), nil)
	}
	o.settled(p)
}

// settled ends a proposal. Attempts that still run hold the object.
func (o *owner) settled(p *proposal) {
	delete(o.open, p)
	o.storing -= p.bytes
	o.batch.Storing(o.storing)
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
func (o *owner) rejection(why core.Rejection, next int64) error {
	e := &RejectedError{Why: why, Next: next}
	switch why {
	case core.RejectStore:
		e.Err = o.health.err()
	case core.RejectStopped:
		e.Err = o.Status().Err
	}
	return e
}
