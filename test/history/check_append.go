package history

import (
	"cmp"
	"slices"
)

// recordState is what is known of a sent record:
//
//	bits   0-47     48-55       56-57     58        59
//	       offset | partition | outcome | located | seen
type recordState uint64

const (
	offsetBits = 48
	offsetMax  = 1<<offsetBits - 1

	outcomeMask recordState = 3 << (offsetBits + 8)
	located     recordState = 1 << (offsetBits + 10) // its offset is known
	seen        recordState = 1 << (offsetBits + 11) // it was read
)

// The outcomes.
const (
	pending recordState = iota << (offsetBits + 8)
	acked
	rejected
	unknown
)

func (p recordState) outcome() recordState { return p & outcomeMask }
func (p recordState) offset() int64        { return int64(p & offsetMax) }
func (p recordState) part() int32          { return int32(p >> offsetBits & 0xff) }

func (p recordState) with(outcome recordState) recordState { return p&^outcomeMask | outcome }

func (p recordState) atOffset(offset int64) recordState {
	return p&^offsetMax | recordState(offset) | located
}

// identity encodes a record for stream.at.
func identity(client int32, seq int64) uint64 { return uint64(client)<<40 | uint64(seq+1) }

func ofIdentity(x uint64) (client int32, seq int64) { return int32(x >> 40), int64(x&(1<<40-1)) - 1 }

// client is what is known of a sender.
type client struct {
	id      int32
	ordered bool
	records []recordState   // by sequence
	unacked []unackedAppend // appends without an acknowledgement, by sequence
}

// unackedAppend is an append in progress or of unknown outcome.
type unackedAppend struct {
	seq, n int64
	end    int64 // of the partition at the beginning
	base   int64 // where it was found, or None
}

func (k *client) send(c *Checker, o *operation) {
	if o.Seq != int64(len(k.records)) || o.N < 1 {
		c.fail(RuleHistory, o.Part, "client %d sends %d records from number %d on, %d is next", k.id, o.N, o.Seq, len(k.records))
		return
	}
	k.ordered = k.ordered || o.Ordered
	for range o.N {
		k.records = append(k.records, recordState(o.Part)<<offsetBits|pending)
	}
	k.unacked = append(k.unacked, unackedAppend{seq: o.Seq, n: o.N, end: o.end, base: None})
}

// unackedOf returns the append of a record, or nil if it was acknowledged or rejected.
func (k *client) unackedOf(seq int64) *unackedAppend {
	i, found := slices.BinarySearchFunc(k.unacked, seq, func(d unackedAppend, s int64) int { return cmp.Compare(d.seq, s) })
	if !found {
		i--
	}
	if i < 0 || seq >= k.unacked[i].seq+k.unacked[i].n {
		return nil
	}
	return &k.unacked[i]
}

func (k *client) settle(seq int64) {
	i, found := slices.BinarySearchFunc(k.unacked, seq, func(d unackedAppend, s int64) int { return cmp.Compare(d.seq, s) })
	if found {
		k.unacked = slices.Delete(k.unacked, i, i+1)
	}
}

// appended processes the end of an append.
func (c *Checker) appended(o *operation, e *Event) {
	k := c.client(o.Client)
	if o.Seq+o.N > int64(len(k.records)) {
		return // reported by send
	}
	outcome := unknown
	switch e.Is {
	case OK:
		outcome = acked
	case Rejected:
		outcome = rejected
	}
	for i := range o.N {
		p := &k.records[o.Seq+i]
		*p = p.with(outcome)
		if outcome == rejected && *p&seen != 0 {
			c.fail(RuleAborted, o.Part, "record %d.%d was rejected (%s) but read at %d", k.id, o.Seq+i, e.Code, p.offset())
		}
	}
	switch outcome {
	case acked:
		c.acknowledged(k, o, e)
	case rejected:
		c.stats.Rejected++
		k.settle(o.Seq)
		c.refusedCondition(o, e)
	default:
		c.stats.Unknown++
	}
}

func (c *Checker) acknowledged(k *client, o *operation, e *Event) {
	c.stats.Acked++
	c.stats.Records += o.N
	s := c.stream(o.Part)
	switch {
	case e.At < 0 || e.At+o.N > offsetMax:
		c.fail(RuleMoved, o.Part, "record %d.%d acknowledged at %d", k.id, o.Seq, e.At)
		return
	case o.Want != nil && e.At != *o.Want:
		c.fail(RuleWant, o.Part, "record %d.%d required offset %d and was acknowledged at %d", k.id, o.Seq, *o.Want, e.At)
	case e.At < o.end:
		c.fail(RuleTime, o.Part, "record %d.%d acknowledged at %d, but the partition's end was %d when it began", k.id, o.Seq, e.At, o.end)
	}
	for i := range o.N {
		c.locate(s, k, o.Seq+i, e.At+i)
	}
	k.settle(o.Seq)
	s.raise(e.Epoch, e.At+o.N, 0)
}

// refusedCondition checks an append that was refused for its condition. Its answer names the end at
// some moment during the append.
func (c *Checker) refusedCondition(o *operation, e *Event) {
	if o.Want == nil || e.Code != CodeMismatch {
		return
	}
	if e.At == *o.Want {
		c.fail(RuleWant, o.Part, "record %d.%d required offset %d and was refused, although that is the end", o.Client, o.Seq, e.At)
	}
	if least := floor(&o.marks, e.Epoch); e.At < least.end {
		c.fail(RuleStale, o.Part, "answered end %d, but epoch %d had reached %d before", e.At, e.Epoch, least.end)
	}
	c.stream(o.Part).raise(e.Epoch, e.At, 0)
}

// CodeMismatch is the Event.Code of a failed condition; Event.At is then the actual value.
const CodeMismatch = "mismatch"

// locate records the offset of a record, given by an acknowledgement or a read.
func (c *Checker) locate(s *stream, k *client, seq, offset int64) {
	for int64(len(s.at)) <= offset {
		s.at = append(s.at, 0)
	}
	id := identity(k.id, seq)
	if there := s.at[offset]; there != 0 && there != id {
		client, other := ofIdentity(there)
		c.fail(RuleOffset, s.part, "offset %d holds %d.%d and %d.%d", offset, client, other, k.id, seq)
		return
	}
	p := &k.records[seq]
	if *p&located != 0 && p.offset() != offset {
		rule := RuleDuplicate
		if p.outcome() == acked {
			rule = RuleMoved
		}
		c.fail(rule, s.part, "record %d.%d is at %d and at %d", k.id, seq, p.offset(), offset)
		return
	}
	s.at[offset] = id
	*p = p.atOffset(offset)
}
