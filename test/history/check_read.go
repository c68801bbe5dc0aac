package history

// reachMax bounds how far beyond what is known an offset may lie: a damaged answer must not make the checker take all
// memory.
const reachMax = 1 << 24

// read is the end of a read.
func (c *Checker) read(o *open, e *Event) {
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
			c.fail(RuleForeign, o.Part, "a record at offset %d", r[0])
			return
		}
		if next >= 0 && r[0] != next {
			c.fail(RuleGap, o.Part, "offset %d comes where %d was to come", r[0], next)
		}
		next = r[0] + r[3]
		c.readRun(s, r)
	}
	c.goesOn(s, o, e, next)
	c.shows(s, o, e, next)
}

// readRun judges the records of a run.
func (c *Checker) readRun(s *stream, r *Run) {
	c.stats.Read += r[3]
	s.highest = max(s.highest, r[0]+r[3])
	k := c.clients[int32(r[1])]
	if k == nil || r[2] < 0 || r[2]+r[3] > int64(len(k.places)) {
		c.fail(RuleForeign, s.part, "offset %d holds %d.%d, which was not sent yet", r[0], r[1], r[2])
		return
	}
	for i := range r[3] {
		seq, offset := r[2]+i, r[0]+i
		p := &k.places[seq]
		if p.part() != s.part {
			c.fail(RuleForeign, s.part, "offset %d holds %d.%d, which was sent to partition %d", offset, k.id, seq, p.part())
			return
		}
		if p.outcome() == rejected {
			c.fail(RuleAborted, s.part, "offset %d holds %d.%d, which was rejected", offset, k.id, seq)
		}
		if *p&seen == 0 && p.outcome() != acked {
			c.found(s, k, seq, offset)
		}
		c.locate(s, k, seq, offset)
		*p |= seen
	}
}

// found judges a record whose append has no acknowledgement, when it is seen first.
func (c *Checker) found(s *stream, k *client, seq, offset int64) {
	d := k.doubt(seq)
	if d == nil {
		return
	}
	if k.places[seq].outcome() == unknown {
		c.stats.Late++
	}
	base := offset - (seq - d.seq)
	if d.base == None {
		d.base = base
		if base < d.end {
			c.fail(RuleTime, s.part, "%d.%d, of unknown outcome, is at %d, and the partition had reached %d when it was sent", k.id, d.seq, base, d.end)
		}
	}
	if d.base != base {
		c.fail(RuleTorn, s.part, "%d.%d is at %d, and the append that it is of begins at %d with %d.%d", k.id, seq, offset, d.base, k.id, d.seq)
	}
}

// goesOn judges a read as a part of its session, and a session as a part of its group's reading.
func (c *Checker) goesOn(s *stream, o *open, e *Event, next int64) {
	if o.Session == "" || len(e.Got) == 0 {
		return
	}
	key := sessionKey{o.Session, s.part}
	first := e.Got[0][0]
	before, begun := c.sessions[key]
	if begun && first != before {
		c.fail(RulePoll, s.part, "session %s: offset %d comes where %d was to come", o.Session, first, before)
	}
	c.sessions[key] = next
	if o.Group == "" {
		return
	}
	group := registerKey{o.Group, s.part}
	if given := max(c.given[group], s.start); !begun && first > given {
		c.fail(RuleSkip, s.part, "group %s: session %s begins at %d, the group was given what is below %d", o.Group, o.Session, first, given)
	}
	c.given[group] = max(c.given[group], next)
}

