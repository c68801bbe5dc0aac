package history

// reachMax bounds the distance of an offset from the known ones, so that a damaged answer cannot
// exhaust the checker's memory.
const reachMax = 1 << 24

// read processes the end of a read.
func (c *Checker) read(o *operation, e *Event) {
	s := c.stream(o.Part)
	if e.Bad != "" {
		c.fail(RuleForeign, o.Part, "%s", e.Bad)
	}
	if e.Is != OK {
		c.showsStart(s, o, e)
		return
	}
	next := o.From
	for i := range e.Got {
		r := &e.Got[i]
		if r[0] < 0 || r[0]+r[3] > int64(len(s.at))+reachMax {
			c.fail(RuleForeign, o.Part, "record at offset %d", r[0])
			return
		}
		if next >= 0 && r[0] != next {
			c.fail(RuleGap, o.Part, "got offset %d, expected %d", r[0], next)
		}
		next = r[0] + r[3]
		c.readRun(s, r)
	}
	c.continues(s, o, e, next)
	c.shows(s, o, e, next)
}

// readRun checks the records of a run.
func (c *Checker) readRun(s *stream, r *Run) {
	c.stats.Read += r[3]
	s.highest = max(s.highest, r[0]+r[3])
	k := c.clients[int32(r[1])]
	if k == nil || r[2] < 0 || r[2]+r[3] > int64(len(k.records)) {
		c.fail(RuleForeign, s.part, "offset %d holds record %d.%d, which was not sent yet", r[0], r[1], r[2])
		return
	}
	for i := range r[3] {
		seq, offset := r[2]+i, r[0]+i
		p := &k.records[seq]
		if p.part() != s.part {
			c.fail(RuleForeign, s.part, "offset %d holds record %d.%d, which was sent to partition %d", offset, k.id, seq, p.part())
			return
		}
		if p.outcome() == rejected {
			c.fail(RuleAborted, s.part, "offset %d holds record %d.%d, which was rejected", offset, k.id, seq)
		}
		if *p&seen == 0 && p.outcome() != acked {
			c.found(s, k, seq, offset)
		}
		c.locate(s, k, seq, offset)
		*p |= seen
	}
}

// found checks a record without an acknowledgement when it is first read.
func (c *Checker) found(s *stream, k *client, seq, offset int64) {
	d := k.unackedOf(seq)
	if d == nil {
		return
	}
	if k.records[seq].outcome() == unknown {
		c.stats.Late++
	}
	base := offset - (seq - d.seq)
	if d.base == None {
		d.base = base
		if base < d.end {
			c.fail(RuleTime, s.part, "record %d.%d of unknown outcome is at %d, but the partition's end was %d when it was sent", k.id, d.seq, base, d.end)
		}
	}
	if d.base != base {
		c.fail(RuleTorn, s.part, "record %d.%d is at %d, but its append starts at %d with %d.%d", k.id, seq, offset, d.base, k.id, d.seq)
	}
}

// continues checks that a read continues its session, and that a session continues its group's
// reading.
func (c *Checker) continues(s *stream, o *operation, e *Event, next int64) {
	if o.Session == "" || len(e.Got) == 0 {
		return
	}
	key := sessionKey{o.Session, s.part}
	first := e.Got[0][0]
	before, begun := c.sessions[key]
	if begun && first != before {
		c.fail(RulePoll, s.part, "session %s: got offset %d, expected %d", o.Session, first, before)
	}
	c.sessions[key] = next
	if o.Group == "" {
		return
	}
	group := registerKey{o.Group, s.part}
	if given := max(c.given[group], s.start); !begun && first > given {
		c.fail(RuleSkip, s.part, "group %s: session %s starts at %d, but the group got only records below %d", o.Group, o.Session, first, given)
	}
	c.given[group] = max(c.given[group], next)
}

