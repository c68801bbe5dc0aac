package log

import (
	"context"

	"github.com/sebbroker/seb/internal/log/core"
)

// proposal is what hangs on a core.Proposal.
type proposal struct {
	p       core.Proposal
	appends []*member // by position in p.Appends
	ops     []*member // by position in p.Ops
	object  *Object   // from the first attempt on
	started int64     // when it was frozen
	bytes   int64     // of the members
}

// freeze gives the core what is due, as long as it has room and the clock is right. A core that does not lead has room, and
// rejects.
func (o *owner) freeze(ctx context.Context) {
	for o.batch.Len() > 0 && o.core.Room() && !o.held(ctx) {
		clear(o.taken)
		atOnce := o.flushing || o.core.Role() != core.RoleLeader
		if o.taken = o.batch.Take(o.taken[:0], o.now(), atOnce); len(o.taken) == 0 {
			return
		}
		o.propose(ctx, o.taken)
	}
}

func (o *owner) propose(ctx context.Context, taken []*member) {
	p := &proposal{started: o.now()}
	p.p.User = p
	p.p.Appends = make([]core.Append, 0, len(taken))
	p.appends = make([]*member, 0, len(taken))
	for _, m := range taken {
		m.state = memberSent
		o.queued.Add(-m.bytes)
		p.bytes += m.bytes
		if m.op != nil {
			p.p.Ops = append(p.p.Ops, *m.op)
			p.ops = append(p.ops, m)
			continue
		}
		p.p.Appends = append(p.p.Appends, m.head)
		p.appends = append(p.appends, m)
	}
	o.open[p] = struct{}{}
	o.storing += p.bytes
	o.batch.Storing(o.storing)
	at, _ := o.time()
	o.step(ctx, &core.Event{Kind: core.EvFreeze, Proposal: &p.p, Wall: at})
}

// encode makes the object of a slot at its first attempt. Its checksum goes back to the core as soon as the effects at
// hand are performed.
func (o *owner) encode(e *core.Effect) *Object {
	p := o.proposalOf(e.Frozen.Proposal)
	if p.object != nil {
		return p.object
	}
	object, crc, err := build(e.Frozen, p.appends, o.opt.Budget)
	if err != nil {
		// The core froze what the shell handed it: only a broken invariant of this program gets here, and going on
		// would mean guessing at offsets.
		panic("log: encode slot " + e.Frozen.Key + ": " + err.Error())
	}
	p.object = object
	o.encoded = append(o.encoded, core.Event{Kind: core.EvEncoded, Op: e.Op, HeadCRC: crc})
	return object
}

// proposalOf returns what hangs on a proposal. On one that the core made itself that is hung here: it has no members.
func (o *owner) proposalOf(lp *core.Proposal) *proposal {
	if lp.User == nil {
		p := &proposal{started: o.now()}
		lp.User = p
		o.open[p] = struct{}{}
	}
	return lp.User.(*proposal)
}
