package sim

import (
	"cmp"
	"encoding/binary"

	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// proposal makes a proposal of ops, topic creations first.
func (r *run) proposal(ops []*op) *core.Proposal {
	p := &core.Proposal{}
	var order, atomics, rest, appends []*op
	for _, o := range ops {
		if o.members != nil {
			atomics = append(atomics, o)
			continue
		}
		if o.rec != nil {
			change := r.change(o)
			if r.n.w.auditedKind(o.rec.Kind) {
				change.Audit = r.auditFor(p, &appends, changeOf(&change.Record))
			}
			p.Ops = append(p.Ops, change)
			order = append(order, o)
			continue
		}
		if o.create == "" {
			rest = append(rest, o)
			continue
		}
		var id record.ID
		binary.LittleEndian.PutUint64(id[:], r.n.w.idRand.Uint64())
		binary.LittleEndian.PutUint64(id[8:], r.n.w.idRand.Uint64())
		p.Ops = append(p.Ops, core.Op{Record: state.Record{
			Kind: state.TopicCreate, Topic: id, Name: o.create, Partitions: uint32(cmp.Or(o.parts, r.n.w.cfg.Parts)), Settings: o.settings,
		}})
		order = append(order, o)
	}
	for _, o := range atomics {
		r.atomic(p, o, &order, &appends)
	}
	for _, o := range rest {
		if o.dropped {
			o.answer(unknown, 0)
			continue
		}
		if o.transact != nil {
			p.Ops, order = append(p.Ops, r.transact(o, len(p.Appends))), append(order, o)
			continue
		}
		p.Appends, appends = append(p.Appends, r.appendOf(o)), append(appends, o)
		if o.client != nil && o.client.audited {
			at := len(p.Appends) - 1
			p.Appends[at].Audit = r.auditFor(p, &appends, "append "+o.values[0])
		}
	}
	p.User = append(order, appends...)
	return p
}

// appendOf returns the proposal of an append.
func (r *run) appendOf(o *op) core.Append {
	a := core.Append{
		Partition: o.key.part, Span: uint32(len(o.values)), Records: uint32(len(o.values)), Bytes: uint32(len(o.data)),
		Expected: o.expected, Check: o.check, Idempotent: o.batch != nil, MinTime: o.sum.MinTimestamp, MaxTime: o.sum.MaxTimestamp,
	}
	if o.batch != nil {
		a.Producer = *o.batch
		b, _, err := record.Split(o.data)
		a.Transactional = err == nil && b.Transactional()
	}
	if s := r.core.State(); s != nil {
		if t := s.TopicByName(o.key.topic); t != nil {
			a.Topic = t.ID
		}
	}
	return a
}

// change returns the proposal of a trim or of a committed offset. The topic's ID is known when the
// broker leads.
func (r *run) change(o *op) core.Op {
	rec := *o.rec
	if s := r.core.State(); s != nil && o.key.topic != "" {
		if t := s.TopicByName(o.key.topic); t != nil {
			rec.Topic = t.ID
		}
	}
	return core.Op{Record: rec, Conditional: o.conditional, Expected: o.expected, Epoch: o.epoch}
}
