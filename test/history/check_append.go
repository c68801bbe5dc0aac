package history

import (
	"cmp"
	"slices"
)

// place is what is known of one record that was sent: offset 48 bits, partition 8, outcome 2, located, seen.
type place uint64

const (
	offsetBits = 48
	offsetMax  = 1<<offsetBits - 1

	outcomeMask place = 3 << (offsetBits + 8)
	located     place = 1 << (offsetBits + 10) // an acknowledgement or a read has said where it is
	seen        place = 1 << (offsetBits + 11) // a read has
)

// The outcomes.
const (
	pending place = iota << (offsetBits + 8)
	acked
	rejected
	unknown
)

func (p place) outcome() place { return p & outcomeMask }
func (p place) offset() int64  { return int64(p & offsetMax) }
func (p place) part() int32    { return int32(p >> offsetBits & 0xff) }

func (p place) with(outcome place) place { return p&^outcomeMask | outcome }

func (p place) atOffset(offset int64) place { return p&^offsetMax | place(offset) | located }

// identity names a record as a stream remembers it.
func identity(client int32, seq int64) uint64 { return uint64(client)<<40 | uint64(seq+1) }

func ofIdentity(x uint64) (client int32, seq int64) { return int32(x >> 40), int64(x&(1<<40-1)) - 1 }

// client is what is known of a sender.
type client struct {
	id      int32
	ordered bool
	places  []place // by sequence
	doubts  []doubt // its appends that have no acknowledgement, by sequence
}

// doubt is an append under way or of unknown outcome.
type doubt struct {
	seq, n int64
	end    int64 // of the partition when it began
	base   int64 // where it was found, or None
}

func (k *client) send(c *Checker, o *open) {
	if o.Seq != int64(len(k.places)) || o.N < 1 {
		c.fail(RuleHistory, o.Part, "client %d sends %d records from number %d on, %d is next", k.id, o.N, o.Seq, len(k.places))
		return
	}
	k.ordered = k.ordered || o.Ordered
	for range o.N {
		k.places = append(k.places, place(o.Part)<<offsetBits|pending)
	}
	k.doubts = append(k.doubts, doubt{seq: o.Seq, n: o.N, end: o.end, base: None})
}

// doubt finds the append of a record; nil if it is settled.
func (k *client) doubt(seq int64) *doubt {
	i, found := slices.BinarySearchFunc(k.doubts, seq, func(d doubt, s int64) int { return cmp.Compare(d.seq, s) })
	if !found {
		i--
	}
	if i < 0 || seq >= k.doubts[i].seq+k.doubts[i].n {
		return nil
	}
	return &k.doubts[i]
}

func (k *client) settle(seq int64) {
	i, found := slices.BinarySearchFunc(k.doubts, seq, func(d doubt, s int64) int { return cmp.Compare(d.seq, s) })
	if found {
		k.doubts = slices.Delete(k.doubts, i, i+1)
	}
}

// appended is the end of an append.
func (c *Checker) appended(o *open, e *Event) {
	k := c.client(o.Client)
	if o.Seq+o.N > int64(len(k.places)) {
		return // said already
	}
	outcome := unknown
	switch e.Is {
	case OK:
		outcome = acked
	case Rejected:
		outcome = rejected
	}
	for i := range o.N {
		p := &k.places[o.Seq+i]
		*p = p.with(outcome)
		if outcome == rejected && *p&seen != 0 {
			c.fail(RuleAborted, o.Part, "%d.%d was rejected (%s) and has been read at %d", k.id, o.Seq+i, e.Code, p.offset())
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

func (c *Checker) acknowledged(k *client, o *open, e *Event) {
	c.stats.Acked++
	c.stats.Records += o.N
	s := c.stream(o.Part)
	switch {
	case e.At < 0 || e.At+o.N > offsetMax:
		c.fail(RuleMoved, o.Part, "%d.%d acknowledged at %d", k.id, o.Seq, e.At)
		return
	case o.Want != nil && e.At != *o.Want:
		c.fail(RuleWant, o.Part, "%d.%d was to get offset %d and is acknowledged at %d", k.id, o.Seq, *o.Want, e.At)
	case e.At < o.end:
		c.fail(RuleTime, o.Part, "%d.%d acknowledged at %d, and the partition had reached %d when it began", k.id, o.Seq, e.At, o.end)
	}
	for i := range o.N {
		c.locate(s, k, o.Seq+i, e.At+i)
	}
	k.settle(o.Seq)
	s.raise(e.Epoch, e.At+o.N, 0)
}

// refusedCondition judges an append that was refused for its condition. The end that the answer names is that of a moment
// between its begin and its end.
func (c *Checker) refusedCondition(o *open, e *Event) {
	if o.Want == nil || e.Code != CodeMismatch {
		return
	}
	if e.At == *o.Want {
		c.fail(RuleWant, o.Part, "%d.%d was to get offset %d and was refused because that is the end", o.Client, o.Seq, e.At)
	}
	if least := floor(&o.marks, e.Epoch); e.At < least.end {
		c.fail(RuleStale, o.Part, "the end is said to be %d, epoch %d had reached %d before", e.At, e.Epoch, least.end)
	}
	c.stream(o.Part).raise(e.Epoch, e.At, 0)
}

// CodeMismatch is the Event.Code of a condition that failed; Event.At then says what is there.
const CodeMismatch = "mismatch"

// locate notes that a record is at an offset, because an acknowledgement or a read says so.
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
	p := &k.places[seq]
	if *p&located != 0 && p.offset() != offset {
		rule := RuleDuplicate
		if p.outcome() == acked {
			rule = RuleMoved
		}
		c.fail(rule, s.part, "%d.%d is at %d and at %d", k.id, seq, p.offset(), offset)
		return
	}
	s.at[offset] = id
	*p = p.atOffset(offset)
}