// shows checks the end in an answer, and the range of its records, against what was known when the
// request began.
func (c *Checker) shows(s *stream, o *operation, e *Event, next int64) {
	end := e.End
	if len(e.Got) > 0 {
		end = max(end, next)
	}
	switch {
	case len(e.Got) > 0 && e.End > 0 && next > e.End:
		c.fail(RuleStale, o.Part, "got a record at %d, but the end is %d", next-1, e.End)
	case len(e.Got) == 0 && !e.Cut && o.From >= 0 && e.End > o.From:
		c.fail(RuleGap, o.Part, "got no record from %d on, but the end is %d", o.From, e.End)
	}
	least := floor(&o.marks, e.Epoch)
	if e.End > 0 && e.End < least.end {
		c.fail(RuleStale, o.Part, "epoch %d answered end %d; a broker of no newer epoch answered or acknowledged %d before the request", e.Epoch, e.End, least.end)
	}
	if len(e.Got) > 0 && e.Got[0][0] < least.start {
		c.fail(RuleStale, o.Part, "epoch %d returned offset %d; a broker of no newer epoch had trimmed to %d before the request", e.Epoch, e.Got[0][0], least.start)
	}
	if e.End == 0 && len(e.Got) == 0 {
		return
	}
	s.raise(e.Epoch, end, 0)
	c.showsStart(s, o, e)
}

// showsStart checks the start in an answer.
func (c *Checker) showsStart(s *stream, o *operation, e *Event) {
	if e.Start == 0 {
		return
	}
	if e.Start > s.trimMost {
		c.fail(RuleStart, o.Part, "the partition starts at %d, but the highest requested trim is %d", e.Start, s.trimMost)
	}
	if least := floor(&o.marks, e.Epoch); e.Start < least.start {
		c.fail(RuleStale, o.Part, "epoch %d answered start %d; a broker of no newer epoch answered %d before the request", e.Epoch, e.Start, least.start)
	}
	s.raise(e.Epoch, 0, e.Start)
}

// trimmed processes the end of a trim.
func (c *Checker) trimmed(o *operation, e *Event) {
	if e.Is != OK {
		return
	}
	c.stats.Trims++
	if e.Start < o.To {
		c.fail(RuleStart, o.Part, "trimmed to %d, but the partition starts at %d", o.To, e.Start)
	}
	c.showsStart(c.stream(o.Part), o, e)
}

// Finish checks what is only known at the end, after everything was read.
func (c *Checker) Finish() {
	c.op = 0
	for _, s := range c.streams {
		if s != nil {
			c.finish(s)
		}
	}
	for _, k := range c.clients {
		for seq, p := range k.records {
			s := c.stream(p.part())
			if p.outcome() != acked || p&seen != 0 || p.offset() < s.start {
				continue
			}
			rule := RuleLost
			if p.offset() >= s.highest {
				rule = RuleUnseen
			}
			c.fail(rule, s.part, "record %d.%d, acknowledged at %d, was never read; the highest offset read is %d", k.id, seq, p.offset(), s.highest-1)
		}
		for _, d := range k.unacked {
			k.whole(c, d)
		}
	}
}

// whole checks that an append without an acknowledgement is complete if any part of it was found.
func (k *client) whole(c *Checker, d unackedAppend) {
	for i := range d.n {
		p := k.records[d.seq+i]
		if d.base != None && p&seen == 0 && d.base+i >= c.stream(p.part()).start {
			c.fail(RuleTorn, p.part(), "records %d.%d to %d.%d were appended at %d, but %d.%d is missing", k.id, d.seq, k.id, d.seq+d.n-1, d.base, k.id, d.seq+i)
		}
	}
}

// finish checks a partition: no offset without a record, and the order of each idempotent
// producer's records.
func (c *Checker) finish(s *stream) {
	last := map[int32]int64{}
	for offset := s.start; offset < s.highest; offset++ {
		if offset >= int64(len(s.at)) || s.at[offset] == 0 {
			c.fail(RuleGap, s.part, "offset %d was never read, but %d was", offset, s.highest-1)
			continue
		}
		id, seq := ofIdentity(s.at[offset])
		if !c.clients[id].ordered {
			continue
		}
		if before, ok := last[id]; ok && before > seq {
			c.fail(RuleOrder, s.part, "record %d.%d is at %d, after %d.%d", id, seq, offset, id, before)
		}
		last[id] = seq
	}
}