// shows judges the end that an answer names, and what it gave from where to where, against what was known when it was
// asked for.
func (c *Checker) shows(s *stream, o *open, e *Event, next int64) {
	end := e.End
	if len(e.Got) > 0 {
		end = max(end, next)
	}
	switch {
	case len(e.Got) > 0 && e.End > 0 && next > e.End:
		c.fail(RuleStale, o.Part, "a record at %d is given, and %d is said to be the end", next-1, e.End)
	case len(e.Got) == 0 && !e.Cut && o.From >= 0 && e.End > o.From:
		c.fail(RuleGap, o.Part, "nothing is given from %d on, and %d is said to be the end", o.From, e.End)
	}
	least := floor(&o.marks, e.Epoch)
	if e.End > 0 && e.End < least.end {
		c.fail(RuleStale, o.Part, "epoch %d shows the end %d; one no newer had shown or acknowledged %d before it was asked", e.Epoch, e.End, least.end)
	}
	if len(e.Got) > 0 && e.Got[0][0] < least.start {
		c.fail(RuleStale, o.Part, "epoch %d gives offset %d, which one no newer had trimmed to %d before it was asked", e.Epoch, e.Got[0][0], least.start)
	}
	if e.End == 0 && len(e.Got) == 0 {
		return
	}
	s.raise(e.Epoch, end, 0)
	c.showsStart(s, o, e)
}

// showsStart judges the start that an answer names.
func (c *Checker) showsStart(s *stream, o *open, e *Event) {
	if e.Start == 0 {
		return
	}
	if e.Start > s.trimMost {
		c.fail(RuleStart, o.Part, "the partition is said to begin at %d, the highest trim that was asked for is to %d", e.Start, s.trimMost)
	}
	if least := floor(&o.marks, e.Epoch); e.Start < least.start {
		c.fail(RuleStale, o.Part, "epoch %d shows the start %d; one no newer had shown %d before it was asked", e.Epoch, e.Start, least.start)
	}
	s.raise(e.Epoch, 0, e.Start)
}

// trimmed is the end of a trim.
func (c *Checker) trimmed(o *open, e *Event) {
	if e.Is != OK {
		return
	}
	c.stats.Trims++
	if e.Start < o.To {
		c.fail(RuleStart, o.Part, "trimmed to %d, and the partition is said to begin at %d", o.To, e.Start)
	}
	c.showsStart(c.stream(o.Part), o, e)
}

// Finish judges what only shows in the end: after everything was read to its end.
func (c *Checker) Finish() {
	c.op = 0
	for _, s := range c.streams {
		if s != nil {
			c.finish(s)
		}
	}
	for _, k := range c.clients {
		for seq, p := range k.places {
			s := c.stream(p.part())
			if p.outcome() != acked || p&seen != 0 || p.offset() < s.start {
				continue
			}
			rule := RuleLost
			if p.offset() >= s.highest {
				rule = RuleUnseen
			}
			c.fail(rule, s.part, "%d.%d, acknowledged at %d, was read by nobody; the highest offset read is %d", k.id, seq, p.offset(), s.highest-1)
		}
		for _, d := range k.doubts {
			k.whole(c, d)
		}
	}
}

// whole judges an append without an acknowledgement of which something was found: then all of it must be.
func (k *client) whole(c *Checker, d doubt) {
	for i := range d.n {
		p := k.places[d.seq+i]
		if d.base != None && p&seen == 0 && d.base+i >= c.stream(p.part()).start {
			c.fail(RuleTorn, p.part(), "%d.%d to %d.%d were appended at %d, and %d.%d is not there", k.id, d.seq, k.id, d.seq+d.n-1, d.base, k.id, d.seq+i)
		}
	}
}

// finish judges a partition: no offset without a record, and each idempotent producer's in its order.
func (c *Checker) finish(s *stream) {
	last := map[int32]int64{}
	for offset := s.start; offset < s.highest; offset++ {
		if offset >= int64(len(s.at)) || s.at[offset] == 0 {
			c.fail(RuleGap, s.part, "nobody has read offset %d, and %d was read", offset, s.highest-1)
			continue
		}
		id, seq := ofIdentity(s.at[offset])
		if !c.clients[id].ordered {
			continue
		}
		if before, ok := last[id]; ok && before > seq {
			c.fail(RuleOrder, s.part, "%d.%d is at %d, behind %d.%d", id, seq, offset, id, before)
		}
		last[id] = seq
	}
}
