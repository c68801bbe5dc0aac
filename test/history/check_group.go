package history

import "slices"

// register is what is known of one offset of a group. A fetch must return what the last commit before it wrote, or one
// that was under way meanwhile; a commit of unknown outcome stays under way. Commits are told apart by the number of their
// operation, which they carry as metadata.
type register struct {
	commits map[int64]*commit
	live    []*commit // those that are not known to be overwritten
}

// commit is one write to a register; that of nothing, before all others, has operation 0.
type commit struct {
	op     int64
	offset int64
	begin  int64
	done   int64 // when it is known to have happened; never, before
	failed bool
	again  bool // it may happen once more, so that nothing overwrites it for good
	over   []overwrite
}

// overwrite says that from a moment on brokers of an epoch and of later ones do not return a commit any more.
type overwrite struct {
	at    int64
	epoch uint32
}

const never = 1<<63 - 1

func (c *Checker) register(o *open) *register {
	key := registerKey{o.Group, o.Part}
	r := c.registers[key]
	if r == nil {
		nothing := &commit{offset: None}
		r = &register{commits: map[int64]*commit{0: nothing}, live: []*commit{nothing}}
		c.registers[key] = r
	}
	return r
}

func (r *register) begin(c *Checker, o *open) {
	w := &commit{op: o.Op, offset: o.To, begin: c.now, done: never, again: o.Again}
	r.commits[o.Op] = w
	r.live = append(r.live, w)
}

// committed is the end of a commit.
func (c *Checker) committed(o *open, e *Event) {
	r := c.register(o)
	w := r.commits[o.Op]
	w.again = e.Again
	switch e.Is {
	case OK:
		c.stats.Commits++
		r.happened(w, e.Epoch, c.now)
	case Rejected:
		w.failed = true
		r.live = slices.DeleteFunc(r.live, func(v *commit) bool { return v == w })
		if o.Want != nil && e.Code == CodeMismatch && e.At == *o.Want {
			c.fail(RuleWant, o.Part, "a commit on condition that %d is committed was refused because it is", e.At)
		}
	}
}

// happened: w took effect before now, so whatever was done when it began is overwritten for all brokers that know of it.
func (r *register) happened(w *commit, epoch uint32, now int64) {
	w.done = min(w.done, now)
	r.live = slices.DeleteFunc(r.live, func(v *commit) bool {
		if v.done >= w.begin || v == w || v.again {
			return false
		}
		v.over = append(v.over, overwrite{now, epoch})
		// A broker of an older epoch may still answer with it, which the next overwriting commit of such an epoch would
		// end; a commit that several epochs have overwritten needs no more.
		return len(v.over) >= marksKept
	})
}

// fetched is the end of a fetch.
func (c *Checker) fetched(o *open, e *Event) {
	if e.Is != OK {
		return
	}
	c.stats.Fetches++
	r := c.register(o)
	w := r.commits[e.By]
	switch {
	case w == nil:
		c.fail(RuleGroup, o.Part, "group %s has committed %d, by operation %d, which is no commit of it", o.Group, e.At, e.By)
		return
	case w.offset != e.At:
		c.fail(RuleGroup, o.Part, "group %s has committed %d, by operation %d, which wanted %d", o.Group, e.At, e.By, w.offset)
		return
	case w.failed:
		c.fail(RuleAborted, o.Part, "group %s has committed %d by operation %d, which was rejected", o.Group, e.At, e.By)
		return
	}
	for _, v := range w.over {
		if v.at < o.T && v.epoch <= e.Epoch && e.Epoch > 0 {
			c.fail(RuleGroup, o.Part, "group %s has committed %d, by operation %d, says epoch %d; epoch %d had overwritten it %dns before it was asked",
				o.Group, e.At, e.By, e.Epoch, v.epoch, o.T-v.at)
			return
		}
	}
	r.happened(w, e.Epoch, c.now)
}

func (c *Checker) progressOf(o *open) *stream {
	key := registerKey{o.Group, o.Part}
	if c.progress[key] == nil {
		c.progress[key] = &stream{part: o.Part}
	}
	return c.progress[key]
}

// progressed is the end of a fetch of what members have committed.
func (c *Checker) progressed(o *open, e *Event) {
	if e.Is != OK {
		return
	}
	c.stats.Fetches++
	at := max(e.At, 0)
	if least := floor(&o.marks, e.Epoch); at < least.end {
		c.fail(RuleBack, o.Part, "group %s has committed %d, says epoch %d; one no newer had said %d before it was asked", o.Group, at, e.Epoch, least.end)
	}
	if given := c.given[registerKey{o.Group, o.Part}]; at > given {
		c.fail(RuleBack, o.Part, "group %s has committed %d, and was given what is below %d", o.Group, at, given)
	}
	c.progressOf(o).raise(e.Epoch, at, 0)
}
