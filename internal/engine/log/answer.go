package log

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/sebbroker/seb/internal/engine/base/failpoint"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
)

// ack makes the acknowledgement of an append or operation whose slot was committed at time. It is
// the only function that makes one (rule R4). The slot of a duplicate is that of its original,
// whose append time is not stored: time is 0.
func ack(time int64, a *core.Append) Result {
	r := Result{Time: time, outcome: outcomeAcked}
	if a != nil {
		r.Base, r.Span = a.Base, int64(a.Span)
	}
	return r
}

// settleAppend answers an append whose proposal the core has answered. committed is its slot if
// that was committed, else nil.
func (o *owner) settleAppend(m *member, a *core.Append, why error, committed *core.Frozen) {
	if why != nil {
		m.drop()
	}
	switch {
	case why == nil && committed != nil:
		o.answer(m, ack(committed.Head.Time, a))
	case why == core.ErrDuplicate: // reported after the original is committed (R2)
		r := ack(0, a)
		r.Duplicate = true
		o.answer(m, r)
	case why == state.ErrOutcomeUnknown:
		o.answer(m, Result{})
	default:
		o.answer(m, failed(why))
	}
}

// settleOp is settleAppend for op i of a proposal. An op that an append joins has the answer of that.
func (o *owner) settleOp(p *core.Proposal, i int, m *member, why error, committed *core.Frozen) {
	switch {
	case m.joined():
		o.settleAppend(m, &p.Appends[p.Ops[i].Audit-1], why, committed)
	case why == nil && committed != nil:
		o.answer(m, ack(committed.Head.Time, nil))
	case why == core.ErrDuplicate: // an end or an init of a transaction, reported after the original is committed (R2)
		r := ack(0, nil)
		r.Duplicate = true
		o.answer(m, r)
	default:
		o.answer(m, failed(why))
	}
}

// publish reports a committed slot to the broker. Its caller holds the state's lock, so no reader
// sees the new state before the broker does.
func (o *owner) publish(f *core.Frozen) {
	p := f.Proposal.User.(*proposal)
	if o.opt.Hooks.Committed != nil {
		o.opt.Hooks.Committed(&Committed{
			Key: f.Key, Epoch: f.Head.Epoch, Slot: f.Head.Slot, Time: f.Head.Time, Index: f.Index,
			Topics: changesTopics(p.p.Ops), Object: p.object, State: o.core.State(),
		})
	}
}

// changesTopics reports whether an accepted operation changes topics or start offsets.
func changesTopics(ops []core.Op) bool {
	for i := range ops {
		if ops[i].Err != nil {
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
		o.settleOp(&p.p, i, m, p.p.Ops[i].Err, f)
	}
	for i, m := range p.appends {
		o.settleAppend(m, &p.p.Appends[i], p.p.Appends[i].Err, f)
	}
	failpoint.Hit("commit.after-answer")
	o.met.committed(f, p, o.now())
	o.feeder.offer(p.object)
	if o.feeding.Load() {
		o.opt.Hooks.Fed(state.Position{Epoch: f.Head.Epoch, Slot: f.Head.Slot}, p.object.Parts[0])
	}
	o.settled(p)
}

// unknown answers the members of a slot that was sent and has no verdict. Members that were left
// out of it are certainly in no slot. Their refusals rest on a state that was not committed, so the
// core has replaced them by the error that ended the log.
func (o *owner) unknown(f *core.Frozen) {
	failpoint.Hit("fenced.before-answer")
	p := f.Proposal.User.(*proposal)
	for i, m := range p.ops {
		o.answerUnsettled(m, p.p.Ops[i].Err)
	}
	for i, m := range p.appends {
		o.answerUnsettled(m, p.p.Appends[i].Err)
	}
	o.settled(p)
}

func (o *owner) answerUnsettled(m *member, why error) {
	m.drop()
	if why == nil || why == state.ErrOutcomeUnknown {
		o.answer(m, Result{})
		return
	}
	o.answer(m, failed(why))
}

// rejectProposal answers the members of a proposal that is in no slot. Their refusals were checked
// against a state that is committed by now (rule R2).
func (o *owner) rejectProposal(lp *core.Proposal, why error) {
	p := lp.User.(*proposal)
	for i, m := range p.ops {
		o.settleOp(lp, i, m, cmp.Or(lp.Ops[i].Err, why), nil)
	}
	for i, m := range p.appends {
		m.drop()
		o.settleAppend(m, &lp.Appends[i], cmp.Or(lp.Appends[i].Err, why), nil)
	}
	o.settled(p)
}

// settled ends a proposal. Running attempts still hold the object.
func (o *owner) settled(p *proposal) {
	delete(o.open, p)
	o.storing -= p.bytes
	o.batch.Storing(o.storing)
	if p.object != nil {
		p.object.Release()
		p.object = nil
	}
}

// abandon answers the remaining callers when the owner ends: rejected if queued, unknown if sent.
func (o *owner) abandon() {
	for o.batch.Len() > 0 {
		o.taken = o.batch.Take(o.taken[:0], o.now(), true)
		for _, m := range o.taken {
			if !m.ticket.atomic {
				o.reject(m, ErrClosed)
				continue
			}
			for i := range m.ticket.members {
				o.reject(&m.ticket.members[i], ErrClosed)
			}
		}
	}
	for _, answer := range o.confirms {
		answer <- ErrClosed
	}
	clear(o.confirms)
	for p := range o.open {
		r := failed(ErrClosed)
		if p.object != nil {
			r = Result{} // a PUT was started
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

func failed(err error) Result {
	if err == nil {
		panic("log: rejection without an error")
	}
	return Result{outcome: outcomeFailed, err: err}
}

// The log's own refusals; it passes on those of the core (package state). Every error of a Result
// except state.ErrOutcomeUnknown means that the append is in no slot and never will be.
var (
	// ErrClosed: the log is closing or closed.
	ErrClosed = errors.New("broker is closing")
	// ErrQueueFull: too many bytes wait to be frozen. It is state.ErrOverBudget.
	ErrQueueFull = fmt.Errorf("%w: queue of appends is full", state.ErrOverBudget)
	// ErrNotSent: the caller stopped waiting before its append was sent. The append was removed and
	// will never appear. The error also wraps the context's cause, and the clock's error if writes
	// wait for the clock.
	ErrNotSent = errors.New("append canceled before it was sent: it will not appear")
)

func (l *Log) notSent(cause error) error {
	if wrong := l.ClockError(); wrong != nil {
		return fmt.Errorf("%w: %w: %w", ErrNotSent, wrong, cause)
	}
	return fmt.Errorf("%w: %w", ErrNotSent, cause)
}
