package log

import (
	"context"

	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// proposal is the User data of a core.Proposal.
type proposal struct {
	p       core.Proposal
	appends []*member // by position in p.Appends
	ops     []*member // by position in p.Ops
	object  *Object   // set by the first attempt
	started int64     // when it was frozen
	bytes   int64     // of the members
}

// freeze passes due items to the core while it has room and the clock is right. A core that does
// not lead has room and rejects them.
func (o *owner) freeze(ctx context.Context) {
	o.batch.Prompt(o.core.Prompt())
	for o.due() && o.core.Room() {
		at, holds := o.clockHolds(ctx)
		if holds {
			return
		}
		clear(o.taken)
		atOnce := o.flushing || o.core.Role() != core.RoleLeader
		if o.taken = o.batch.Take(o.taken[:0], o.now(), atOnce); len(o.taken) == 0 {
			return
		}
		o.propose(ctx, o.taken, at)
	}
}

// due reports whether the queued items may be frozen now. Reading the clock of the log costs more.
func (o *owner) due() bool {
	at, ok := o.batch.Due()
	return ok && (at <= o.now() || o.held || o.flushing || o.core.Role() != core.RoleLeader)
}

// propose passes members to the core as the next slot, with the log time at.
func (o *owner) propose(ctx context.Context, taken []*member, at int64) {
	p := &proposal{started: o.now()}
	p.p.User = p
	p.p.Appends = make([]core.Append, 0, len(taken))
	p.appends = make([]*member, 0, len(taken))
	for _, m := range taken {
		m.state = memberSent
		o.queued.Add(-m.bytes)
		p.bytes += m.bytes
		if m.op != nil && !m.joined() && !m.ticket.atomic {
			p.op(m)
		}
	}
	if o.opt.Hooks.Riders != nil {
		for _, op := range o.opt.Hooks.Riders() {
			p.op(&member{op: &op, state: memberDone}) // never answered
		}
	}
	for _, m := range taken { // last, so that none of the others deletes the topic of their appends
		if m.joined() && !m.ticket.atomic {
			p.op(m)
		}
	}
	for _, m := range taken {
		if m.ticket.atomic {
			p.atomic(m.ticket.members)
		}
	}
	for _, m := range taken {
		if m.op == nil && !m.ticket.atomic {
			at := p.append(m)
			p.p.Appends[at].Audit = p.audit(m)
		}
		if m.op != nil && m.op.Transact != nil {
			m.op.Transact.Before = 1 + int32(len(p.p.Appends))
		}
	}
	o.open[p] = struct{}{}
	o.storing += p.bytes
	o.batch.Storing(o.storing)
	ev := core.Event{Kind: core.EvFreeze, Proposal: &p.p, Wall: at}
	if s := o.core.State(); o.opt.RaiseMax != nil && s != nil && s.Level < state.LevelMax {
		ev.RaiseMax = max(o.raiseMax(), state.LevelFirst)
	}
	o.step(ctx, &ev)
}

// op adds a member's op, with the append of its audit record or the one that joins it.
func (p *proposal) op(m *member) {
	op := *m.op
	if op.Late != nil {
		op.Record.Queue = op.Late()
	}
	op.Audit = p.audit(m)
	p.p.Ops = append(p.p.Ops, op)
	p.ops = append(p.ops, m)
}

// atomic adds the members of an atomic request.
func (p *proposal) atomic(members []member) {
	ops, appends := core.Span{From: int32(len(p.p.Ops))}, core.Span{From: int32(len(p.p.Appends))}
	for i := range members {
		m := &members[i]
		m.state = memberSent
		if m.op == nil {
			p.append(m)
			continue
		}
		p.op(m)
		p.p.Ops[len(p.p.Ops)-1].Atomic = true
	}
	ops.To, appends.To = int32(len(p.p.Ops)), int32(len(p.p.Appends))
	p.p.Atomics = append(p.p.Atomics, core.Atomic{Ops: ops, Appends: appends})
}

// append adds a member's append, and returns its position.
func (p *proposal) append(m *member) int {
	p.p.Appends, p.appends = append(p.p.Appends, m.Head), append(p.appends, m)
	return len(p.appends) - 1
}

// audit adds the audit record of a member, if it has one, and returns the number by which the core
// knows it.
func (p *proposal) audit(m *member) int32 {
	if m.audit == nil {
		return 0
	}
	m.audit.since = m.since
	return 1 + int32(p.append(m.audit))
}

// encode builds the object of a slot at its first attempt. The core gets its checksum when the
// current effects are performed.
func (o *owner) encode(e *core.Effect) *Object {
	p := o.proposalOf(e.Frozen.Proposal)
	if p.object != nil {
		return p.object
	}
	for i := len(p.appends); i < len(p.p.Appends); i++ { // markers of transactions
		p.appends = append(p.appends, &member{Append: Append{Data: record.AppendMarker(nil, p.p.Appends[i].Marker)}, state: memberDone})
	}
	object, crc, err := build(e.Frozen, p.appends, o.opt.Budget)
	if err != nil {
		// Only a broken invariant of this program leads here, because the core froze the shell's
		// own members. To continue would mean to guess offsets.
		panic("log: encode slot " + e.Frozen.Key + ": " + err.Error())
	}
	p.object = object
	o.encoded = append(o.encoded, core.Event{Kind: core.EvEncoded, Op: e.Op, HeadCRC: crc})
	return object
}

// proposalOf returns the User data of a proposal. For a proposal that the core made itself, which
// has no members, it creates them.
func (o *owner) proposalOf(lp *core.Proposal) *proposal {
	if lp.User == nil {
		p := &proposal{started: o.now()}
		lp.User = p
		o.open[p] = struct{}{}
	}
	return lp.User.(*proposal)
}
