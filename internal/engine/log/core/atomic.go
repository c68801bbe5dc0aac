package core

import "github.com/sebbroker/seb/internal/engine/log/state"

// checkAtomic accepts all members of an atomic request, or none. It checks them all before it changes the
// overlay. No member changes the result of another: their partitions differ, and the checks count the memory
// of all.
func (c *Core) checkAtomic(p *Proposal, at *Atomic, records []state.Record) []state.Record {
	ops, appends := p.Ops[at.Ops.From:at.Ops.To], p.Appends[at.Appends.From:at.Appends.To]
	for i := range ops {
		if err := c.refusesOp(&ops[i]); err != nil {
			p.refuse(at, ops[i].Audit-1, err)
			return records
		}
	}
	owners := make([]uint32, len(appends))
	var grown int64
	duplicates := 0
	for i := range appends {
		var err error
		if owners[i], grown, records, err = c.refusesPart(&appends[i], grown, records); err == ErrDuplicate {
			duplicates++
			err = nil
		}
		if err == nil && i+1 == len(appends) && duplicates > 0 && duplicates < len(appends) {
			err = state.ErrSequenceGap
		}
		if err != nil {
			p.refuse(at, at.Appends.From+int32(i), err)
			return records
		}
	}
	if duplicates > 0 {
		p.setErr(at, ErrDuplicate)
		return records
	}
	p.setErr(at, nil)
	for i := range appends { // before producers take memory that the checks do not count
		a := &appends[i]
		base, err := c.lead.overlay.Reserve(a.Topic, a.Partition, a.Span, -1)
		if err != nil {
			panic("core: an atomic request was checked: " + err.Error())
		}
		a.Base = base
	}
	for i := range appends {
		records = c.produced(&appends[i], owners[i], records)
	}
	for i := range ops {
		ops[i].Record.Queue.Place(p.Appends[ops[i].Audit-1].Base)
		records = append(records, c.proposeOwn(ops[i].Record))
	}
	return records
}

// refusesOp returns why an op of an atomic request cannot be accepted, or nil.
func (c *Core) refusesOp(op *Op) error {
	switch {
	case op.Epoch != 0 && op.Epoch != c.lead.overlay.Pos.Epoch:
		return state.ErrNotLeader
	case !c.lead.overlay.Access.Permits(op.Check):
		return state.ErrUnauthorized
	}
	return c.lead.overlay.Refuses(&op.Record)
}

// refusesPart returns why an append of an atomic request cannot be accepted, or nil. Those before it will grow
// the tables by held bytes. It makes a place for its producer, as checkAppend does. A request may exceed the
// limit of producers by its own.
func (c *Core) refusesPart(a *Append, held int64, records []state.Record) (owner uint32, grown int64, _ []state.Record, err error) {
	if !c.lead.overlay.Access.Permits(a.Check) {
		return 0, held, records, state.ErrUnauthorized
	}
	if a.Idempotent {
		if err = c.refusesBatch(a); err == nil && a.Keyed && c.seenElsewhere(a) {
			err = state.ErrSequenceGap
		}
		if err == nil {
			owner, records, err = c.rememberProducer(a, records)
		}
		if err != nil {
			return 0, held, records, err
		}
	}
	grown, err = c.lead.overlay.Reservable(a.Topic, a.Partition, -1, held)
	return owner, grown, records, err
}

// seenElsewhere reports whether any partition of the topic has a batch of the producer's epoch, which is the number
// of its request. A part that is no duplicate then repeats a request with other partitions.
func (c *Core) seenElsewhere(a *Append) bool {
	t := c.lead.overlay.Topic(a.Topic)
	if t == nil {
		return false
	}
	k := state.ProducerKey{PartitionID: state.PartitionID{Topic: a.Topic}, ID: a.Producer.ID}
	for ; k.Partition < uint32(t.Partitions.Len()); k.Partition++ {
		if p, known := c.lead.overlay.Producer(k); known && p.Epoch == a.Producer.Epoch {
			return true
		}
	}
	return false
}

// refuse sets the errors of an atomic request that is refused because of Appends[at], or of the op that it
// joins.
func (p *Proposal) refuse(of *Atomic, at int32, why error) {
	p.setErr(of, state.ErrAtomic)
	p.Appends[at].Err = why
	for i := of.Ops.From; i < of.Ops.To; i++ {
		if p.Ops[i].Audit-1 == at {
			p.Ops[i].Err = why
		}
	}
}

// setErr sets the error of all members of an atomic request.
func (p *Proposal) setErr(of *Atomic, err error) {
	for i := of.Ops.From; i < of.Ops.To; i++ {
		p.Ops[i].Err = err
	}
	for i := of.Appends.From; i < of.Appends.To; i++ {
		p.Appends[i].Err = err
	}
}
