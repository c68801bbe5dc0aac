package core

import (
	"fmt"
	"slices"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// leading is the state of a leader.
type leading struct {
	overlay *state.State // committed state plus every frozen slot, without ranges (rule R2)
	slots   []*slot      // in flight, in order; the first is at the committed position
	refused error        // ErrStoreUnavailable while the store refuses, until a verdict on a slot
	// when this leader last knew that it was not fenced: a commit or a look at the next slot (rule
	// R11)
	seenAt   int64
	lookedAt int64 // start of the newest request that showed that
	probing  bool
	groups   map[groupKey]group // reused by group
	since    int64              // when this core became leader
	// the commit objects of this epoch are in a journal
	journaled bool
	raiseMax  uint32 // of the newest EvFreeze
	show      showing
	park      parking
	remember  remembering
	scrub     scrubbing
}

type groupKey struct {
	topic     record.ID
	partition uint32
}

// group is a slot's appends for one partition.
type group struct {
	entry int32 // position in the index
	stamp bool  // the batches get the append time
}

// slot is one frozen slot in flight.
type slot struct {
	frozen  *Frozen
	records []state.Record
	encoded bool
	durable bool
	// frozenAt is when it was frozen, storedAt a time before it was stored.
	frozenAt, storedAt int64
	after              []*Proposal // rejected on a state that includes this slot; answered at its commit
}

// windowOpen is rule R2: slot s is sent only when slot s-K is committed. So at most K slots behind
// the committed end can exist in the store.
func (c *Core) windowOpen() bool {
	return len(c.lead.slots) < c.cfg.Window
}

// freeze checks a proposal against the overlay, fixes offsets, append time and slot, and sends the
// slot. The overlay contains all frozen slots, so the decision stays valid if they are committed;
// if one is not, this slot is not committed either.
func (c *Core) freeze(p *Proposal, wall int64) {
	if err := c.refusal(); err != nil {
		c.emit(Effect{Kind: EffReject, Proposal: p, Reject: err})
		return
	}
	if !c.windowOpen() {
		panic("core: freeze while the window is full")
	}
	c.lead.overlay.Room = c.room()
	records := c.checkOps(p)
	c.lead.remember.slotTime = c.slotTime(wall)
	c.lead.overlay.Freezing(c.lead.remember.slotTime)
	for i := range p.Atomics {
		records = c.checkAtomic(p, &p.Atomics[i], records)
	}
	records, accepted := c.checkAppends(p, records)
	records = c.transact(p, records)
	if accepted || len(records) > 0 {
		records = c.expireProducers(records)
	}
	if !accepted && len(records) == 0 && !p.asksLeader() {
		c.rejectLater(p)
		return
	}
	c.freezeSlot(p, records, wall)
}

// refusal is the error with which proposals are rejected now, or nil.
func (c *Core) refusal() error {
	switch {
	case c.endErr != nil:
		return c.endErr
	case c.cfg.ReadOnly:
		return state.ErrReadOnly
	case c.role != RoleLeader:
		return state.ErrNotLeader
	}
	return c.lead.refused
}

// rangesShare: 1/rangesShare of StateMax is reserved for ranges.
const rangesShare = 4

// room is how far the state may grow. Tables may use the rest of StateMax beyond the ranges. Ranges
// are refused only beyond their reserved share, so that a state with too large tables still accepts
// records; packs reduce the ranges later.
func (c *Core) room() state.Room {
	if c.cfg.StateMax <= 0 {
		return state.Room{}
	}
	held := c.committed.Memory()
	return state.Room{
		Max: c.cfg.StateMax, Ranges: held.Ranges, Queues: held.Queues,
		RangesFull: held.Ranges > c.cfg.StateMax/rangesShare && held.Ranges+held.Queues+c.lead.overlay.Memory().Tables > c.cfg.StateMax,
	}
}

// slotTime is the append time of the next slot: times grow.
func (c *Core) slotTime(wall int64) int64 { return max(wall, c.lead.overlay.AppendTime+1) }

// freezeSlot makes the next slot of the accepted members; the window must have room. A slot without
// members only advances the log.
func (c *Core) freezeSlot(p *Proposal, records []state.Record, wall int64) *slot {
	overlay := c.lead.overlay
	h := record.Head{
		Kind: record.KindData, Time: c.slotTime(wall), Cluster: c.cluster, Shard: c.cfg.Shard,
		Epoch: overlay.Pos.Epoch, Nonce: overlay.Nonce, Slot: overlay.Pos.Slot, Low: c.committed.Pos.Slot, PrevCRC: overlay.PrevCRC,
	}
	f := &Frozen{Key: state.SlotKey(h.Shard, h.Epoch, h.Nonce, h.Slot), Proposal: p, Head: h}
	records = c.promises(c.raise(p, records))
	f.State = state.EncodeRecords(nil, records)
	f.stamp = h.Time / 1000
	c.group(f)
	overlay.Froze(h.Time)
	s := &slot{frozen: f, records: records, frozenAt: c.now}
	c.lead.slots = append(c.lead.slots, s)
	c.put(s, 0)
	return s
}

// raise adds the record that raises the bucket's format level to the first slot of a client once
// the raise is due. A slot without a client's member raises nothing, so an idle broker changes no
// format.
func (c *Core) raise(p *Proposal, records []state.Record) []state.Record {
	to := uint32(state.LevelMax)
	if m := c.lead.raiseMax; m > 0 {
		to = min(to, m)
	}
	due := c.cfg.RaiseAfter >= 0 && c.since(c.lead.since, c.cfg.RaiseAfter)
	if !due || c.lead.overlay.Level >= to || !p.ofClient() {
		return records
	}
	r := state.RaiseTo(to)
	return append([]state.Record{c.proposeOwn(r)}, records...)
}

// proposeOwn applies a record of the core itself to the overlay, which accepts it.
func (c *Core) proposeOwn(r state.Record) state.Record {
	if err := c.lead.overlay.Propose(&r); err != nil {
		panic(fmt.Sprintf("core: %v: %v", r.Kind, err))
	}
	return r
}

// ofClient reports whether a client made any accepted member.
func (p *Proposal) ofClient() bool {
	for i := range p.Appends {
		if p.Appends[i].Err == nil {
			return true
		}
	}
	for i := range p.Ops {
		if op := &p.Ops[i]; op.Err == nil && !op.Own {
			return true
		}
	}
	return false
}

// RaiseAt is when a client's commit may first raise the bucket's format level, on the clock of
// Step. ok is false if none does: the bucket is at state.LevelMax, Config.RaiseAfter is negative,
// or this core is not leader.
func (c *Core) RaiseAt() (at int64, ok bool) {
	if c.role != RoleLeader || c.cfg.RaiseAfter < 0 || c.committed.Level >= state.LevelMax {
		return 0, false
	}
	return c.lead.since + int64(c.cfg.RaiseAfter), true
}

func (c *Core) checkOps(p *Proposal) []state.Record {
	var records []state.Record
	for i := range p.Ops {
		op := &p.Ops[i]
		if op.Atomic || op.Transact != nil {
			continue
		}
		if op.Err = c.audited(p, op.Audit, func() error { return c.checkOp(p, op) }); op.Err == nil {
			records = append(records, op.Record)
		}
	}
	return records
}

func (c *Core) checkOp(p *Proposal, op *Op) error {
	r := &op.Record
	switch {
	case op.Epoch != 0 && op.Epoch != c.lead.overlay.Pos.Epoch:
		return state.ErrNotLeader
	case !c.lead.overlay.Access.Permits(op.Check):
		return state.ErrUnauthorized
	case op.Conditional:
		next := c.lead.overlay.CommittedOffset(r.Name, state.PartitionID{Topic: r.Topic, Partition: r.Partition})
		if next != op.Expected {
			return &state.OffsetMismatchError{Group: r.Name, Expected: op.Expected, Next: next}
		}
	case r.Kind == state.TopicDelete && p.audits(r.Topic):
		return state.ErrAuditTopic
	}
	if op.Placed {
		r.Queue.Place(p.Appends[op.Audit-1].Base)
	}
	return c.lead.overlay.Propose(r)
}

// audits reports whether audit records of the proposal go to a topic.
func (p *Proposal) audits(topic record.ID) bool {
	return slices.ContainsFunc(p.Appends, func(a Append) bool { return a.Audits && a.Topic == topic })
}

// audited accepts a change together with its audit record, or neither. Without room for the record
// there is no change, and without the change the record's offset is given back.
func (c *Core) audited(p *Proposal, audit int32, change func() error) error {
	if audit == 0 {
		return change()
	}
	a := &p.Appends[audit-1]
	if !c.lead.overlay.Access.Permits(a.Check) {
		a.Err = state.ErrUnauthorized
		return a.Err
	}
	if a.Base, a.Err = c.lead.overlay.Reserve(a.Topic, a.Partition, a.Span, a.Expected); a.Err != nil {
		if a.Audits {
			a.Err = fmt.Errorf("%w: %s", state.ErrNotAudited, a.Err.Error())
		}
		return a.Err
	}
	if a.Err = change(); a.Err != nil {
		c.lead.overlay.Unreserve(a.Topic, a.Partition, a.Span)
	}
	return a.Err
}

// checkAppends assigns offsets.
func (c *Core) checkAppends(p *Proposal, records []state.Record) (_ []state.Record, accepted bool) {
	for i := range p.Appends {
		a := &p.Appends[i]
		if !a.Audits && !a.Joins && !a.Atomic { // they were decided with their change
			a.Err = c.audited(p, a.Audit, func() (err error) {
				records, err = c.checkAppend(a, records)
				return err
			})
		}
		accepted = accepted || a.Err == nil
	}
	return records, accepted
}

// checkAppend assigns the offsets of an append. An idempotent producer's batch is recorded by a
// state record of the same slot, so batch and record become durable together.
func (c *Core) checkAppend(a *Append, records []state.Record) (_ []state.Record, err error) {
	overlay := c.lead.overlay
	if !overlay.Access.Permits(a.Check) {
		return records, state.ErrUnauthorized
	}
	if a.Idempotent {
		if err := c.refusesBatch(a); err != nil {
			return records, err
		}
	}
	var owner uint32
	if a.Idempotent {
		if owner, records, err = c.rememberProducer(a, records); err != nil {
			return records, err
		}
	}
	if a.Base, err = overlay.Reserve(a.Topic, a.Partition, a.Span, a.Expected); err != nil {
		return records, err
	}
	return c.produced(a, owner, records), nil
}

// produced adds the record about an idempotent producer's batch.
func (c *Core) produced(a *Append, owner uint32, records []state.Record) []state.Record {
	if !a.Idempotent {
		return records
	}
	return append(records, c.proposeOwn(state.Record{
		Kind: state.ProducerAppend, Topic: a.Topic, Partition: a.Partition, Offset: a.Base, Producer: a.Producer, Owner: owner,
		Transactional: a.Transactional,
	}))
}

// refusesBatch returns why an idempotent producer's batch must not be appended, because it is a
// duplicate or out of order, or nil.
func (c *Core) refusesBatch(a *Append) error {
	base, duplicate, err := c.lead.overlay.CheckProducer(a.Topic, a.Partition, &a.Producer)
	if duplicate {
		a.Base = base
		return ErrDuplicate
	}
	if err == nil {
		err = c.refusesTransactional(a)
	}
	if err == nil && a.Transactional {
		err = c.lead.overlay.RefusesPart(a.Producer.ID, state.PartitionID{Topic: a.Topic, Partition: a.Partition}, c.committed.Aborted())
	}
	return err
}

// rejectLater rejects a proposal without accepted members once the overlay that it was checked
// against is committed. The rejections may rest on slots in flight, which may never be committed
// (rule R2).
func (c *Core) rejectLater(p *Proposal) {
	n := len(c.lead.slots)
	if n == 0 {
		c.emit(Effect{Kind: EffReject, Proposal: p})
		return
	}
	last := c.lead.slots[n-1]
	last.after = append(last.after, p)
}

// group makes one index entry per partition and orders the appends by partition, in append order
// within each.
func (c *Core) group(f *Frozen) {
	if c.lead.groups == nil {
		c.lead.groups = map[groupKey]group{}
	}
	clear(c.lead.groups)
	appends := f.Proposal.Appends
	of := make([]int32, len(appends)) // index entry of each append, -1: rejected
	var counts []int32
	for i := range appends {
		a := &appends[i]
		if of[i] = -1; a.Err != nil {
			continue
		}
		k := groupKey{a.Topic, a.Partition}
		g, ok := c.lead.groups[k]
		if !ok {
			g = group{entry: int32(len(f.Index)), stamp: c.stamps(a.Topic)}
			c.lead.groups[k] = g
		}
		if a.Stamp = g.stamp; a.Stamp {
			a.MinTime, a.MaxTime = f.stamp, f.stamp
		}
		if !ok {
			f.Index = append(f.Index, record.IndexEntry{
				Topic: a.Topic, Partition: a.Partition, Base: a.Base,
				MinTime: a.MinTime, MaxTime: a.MaxTime, AppendTime: f.Head.Time,
			})
			counts = append(counts, 0)
		}
		of[i] = g.entry
		counts[g.entry]++
		f.Bytes += int64(a.Bytes)
		e := &f.Index[g.entry]
		if a.Base != e.Base+int64(e.Span) {
			panic(fmt.Sprintf("core: append at offset %d follows %d of its partition", a.Base, e.Base+int64(e.Span)))
		}
		e.Span += a.Span
		e.Records += a.Records
		e.Len += a.Bytes
		e.MinTime = min(e.MinTime, a.MinTime)
		e.MaxTime = max(e.MaxTime, a.MaxTime)
	}
	f.Order = order(of, counts)
}

// stamps reports whether batches get the append time. The topic's settings after all frozen slots
// and this slot's operations decide, so every reader of the log comes to the same answer for each
// batch.
func (c *Core) stamps(topic record.ID) bool {
	return c.lead.overlay.Topic(topic).LogAppendTime()
}

// order lists positions by group, in their order within each: a counting sort.
func order(of, counts []int32) []int32 {
	total := int32(0)
	for g, n := range counts {
		counts[g] = total
		total += n
	}
	out := make([]int32, total)
	for i, g := range of {
		if g >= 0 {
			out[counts[g]] = int32(i)
			counts[g]++
		}
	}
	return out
}

// Patch completes data, the batches of Proposal.Appends[i], with the values that freeze fixed: base
// offset, epoch, and with Stamp the slot's append time. The shell calls it once for each i of
// f.Order before Encode, on bytes that it owns. The bytes never change afterwards, so every attempt
// to store the slot sends the same (rule R1).
func (f *Frozen) Patch(i int32, data []byte) {
	a := &f.Proposal.Appends[i]
	record.Patch(data, a.Base, int32(f.Head.Epoch))
	if a.Stamp {
		record.StampAppendTime(data, f.stamp)
	}
}

// Encode fills in the head's lengths and checksums and returns head, state and index. The object is
// that prefix followed by parts: the data of Proposal.Appends in the order of f.Order, after Patch. That of an append
// with a Marker is record.AppendMarker.
func (f *Frozen) Encode(parts [][]byte) (prefix []byte, headCRC uint32, err error) {
	if len(parts) != len(f.Order) {
		panic(fmt.Sprintf("core: %d parts of slot %d, want %d with its markers of transactions", len(parts), f.Head.Slot, len(f.Order)))
	}
	prefix, err = record.EncodeObject(&f.Head, f.State, f.Index, parts)
	if err != nil {
		return nil, 0, fmt.Errorf("encode slot %d: %w", f.Head.Slot, err)
	}
	return prefix, f.Head.CRC, nil
}

// encoded records the checksum of a frozen slot's head, which the next slot names. EvEncoded comes
// before any other event, so the last slot is the one that was encoded.
func (c *Core) encoded(ev *Event) {
	n := len(c.lead.slots)
	if n == 0 {
		return // fenced or stopped meanwhile
	}
	if s := c.lead.slots[n-1]; !s.encoded {
		s.encoded = true
		c.lead.overlay.PrevCRC = ev.HeadCRC
	}
}

// commitDurable commits slots in order: a slot is committed when it and every slot before it are
// durable (rule R2). A durable slot behind a missing one is not acknowledged, because a takeover
// would cut it off.
func (c *Core) commitDurable() {
	for len(c.lead.slots) > 0 && c.lead.slots[0].durable {
		s := c.lead.slots[0]
		f := s.frozen
		c.countFreed(s.records)
		if err := c.committed.Apply(&f.Head, s.records, f.Index); err != nil {
			c.stop(fmt.Errorf("own slot does not apply: %w", err))
			return
		}
		c.lead.slots[0] = nil
		c.lead.slots = c.lead.slots[1:]
		c.lead.overlay.Committed(f.Head.Slot, s.records)
		c.noteLogTime(f.Head.Time)
		c.applied(s.records, false)
		c.lead.seenAt = c.now
		c.looked(s.storedAt)
		c.confirmed()
		c.emit(Effect{Kind: EffCommit, Frozen: f})
		for _, p := range s.after {
			c.emit(Effect{Kind: EffReject, Proposal: p})
		}
		c.gapFilled(s)
		c.snapshotAfterCommit(&f.Head)
	}
	if len(c.lead.slots) == 0 {
		c.lead.slots = nil
	}
}
